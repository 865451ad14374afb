package failover

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/test/harness/hollow"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

// pause returns the duration for which the API server stands still: PAUSE, or three grace
// periods.
func pause(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("PAUSE")
	if text == "" {
		return 3 * grace
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("PAUSE=%s: %v", text, err)
	}
	return d
}

// whilePaused checks that no node is declared lost while the API server stands still, because
// no lease can be renewed. Nodes that stop afterwards are.
func whilePaused(s *env) {
	s.controllers(2)
	names := []string{"a", "b", "c", "d"}
	var nodes []*hollow.Node
	for _, name := range names {
		n := s.node(name)
		s.run(n, hollow.Pod(name, 0))
		nodes = append(nodes, n)
	}
	pass(s.Context(), renew)
	s.must(s.APIServer.Pause())
	over := time.After(pause(s.T))
	var quiet sync.WaitGroup
	for _, n := range nodes {
		quiet.Go(func() { n.StopKubelet() })
	}
	quiet.Wait()
	<-over
	s.must(s.APIServer.Resume())
	resumed := time.Now()
	s.until("a controller leads again", func() bool {
		all := s.renewals()
		return s.leader() != nil && all[len(all)-1].at.After(resumed)
	})
	pass(s.Context(), grace/2) // kubelets do not return at once
	for _, n := range nodes {
		s.must(n.Resume(s.Context()))
	}
	pass(s.Context(), grace+slack)
	s.untouched(names...)
	if n := len(s.writes(recorder.Of("delete", "pods"))); n > 0 {
		s.Errorf("%d pods were deleted", n)
	}
	last := nodes[0].Stop()
	s.until("a stopped node is Unknown", func() bool { return s.rec.Node("a").Is(corev1.NodeReady) == corev1.ConditionUnknown })
	if at := s.rec.Node("a").At; at.Before(last.Sent.Add(grace)) {
		s.Errorf("a is Unknown %v after its last sign of life", at.Sub(last.Sent))
	}
}

// whileFrozen covers an open watch of the leases without events. A node that renews is not
// declared lost, whatever its clock; one that does not is.
func whileFrozen(s *env) {
	s.controllers(1)
	stopped, late := s.node("dead"), s.node("late")
	s.node("alive")
	pod := s.run(stopped, hollow.Pod("pod", 1))
	late.Skew(-time.Hour)
	s.Front.Freeze(func(r *http.Request) bool {
		return r.URL.Query().Get("watch") == "true" && strings.Contains(r.URL.Path, "/"+corev1.NamespaceNodeLease+"/")
	})
	s.Cleanup(s.Front.Thaw)
	last := stopped.Stop()
	s.until("the stopped node is Unknown", func() bool { return s.rec.Node("dead").Is(corev1.NodeReady) == corev1.ConditionUnknown })
	if at := s.rec.Node("dead").At; at.Before(last.Sent.Add(grace)) {
		s.Errorf("the stopped node is Unknown %v after its last heartbeat", at.Sub(last.Sent))
	}
	s.until("its pod is deleted", func() bool { return len(s.deleted(pod)) == 1 })
	pass(s.Context(), time.Until(last.Done.Add(2*grace+slack)))
	s.untouched("alive", "late")
	s.Front.Thaw()
	pass(s.Context(), grace+slack) // a wrong clock, according to the watch
	s.untouched("alive", "late")
	if reads := s.writes(func(w *recorder.Write) bool { return w.Verb == "get" && w.Resource == "leases" && w.Name == "alive" }); len(reads) == 0 {
		s.Error("the lease of a node was not read during the frozen watch")
	}
}

// bySecondOpinion covers a silent kubelet beside a live agent. The node gets no new pods, and
// keeps those it has until the bound has passed.
func bySecondOpinion(s *env) {
	const bound = 4 * time.Second
	s.controllers(1, "--agent-alive-grace="+bound.String())
	n, _ := s.node("assisted"), s.node("rock")
	pod := s.run(n, hollow.Pod("assisted", 0))
	n.Assist(true)
	s.poll("its agent is there", func() bool { return s.agentSeen(n) })
	last := n.StopKubelet()
	s.unknown(n, last)
	if c := s.rec.Node(n.Name).Condition(corev1.NodeReady); !strings.Contains(c.Message, "agent") {
		s.Errorf("the condition does not report the second opinion: %q", c.Message)
	}
	s.until("it is tainted NoSchedule", func() bool {
		return s.rec.Node(n.Name).Tainted(corev1.TaintEffectNoSchedule) == corev1.TaintNodeUnreachable
	})
	s.until("an event reports it", func() bool { return len(s.rec.Events(n.UID, "SecondOpinion")) == 1 })
	s.notReady(pod)
	added, written := s.tainted(n, corev1.TaintNodeUnreachable)
	s.during("the bound is over", written, last.Sent.Add(grace+bound), last.Done.Add(grace+bound))
	s.evicted(pod, added, written)
	s.untouched("rock")
}

// agentSeen reports whether a lease of the node's agent exists.
func (s *env) agentSeen(n *hollow.Node) bool {
	lease, err := s.api.CoordinationV1().Leases(namespace).Get(s.Context(), n.Name, getOptions)
	return err == nil && lease.Spec.RenewTime != nil
}
