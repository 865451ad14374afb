package failover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

// replica is a process of plimsoll controller.
type replica struct {
	*cluster.Component
	identity string // in the leader's lease
	began    time.Time
}

// logLine is the part of a controller's log line read here.
type logLine struct {
	Msg, Identity, Address                    string
	Decision, Node, Pod, Change, Reason, Mode string
	DryRun                                    bool
}

// lines returns all log lines of a replica so far.
func (r *replica) lines() (all []logLine) {
	text, err := os.ReadFile(r.Log)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(text) {
		var s logLine
		if json.Unmarshal(line, &s) == nil {
			all = append(all, s)
		}
	}
	return all
}

// decided reports whether a decision matches.
func (r *replica) decided(matches func(*logLine) bool) bool {
	for _, l := range r.lines() {
		if l.Decision != "" && matches(&l) {
			return true
		}
	}
	return false
}

var launched atomic.Int64

// flags of every controller here. With these rates no action is queued.
var flags = []string{
	"controller", "--mode=replace", "--logging-format=json", "--healthz-bind-address=127.0.0.1:0",
	"--node-monitor-period=1s", "--node-monitor-grace-period=" + grace.String(), "--node-startup-grace-period=5s",
	"--node-renew-interval=" + renew.String(), "--outage-grace=" + outageGrace.String(), "--agent-grace=" + agentGrace.String(), "--mass-failure-window=2s",
	"--node-eviction-rate=100", "--unhealthy-zone-threshold=1",
	"--leader-elect-lease-duration=" + lease.String(), "--leader-elect-renew-deadline=" + renewDeadline.String(), "--leader-elect-retry-period=" + leaseRetry.String(),
}

// start runs a controller and waits until it is ready to lead; args override the flags.
func (s *env) start(ctx context.Context, args ...string) (*replica, error) {
	r := &replica{began: time.Now()}
	name := "plimsoll-" + strconv.FormatInt(launched.Add(1), 10)
	args = append(append(flags[:len(flags):len(flags)], "--kubeconfig="+s.kubeconfig), args...)
	var err error
	r.Component, err = s.Launch(ctx, cluster.Program{
		Name:    name,
		Command: func() *exec.Cmd { return exec.Command(binary, args...) },
		Healthy: func(ctx context.Context) error { return ready(ctx, s.Dir+"/logs/"+name+".log") },
	})
	if err != nil {
		return nil, err
	}
	for _, l := range r.lines() {
		if l.Identity != "" {
			r.identity = l.Identity
		}
	}
	if r.identity == "" {
		return nil, fmt.Errorf("the log of %s has no identity:\n%s", name, r.Tail(20))
	}
	return r, nil
}

// ready queries a controller at the address in its log. Returns an error if it is not ready.
func ready(ctx context.Context, log string) error {
	address := ""
	for _, l := range (&replica{Component: &cluster.Component{Log: log}}).lines() {
		if l.Address != "" {
			address = l.Address
		}
	}
	if address == "" {
		return errors.New("no listener yet")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it is not ready: %s", answer.Status)
	}
	return nil
}

// controllers starts count controllers of a scenario.
func (s *env) controllers(count int, args ...string) []*replica {
	s.Helper()
	for range count {
		r, err := s.start(s.Context(), args...)
		s.must(err)
		*s.replicas = append(*s.replicas, r)
	}
	s.until("a controller leads", func() bool { return s.leader() != nil })
	return *s.replicas
}

// renewal is a successful write to the leader's lease.
type renewal struct {
	at     time.Time
	holder string // empty: released
}

// renewals returns the writes to the leader's lease in this scenario.
func (s *env) renewals() (all []renewal) {
	for _, w := range s.writes(func(w *recorder.Write) bool { return w.Resource == "leases" && w.Namespace == namespace && w.Done() }) {
		var l struct {
			Spec struct{ HolderIdentity string }
		}
		if json.Unmarshal(w.Answer, &l) == nil {
			all = append(all, renewal{w.At, l.Spec.HolderIdentity})
		}
	}
	return all
}

// leader returns the known leader: the replica that wrote its lease last, if it still runs.
func (s *env) leader() *replica {
	all := s.renewals()
	if len(all) == 0 {
		return nil
	}
	for _, r := range *s.replicas {
		if r.identity == all[len(all)-1].holder && r.Running() {
			return r
		}
	}
	return nil
}
