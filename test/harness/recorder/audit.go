package recorder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// An Audit is that of an API server, of some users' requests.
type Audit struct{ policy, log string }

// policyHead and policyRule make the server note writes with all that was sent
// and answered, reads and watches by their names, and others' requests not at all.
const (
	policyHead = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nomitManagedFields: true\nrules:\n"
	policyRule = "- {level: RequestResponse, users: [%q], verbs: [create, update, patch, delete, deletecollection]}\n- {level: Metadata, users: [%[1]q]}\n"
	policyRest = "- {level: None}\n"
)

// NewAudit writes an audit policy into a directory, which the log will be in,
// too.
func NewAudit(dir string, users ...string) (*Audit, error) {
	a := &Audit{policy: filepath.Join(dir, "audit-policy.yaml"), log: filepath.Join(dir, "audit.log")}
	text := policyHead
	for _, user := range users {
		text += fmt.Sprintf(policyRule, user)
	}
	return a, os.WriteFile(a.policy, []byte(text+policyRest), 0o600)
}

// Flags are what the API server is started with.
func (a *Audit) Flags() []string {
	return []string{"--audit-policy-file=" + a.policy, "--audit-log-path=" + a.log, "--audit-log-maxsize=1024"} // MiB: never rotated
}

// A Write is a request to the API server, and what became of it. Reads are
// requests of the same form, without what was sent and answered.
type Write struct {
	At   time.Time // when the server got it
	User string
	Verb string
	// Resource may have a subresource: pods/status.
	Resource        string
	Namespace, Name string
	Code            int             // of HTTP; 0: the server gave no answer
	Sent, Answer    json.RawMessage // objects of the API
	object          Object
}

// line is an event of audit.k8s.io/v1, with what is used here.
type line struct {
	Verb string
	User struct{ Username string }
	Ref  struct {
		Resource, Subresource, Namespace, Name string
	} `json:"objectRef"`
	Status   struct{ Code int } `json:"responseStatus"`
	Sent     json.RawMessage    `json:"requestObject"`
	Answer   json.RawMessage    `json:"responseObject"`
	Received time.Time          `json:"requestReceivedTimestamp"`
}

func (l *line) write() *Write {
	w := &Write{
		At: l.Received, User: l.User.Username, Verb: l.Verb, Resource: l.Ref.Resource,
		Namespace: l.Ref.Namespace, Name: l.Ref.Name, Code: l.Status.Code, Sent: l.Sent, Answer: l.Answer,
	}
	if l.Ref.Subresource != "" {
		w.Resource += "/" + l.Ref.Subresource
	}
	var o struct{ Metadata Object }
	if len(w.Answer) > 0 && json.Unmarshal(w.Answer, &o) == nil { // a Status has no such metadata
		w.object = o.Metadata
	}
	if w.Name == "" { // a create: the server knows the name by its answer
		w.Name = w.object.Name
	}
	return w
}

// An Object is what every object of the API says of itself.
type Object struct {
	Name, Namespace, UID, ResourceVersion string
	DeletionTimestamp                     *time.Time
}

// Object is that of the answer, empty where the answer is none.
func (w *Write) Object() Object { return w.object }

// Done reports that the server did as it was asked.
func (w *Write) Done() bool { return w.Code >= 200 && w.Code < 300 }

// Changes reports that the request is one that changes something, if it is done.
func (w *Write) Changes() bool {
	switch w.Verb {
	case "get", "list", "watch":
		return false
	}
	return true
}

// String is the request in a line, for people.
func (w *Write) String() string {
	return fmt.Sprintf("%s %s %s %s/%s: %d %s", w.At.Format("15:04:05.000"), w.Verb, w.Resource, w.Namespace, w.Name, w.Code, w.Sent)
}

// Of matches requests by verb and resource; empty is any.
func Of(verb, resource string) func(*Write) bool {
	return func(w *Write) bool {
		return (verb == "" || w.Verb == verb) && (resource == "" || w.Resource == resource)
	}
}

// readInterval is how often the log is looked at for new lines.
const readInterval = 20 * time.Millisecond

// follow hands over each line of the log as it comes, until ctx ends.
func (a *Audit) follow(ctx context.Context, note func(*Write)) error {
	ticks := time.NewTicker(readInterval)
	defer ticks.Stop()
	var log *os.File
	var rest []byte
	for {
		if log == nil {
			file, err := os.Open(a.log)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err == nil {
				defer file.Close()
				log = file
			}
		}
		if log != nil {
			text, err := io.ReadAll(log)
			if err != nil {
				return fmt.Errorf("read the audit log %s: %w", a.log, err)
			}
			if rest, err = each(append(rest, text...), note); err != nil {
				return fmt.Errorf("read the audit log %s: %w", a.log, err)
			}
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// each hands over what is in complete lines, and gives back what is not.
func each(text []byte, note func(*Write)) (rest []byte, err error) {
	for {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return text, nil
		}
		var l line
		if err := json.Unmarshal(text[:end], &l); err != nil {
			return nil, fmt.Errorf("line %q: %w", strings.TrimSpace(string(text[:end])), err)
		}
		note(l.write())
		text = text[end+1:]
	}
}
