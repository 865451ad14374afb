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
// no lease can be renewed. Nodes that die afterwards are.
func whilePaused(s *stage) {
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
	s.until("somebody leads again", func() bool {
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
	s.until("who dies now is Unknown", func() bool { return s.book.Node("a").Is(corev1.NodeReady) == corev1.ConditionUnknown })
	if at := s.book.Node("a").At; at.Before(last.Sent.Add(grace)) {
		s.Errorf("a is Unknown %v after its last sign of life", at.Sub(last.Sent))
	}
}

// whileFrozen covers an open watch of the leases without events. A node that renews is not
// declared lost, whatever its clock; one that does not is.
func whileFrozen(s *stage) {
	s.controllers(1)
	dead, late := s.node("dead"), s.node("late")
	s.node("alive")
	pod := s.run(dead, hollow.Pod("pod", 1))
	late.Skew(-time.Hour)
	s.Front.Freeze(func(r *http.Request) bool {
		return r.URL.Query().Get("watch") == "true" && strings.Contains(r.URL.Path, "/"+corev1.NamespaceNodeLease+"/")
	})
	s.Cleanup(s.Front.Thaw)
	last := dead.Stop()
	s.until("the dead one is Unknown", func() bool { return s.book.Node("dead").Is(corev1.NodeReady) == corev1.ConditionUnknown })
	if at := s.book.Node("dead").At; at.Before(last.Sent.Add(grace)) {
		s.Errorf("dead is Unknown %v after its last sign of life", at.Sub(last.Sent))
	}
	s.until("its pod is deleted", func() bool { return len(s.deleted(pod)) == 1 })
	pass(s.Context(), time.Until(last.Done.Add(2*grace+slack)))
	s.untouched("alive", "late")
	s.Front.Thaw()
	pass(s.Context(), grace+slack) // a wrong clock, according to the watch
	s.untouched("alive", "late")
	if reads := s.writes(func(w *recorder.Write) bool { return w.Verb == "get" && w.Resource == "leases" && w.Name == "alive" }); len(reads) == 0 {
		s.Error("the lease of a node was never read, though the watch told nothing")
	}
}

// bySecondOpinion covers a silent kubelet beside a living agent. The node gets no new pods, and
// keeps those it has until the bound has passed.
func bySecondOpinion(s *stage) {
	const bound = 4 * time.Second
	s.controllers(1, "--agent-alive-grace="+bound.String())
	n, _ := s.node("assisted"), s.node("rock")
	pod := s.run(n, hollow.Pod("assisted", 0))
	n.Assist(true)
	s.poll("its agent is there", func() bool { return s.agentSeen(n) })
	last := n.StopKubelet()
	s.unknown(n, last)
	if c := s.book.Node(n.Name).Condition(corev1.NodeReady); !strings.Contains(c.Message, "agent") {
		s.Errorf("the condition does not tell of the second opinion: %q", c.Message)
	}
	s.until("it is tainted NoSchedule", func() bool {
		return s.book.Node(n.Name).Tainted(corev1.TaintEffectNoSchedule) == corev1.TaintNodeUnreachable
	})
	s.until("an event tells of it", func() bool { return len(s.book.Events(n.UID, "SecondOpinion")) == 1 })
	s.notReady(pod)
	added, written := s.tainted(n, corev1.TaintNodeUnreachable)
	s.during("the bound is over", written, last.Sent.Add(grace+bound), last.Done.Add(grace+bound))
	s.evicted(pod, added, written)
	s.untouched("rock")
}

// agentSeen reports whether a lease of the node's agent exists.
func (s *stage) agentSeen(n *hollow.Node) bool {
	lease, err := s.api.CoordinationV1().Leases(namespace).Get(s.Context(), n.Name, getOptions)
	return err == nil && lease.Spec.RenewTime != nil
}
