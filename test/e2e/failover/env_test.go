package failover

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/hollow"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

// Times of these clusters: a tenth of the defaults.
const (
	renew = time.Second     // of leases
	grace = 4 * time.Second // --node-monitor-grace-period
	// lease is the time until a killed leader's lease expires.
	lease = 3 * time.Second
	// leaseRetry is the interval at which the leader renews its lease.
	leaseRetry = 500 * time.Millisecond
	// renewDeadline is that of the leader's lease. Half of it bounds each request of a controller.
	renewDeadline  = 2 * time.Second
	requestTimeout = renewDeadline / 2
	outageGrace    = grace           // --outage-grace
	agentGrace     = 3 * time.Second // --agent-grace
	// slack is the tolerated delay on an idle machine, and the extra time in which a wrong action would show.
	slack = time.Second
	// patience bounds every wait, as a protection against hangs.
	patience = time.Minute
)

// account is the controllers' account; the audit has all their actions under this name.
const (
	namespace = "plimsoll-system"
	account   = "plimsoll-controller"
	user      = "system:serviceaccount:" + namespace + ":" + account
)

var binary string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "plimsoll-failover-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "plimsoll")
	build := exec.Command("go", "build", "-o", binary, "../../../cmd/plimsoll")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the controller: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// env is a cluster with the controller's rights in it, hollow nodes, and a record of all
// events.
type env struct {
	*testing.T
	*cluster.Cluster
	api        kubernetes.Interface // as the administrator
	rec        *recorder.Recorder
	farm       *hollow.Farm
	kubeconfig string    // of the controllers, through the front
	began      time.Time // start of the scenario

	replicas *[]*replica
}

func set(t *testing.T) *env {
	t.Helper()
	cluster.Need(t)
	audit, err := recorder.NewAudit(t.TempDir(), user)
	if err != nil {
		t.Fatal(err)
	}
	s := &env{T: t, replicas: &[]*replica{}, began: time.Now()}
	s.Cluster = cluster.Make(t, cluster.Options{
		Components: cluster.APIServer,
		Args:       map[cluster.Components][]string{cluster.APIServer: audit.Flags()},
	})
	clients, err := s.Clients()
	s.must(err)
	s.api = clients
	s.rec, err = recorder.Start(context.WithoutCancel(t.Context()), s.api, audit)
	s.must(err)
	s.farm, err = hollow.Start(context.WithoutCancel(t.Context()), hollow.Options{Client: s.api, Renew: renew})
	s.must(err)
	t.Cleanup(func() {
		s.farm.Close()
		if err := s.rec.Close(); err != nil {
			t.Errorf("the book of what happened: %v", err)
		}
	})
	s.grant()
	return s
}

// grant gives the controllers their rights.
func (s *env) grant() {
	s.Helper()
	s.must(s.Grant(s.Context(), filepath.Join("..", "..", "..", "deploy", "rbac", "controller.yaml")))
	token, err := s.Token(s.Context(), namespace, account)
	s.must(err)
	s.kubeconfig, err = s.Kubeconfig(s.Front.Config(s.Bearer(token)))
	s.must(err)
}

// scenario runs one of several scenarios of an env, with nodes and controllers of its own, and
// checks the common invariants.
func (s *env) scenario(name string, run func(*env)) {
	s.Run(name, func(t *testing.T) {
		own := *s
		own.T, own.replicas, own.began = t, &[]*replica{}, time.Now()
		t.Cleanup(own.end)
		run(&own)
	})
}

func (s *env) end() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, r := range *s.replicas {
		if r.Running() {
			if err := r.Stop(ctx); err != nil {
				s.Error(err)
			}
		}
	}
	for _, w := range s.writes(func(w *recorder.Write) bool { return w.Code == 401 || w.Code == 403 }) {
		s.Errorf("the controller lacks a right: %s", w)
	}
	if s.Failed() {
		s.tail()
	}
	if err := s.farm.Clear(ctx); err != nil {
		s.Error(err)
	}
}

// tail shows the controllers' last log lines and writes.
func (s *env) tail() {
	for _, r := range *s.replicas {
		s.Logf("%s", r.Tail(60))
	}
	for _, w := range s.writes((*recorder.Write).Changes) {
		if w.Resource != "events" && w.Resource != "leases" {
			s.Logf("%s", w)
		}
	}
}

func (s *env) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// node adds a ready node.
func (s *env) node(name string) *hollow.Node {
	s.Helper()
	n, err := s.farm.Add(s.Context(), name, nil)
	s.must(err)
	return n
}

func (s *env) run(n *hollow.Node, p *corev1.Pod) *corev1.Pod {
	s.Helper()
	p, err := n.Run(s.Context(), p)
	s.must(err)
	return p
}

// until waits until the record meets a condition.
func (s *env) until(what string, so func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if err := s.rec.Until(ctx, so); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// poll is until for conditions outside of the record.
func (s *env) poll(what string, so func() bool) {
	s.Helper()
	cluster.Poll(s, patience, what, so)
}

// pass waits while something must not happen.
func pass(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// writes returns the controllers' matching requests in this scenario.
func (s *env) writes(matches func(*recorder.Write) bool) []*recorder.Write {
	return s.rec.Writes(func(w *recorder.Write) bool { return w.At.After(s.began) && w.User == user && matches(w) })
}

// notBefore checks that something did not happen before it was due. The delay afterwards depends on the machine:
// lifecycle/core and lifecycle/heartbeat check it in virtual time.
func (s *env) notBefore(what string, at, due time.Time) {
	s.Helper()
	if at.Before(due) {
		s.Errorf("%s at %s, %v before %s", what, clock(at), due.Sub(at), clock(due))
	}
}

// number returns a variable of the environment, or the default.
func number(t *testing.T, variable string, without int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return without
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s=%s: not a number", variable, text)
	}
	return n
}

// deleted returns the successful requests to delete a pod, by its UID.
func (s *env) deleted(pod *corev1.Pod) []*recorder.Write {
	return s.writes(func(w *recorder.Write) bool {
		return w.Verb == "delete" && w.Resource == "pods" && w.Done() && w.Object().UID == string(pod.UID)
	})
}

// first waits for the first matching request.
func (s *env) first(what string, matches func(*recorder.Write) bool) *recorder.Write {
	s.Helper()
	s.until(what, func() bool { return len(s.writes(matches)) > 0 })
	return s.writes(matches)[0]
}

// has reports whether there is an event of an object with a message.
func (s *env) has(object *corev1.Pod, reason, message string) bool {
	return slices.ContainsFunc(s.rec.Events(object.UID, reason), func(e *corev1.Event) bool { return e.Message == message })
}
