package e2e

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// faultRule selects the requests of a client to be answered with an error code: its writes, and
// optionally its watches. It counts them by method and resource.
type faultRule struct {
	watches atomic.Bool

	mu   sync.Mutex
	seen map[string]int
}

var subjects = regexp.MustCompile(`/(pods|nodes|leases|events)\b`)

func (o *faultRule) matches(r *http.Request) bool {
	kind := r.Method
	if r.URL.Query().Get("watch") != "" {
		kind = "watch"
	}
	if kind == http.MethodGet || kind == "watch" && !o.watches.Load() {
		return false
	}
	if about := subjects.FindStringSubmatch(r.URL.Path); about != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.seen[kind+" "+about[1]]++
	}
	return true
}

func (o *faultRule) count(kind string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen[kind]
}

func TestAPIServer_RefusesRequests(t *testing.T) {
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{}))
	for _, code := range []int{http.StatusGone, http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError} {
		s.scenario(fmt.Sprint(code), func(s *env) {
			s.forget()
			calm, greedy := s.add(cluster.Hog("calm", "fill 50MiB")), s.add(cluster.Hog("greedy", "fill 100MiB"))
			o := &faultRule{seen: map[string]int{}}
			var headers []string
			if code == http.StatusTooManyRequests {
				headers = []string{"Retry-After: 1"}
			}
			s.Front.Answer(code, o.matches, headers...)
			a := s.start()
			s.knows(calm, greedy)
			o.watches.Store(true)
			s.Front.Drop()
			s.order(greedy, fast)
			d := s.evictedOffline(a, greedy)
			s.await(a, agent.ReclaimDone)
			for _, kind := range []string{"watch pods", "PATCH pods", "PATCH nodes", "POST leases"} {
				s.until("a request is refused: "+kind, func() bool { return o.count(kind) > 0 })
			}
			s.Front.Forward()
			s.checkReported(greedy, d)
			s.until("the heartbeat is written", func() bool { return s.heartbeat() != nil })
			s.until("the pressure is reported, or has ended", func() bool { return s.condition(corev1.NodeMemoryPressure) != nil })
			s.running(calm)
		})
	}
}

// forget deletes the agents' leases and reports about the node.
func (s *env) forget() {
	s.t.Helper()
	err := s.API.CoordinationV1().Leases("plimsoll-system").DeleteCollection(s.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	if err == nil {
		_, err = s.API.CoreV1().Nodes().Patch(s.t.Context(), cluster.NodeName, "application/merge-patch+json", []byte(`{"status":{"conditions":null}}`), metav1.PatchOptions{}, "status")
	}
	s.must(err)
}

// heartbeat returns the last renewal of the agent's lease; nil without one.
func (s *env) heartbeat() *metav1.MicroTime {
	lease, err := s.API.CoordinationV1().Leases("plimsoll-system").Get(s.t.Context(), cluster.NodeName, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return lease.Spec.RenewTime
}

// condition returns a condition of the Node; nil without one.
func (s *env) condition(kind corev1.NodeConditionType) *corev1.NodeCondition {
	s.t.Helper()
	node, err := s.API.CoreV1().Nodes().Get(s.t.Context(), cluster.NodeName, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

func TestRuntime_Unreachable(t *testing.T) {
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{}))
	c := s.Node.Containerd
	back := func() error { return c.Restart(context.Background()) }
	// The runtime's last report is outdated when the threshold is crossed: by it, the calm pod
	// would be evicted.
	const slow = "fill 310MiB at 60MiB/s"
	for name, fault := range map[string]struct {
		begins, ends   func() error
		provider, fill string
	}{
		"paused":                  {c.Pause, c.Resume, "cgroup", fast},
		"paused with stale usage": {c.Pause, c.Resume, "cri", slow},
		"killed":                  {c.Kill, back, "cgroup", fast},
		"killed with stale usage": {c.Kill, back, "cri", slow},
	} {
		s.scenario(name, func(s *env) {
			calm, greedy := s.add(cluster.Hog("calm", "fill 120MiB")), s.add(cluster.Hog("greedy", "fill 20MiB"))
			a := s.start("--stats-provider=" + fault.provider)
			s.knows(calm, greedy)
			s.must(fault.begins())
			s.t.Cleanup(func() { // pods can not be removed without it
				if err := fault.ends(); err != nil {
					s.t.Error(err)
				}
			})
			s.order(greedy, fault.fill)
			s.evicts(a, greedy, "memory")
			s.noOOM()
			s.await(a, agent.ReclaimDone)
			s.only(greedy)
			s.running(calm)
		})
	}
}
