package failover

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/test/harness/hollow"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

// silence is a time in which a controller may consider a live node as lost. This process sends the heartbeats of all
// nodes: without a processor for a grace period it makes live nodes silent.
type silence struct {
	due  time.Time // a grace period after a heartbeat
	back time.Time // when the next heartbeat was received
}

// silences returns the silences of a kubelet or agent, judged by its heartbeats. After an outage of the API server it
// has a grace period to return; the zero time is none.
func silences(beats []hollow.Beat, grace time.Duration, outage time.Time) (found []silence) {
	beats = append(beats, hollow.Beat{Done: time.Now()}) // none is recorded later
	for i, next := range beats[1:] {
		from := beats[i].Sent
		if outage.After(from) {
			from = outage
		}
		if due := from.Add(grace); next.Done.After(due) {
			found = append(found, silence{due, next.Done})
		}
	}
	return found
}

// untouched checks that live nodes were not considered lost in this scenario. It reports whether all of them were alive
// throughout: a node is no longer checked from its first silence on.
func (s *env) untouched(nodes ...*hollow.Node) (alive bool) {
	s.Helper()
	return s.untouchedAfter(time.Time{}, nodes...)
}

// untouchedAfter is untouched with an outage of the API server, which ended at a time.
func (s *env) untouchedAfter(outage time.Time, nodes ...*hollow.Node) (alive bool) {
	s.Helper()
	alive = true
	for _, node := range nodes {
		states := s.rec.NodeStates(node.Name)
		if silent := silences(node.Beats(), grace, outage); len(silent) > 0 {
			alive = false
			s.Logf("live node %s sent no heartbeat for a grace period, until %s", node.Name, clock(silent[0].due))
			states = slices.DeleteFunc(states, func(n *recorder.Node) bool { return !n.At.Before(silent[0].due) })
		}
		for _, n := range states {
			if keys := n.Tainted(corev1.TaintEffectNoExecute); n.At.After(s.began) && (keys != "" || n.Is(corev1.NodeReady) == corev1.ConditionUnknown) {
				s.Errorf("live node %s: at %s Ready is %s, tainted %q", node.Name, clock(n.At), n.Is(corev1.NodeReady), keys)
				break
			}
		}
	}
	return alive
}
