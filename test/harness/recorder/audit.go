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

// Audit is the audit of an API server, limited to the requests of some users.
type Audit struct{ policy, log string }

// policyHead and policyRule configure the audit level: writes with request and response bodies,
// reads and watches with metadata only, requests of other users not at all.
const (
	policyHead = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nomitManagedFields: true\nrules:\n"
	policyRule = "- {level: RequestResponse, users: [%q], verbs: [create, update, patch, delete, deletecollection]}\n- {level: Metadata, users: [%[1]q]}\n"
	policyRest = "- {level: None}\n"
)

// NewAudit writes an audit policy into a directory, which also receives the log. Returns the
// error of that write.
func NewAudit(dir string, users ...string) (*Audit, error) {
	a := &Audit{policy: filepath.Join(dir, "audit-policy.yaml"), log: filepath.Join(dir, "audit.log")}
	text := policyHead
	for _, user := range users {
		text += fmt.Sprintf(policyRule, user)
	}
	return a, os.WriteFile(a.policy, []byte(text+policyRest), 0o600)
}

// Flags returns the audit flags of the API server.
func (a *Audit) Flags() []string {
	return []string{"--audit-policy-file=" + a.policy, "--audit-log-path=" + a.log, "--audit-log-maxsize=1024"} // MiB: never rotated
}

// Write is a request to the API server and its result. Reads have the same form, without the
// bodies.
type Write struct {
	At   time.Time // when the server received it
	User string
	Verb string
	// Resource can have a subresource: pods/status.
	Resource        string
	Namespace, Name string
	Code            int             // of HTTP; 0: no response
	Sent, Answer    json.RawMessage // objects of the API
	object          Object
}

// line is an event of audit.k8s.io/v1, limited to the fields used here.
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
	if w.Name == "" { // a create: only the response contains the name
		w.Name = w.object.Name
	}
	return w
}

// Object is the metadata that every API object has.
type Object struct {
	Name, Namespace, UID, ResourceVersion string
	DeletionTimestamp                     *time.Time
}

// Object returns the object of the response, empty if the response contains none.
func (w *Write) Object() Object { return w.object }

// Done reports whether the server executed the request.
func (w *Write) Done() bool { return w.Code >= 200 && w.Code < 300 }

// Changes reports whether a successful request of this verb changes state.
func (w *Write) Changes() bool {
	switch w.Verb {
	case "get", "list", "watch":
		return false
	}
	return true
}

// String formats the request as one readable line.
func (w *Write) String() string {
	return fmt.Sprintf("%s %s %s %s/%s: %d %s", w.At.Format("15:04:05.000"), w.Verb, w.Resource, w.Namespace, w.Name, w.Code, w.Sent)
}

// Of returns a predicate on verb and resource; empty matches any.
func Of(verb, resource string) func(*Write) bool {
	return func(w *Write) bool {
		return (verb == "" || w.Verb == verb) && (resource == "" || w.Resource == resource)
	}
}

// readInterval is the interval at which the log is read for new lines.
const readInterval = 20 * time.Millisecond

// follow passes each new line of the log to note until ctx ends.
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

// each passes complete lines to note and returns the incomplete rest.
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
