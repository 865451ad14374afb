package podstatus

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Request asks the controller for a soft eviction. A reader must still check that the pod is on the
// node of the writer.
type Request struct {
	Namespace string
	Name      string
	UID       string
	// Cause is the name of the signal.
	Cause              string
	GracePeriodSeconds int64     // at least 1, at most a year
	Since              time.Time // whole seconds, UTC
}

// Bounds of accepted requests.
const (
	maxGrace    = 365 * 24 * 3600 // s
	maxUID      = 128             // bytes
	maxRequests = 100
)

// fieldNames are the fields of the compact form after namespace/name, in order.
var fieldNames = [...]string{"uid", "cause", "grace", "since"}

// String returns the compact form: "NAMESPACE/NAME uid=… cause=… grace=SECONDS since=RFC3339".
// [ParseRequest] reads it.
func (r Request) String() string {
	return fmt.Sprintf("%s/%s uid=%s cause=%s grace=%d since=%s",
		r.Namespace, r.Name, r.UID, r.Cause, r.GracePeriodSeconds, stamp(r.Since))
}

// ParseRequest reads the compact form. Returns an error for any other notation of it.
func ParseRequest(text string) (Request, error) {
	parts := strings.Split(text, " ")
	if len(parts) != 1+len(fieldNames) {
		return Request{}, fmt.Errorf("read the eviction request %q: %d fields instead of %d", text, len(parts), 1+len(fieldNames))
	}
	var values [len(fieldNames)]string
	for i, name := range fieldNames {
		value, is := strings.CutPrefix(parts[i+1], name+"=")
		if !is {
			return Request{}, fmt.Errorf("read the eviction request %q: field %d is not %s=…", text, i+2, name)
		}
		values[i] = value
	}
	r, err := request(parts[0], values)
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return Request{}, fmt.Errorf("read the eviction request %q: %w", text, err)
	}
	return r, nil
}

func request(pod string, values [len(fieldNames)]string) (r Request, err error) {
	var slash bool
	r.UID, r.Cause = values[0], values[1]
	if r.Namespace, r.Name, slash = strings.Cut(pod, "/"); !slash {
		return r, fmt.Errorf("pod %q is not NAMESPACE/NAME", pod)
	}
	if r.GracePeriodSeconds, err = parseGrace(values[2]); err != nil {
		return r, err
	}
	if r.Since, err = time.Parse(time.RFC3339, values[3]); err != nil || stamp(r.Since) != values[3] {
		return r, fmt.Errorf("since=%s: not a time like 2006-01-02T15:04:05Z", values[3])
	}
	r.Since = r.Since.UTC()
	return r, nil
}

// parseGrace reads seconds, in their only accepted notation.
func parseGrace(text string) (int64, error) {
	grace, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(grace, 10) != text {
		return 0, fmt.Errorf("a grace period of %q: not a number of seconds", text)
	}
	return grace, nil
}

// check returns the first fault of a request, from whatever source.
func (r *Request) check() error {
	if faults := validation.IsDNS1123Label(r.Namespace); len(faults) > 0 {
		return fmt.Errorf("namespace %q: %s", r.Namespace, faults[0])
	}
	if faults := validation.IsDNS1123Subdomain(r.Name); len(faults) > 0 {
		return fmt.Errorf("pod name %q: %s", r.Name, faults[0])
	}
	if r.UID == "" || len(r.UID) > maxUID || strings.Trim(r.UID, "0123456789abcdefABCDEF-") != "" {
		return fmt.Errorf("uid %q: not one that an API server gives", r.UID)
	}
	if _, err := signals.Parse(r.Cause); err != nil {
		return fmt.Errorf("cause: %w", err)
	}
	if r.GracePeriodSeconds < 1 || r.GracePeriodSeconds > maxGrace {
		return fmt.Errorf("a grace period of %d s: must be from 1 to %d", r.GracePeriodSeconds, maxGrace)
	}
	return nil
}

// between separates requests in one annotation.
const between = "; "

// FormatRequests returns all requests in one line, empty without any.
func FormatRequests(all []Request) string {
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = r.String()
	}
	return strings.Join(texts, between)
}

// ParseRequests reads the result of FormatRequests. Returns an error if one of the requests is
// faulty or there are more than 100: no pod is evicted by an incomplete list.
func ParseRequests(text string) ([]Request, error) {
	if text == "" {
		return nil, nil
	}
	texts := strings.SplitN(text, between, maxRequests+1)
	if len(texts) > maxRequests {
		return nil, fmt.Errorf("read eviction requests: more than %d", maxRequests)
	}
	all := make([]Request, len(texts))
	for i, t := range texts {
		var err error
		if all[i], err = ParseRequest(t); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// petition publishes requests, for agents without rights on pods.
type petition struct {
	publish func([]Request)
	mu      sync.Mutex
	all     []Request
}

func (p *petition) Request(_ context.Context, n Notice, grace int64) (Answer, error) {
	r := Request{n.Namespace, n.Name, n.UID, n.Cause, max(grace, 1), n.Decided.UTC().Truncate(time.Second)}
	if err := r.check(); err != nil {
		return Answer{}, fmt.Errorf("ask for the eviction of pod %s: %w", n.Pod(), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.all, r) {
		return Answer{Outcome: Asked}, nil
	}
	p.all = append(slices.DeleteFunc(p.all, of(n.UID)), r)
	p.publish(slices.Clone(p.all))
	return Answer{Outcome: Asked}, nil
}

func (p *petition) Withdraw(_ context.Context, n Notice) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.all)
	if p.all = slices.DeleteFunc(p.all, of(n.UID)); len(p.all) != before {
		p.publish(slices.Clone(p.all))
	}
	return nil
}

func of(uid string) func(Request) bool {
	return func(r Request) bool { return r.UID == uid }
}
