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
	var nodes []*hollow.Node
	for _, name := range []string{"a", "b", "c", "d"} {
		n := s.node(name)
		s.run(n, hollow.Pod(name, 0))
		nodes = append(nodes, n)
	}
	pass(s.Context(), renew)
	s.must(s.APIServer.Pause())
	over := time.After(pause(s.T))
	each(nodes, func(n *hollow.Node) { n.StopKubelet() })
	<-over
	resumed := time.Now() // no controller has an answer earlier
	s.must(s.APIServer.Resume())
	pass(s.Context(), grace/2) // kubelets do not return at once
	each(nodes, func(n *hollow.Node) {
		if err := n.Resume(s.Context()); err != nil {
			s.Error(err)
		}
	})
	s.until("a controller leads again", func() bool {
		all := s.renewals()
		return s.leader() != nil && all[len(all)-1].at.After(resumed)
	})
	pass(s.Context(), grace+slack)
	alive := s.untouchedAfter(resumed, nodes...)
	if n := len(s.writes(recorder.Of("delete", "pods"))); n > 0 && alive {
		s.Errorf("%d pods were deleted", n)
	}
	last := nodes[0].Stop()
	s.until("a stopped node is Unknown", func() bool { return s.rec.Node("a").Is(corev1.NodeReady) == corev1.ConditionUnknown })
	if at := s.rec.Node("a").At; at.Before(last.Sent.Add(grace)) {
		s.Errorf("a is Unknown %v after its last sign of life", at.Sub(last.Sent))
	}
}

// each calls do for all nodes at once.
func each(nodes []*hollow.Node, do func(*hollow.Node)) {
	var calls sync.WaitGroup
	for _, n := range nodes {
		calls.Go(func() { do(n) })
	}
	calls.Wait()
}

// whileFrozen covers an open watch of the leases without events. A node that renews is not
// declared lost, whatever its clock; one that does not is.
func whileFrozen(s *env) {
	s.controllers(1)
	stopped, late, alive := s.node("dead"), s.node("late"), s.node("alive")
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
	s.first("the lease of a node is read during the frozen watch", func(w *recorder.Write) bool {
		return w.Verb == "get" && w.Resource == "leases" && w.Name == "alive"
	})
	s.untouched(alive, late)
	s.Front.Thaw()
	pass(s.Context(), grace+slack) // a wrong clock, according to the watch
	s.untouched(alive, late)
}

// bySecondOpinion covers a silent kubelet beside a live agent. The node gets no new pods, and
// keeps those it has until the bound has passed.
func bySecondOpinion(s *env) {
	const bound = 4 * time.Second
	s.controllers(1, "--agent-alive-grace="+bound.String(), "--agent-grace=1m") // the agent is alive until the bound, even if its renewals are late
	n, stable := s.node("assisted"), s.node("rock")
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
	s.notBefore("it is tainted NoExecute", written, last.Sent.Add(grace+bound))
	s.notBefore("the taint was written", written, added)
	s.evicted(pod, written)
	s.untouched(stable)
}

// agentSeen reports whether a lease of the node's agent exists.
func (s *env) agentSeen(n *hollow.Node) bool {
	lease, err := s.api.CoordinationV1().Leases(namespace).Get(s.Context(), n.Name, getOptions)
	return err == nil && lease.Spec.RenewTime != nil
}
