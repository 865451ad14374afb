package core_test

import (
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

func TestAct_RetriesFailedWrite(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	tries := 0
	h.faults = func(*fleetAction) fault {
		if tries++; tries < 3 {
			return fault{err: errFault}
		}
		return fault{}
	}
	h.at(5*second, func() { h.change("a", func(n *model.Node) { n.Unschedulable = true }) })
	h.run(100 * second)
	h.expect("taint", "5 taint a +unschedulable:NoSchedule", "5.1 taint a +unschedulable:NoSchedule", "5.3 taint a +unschedulable:NoSchedule")
}

func TestAct_RepeatsWriteWithoutEffect(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.faults = func(*fleetAction) fault { return fault{shown: 25 * second} }
	h.at(5*second, func() { h.change("a", func(n *model.Node) { n.Unschedulable = true }) })
	h.run(16 * second)
	h.expect("taint", "5 taint a +unschedulable:NoSchedule", "15 taint a +unschedulable:NoSchedule")
}

// TestTaint_LongestUnreadyFirstAfterOutage checks the order of taints of nodes lost at once after
// an outage: that of their last heartbeats.
func TestTaint_LongestUnreadyFirstAfterOutage(t *testing.T) {
	h := newHarness(t, taintMode())
	for _, name := range []string{"z", "b", "c", "d", "e"} {
		h.node(name)
	}
	h.at(4*second, func() { h.node("a") })
	h.at(5*second, func() { h.stop("z", "a") })
	h.at(30*second, func() { h.fleet.Unreachable(h.now) })
	h.run(200 * second)
	h.expectNoExecute("70 z", "80 a")
}

func TestLegacy_FullDisruptionRevokesToken(t *testing.T) {
	h := newHarness(t, legacyMode())
	h.node("a")
	h.node("b")
	h.pod("p", "a")
	h.at(5*second, func() { h.stop("a") })
	h.at(355*second, func() { h.stop("b") })
	h.at(400*second, func() { h.pod("q", "a") })
	h.at(500*second, func() { h.resume("b") })
	h.run(600 * second)
	h.expect("evict", "300 evict a p "+core.NodeLost.String(), "510 evict a q "+core.NodeLost.String())
}

// TestLead_RetriesFailuresOfEarlierTerm covers a new term within a backoff: the failed
// action is retried when the backoff ends, without waiting for a change of the pod.
func TestLead_RetriesFailuresOfEarlierTerm(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy core.Policy
		kind   core.Kind
		want   string
	}{
		{"failed mark", taintMode(), core.MarkNotReady, "91.1 pod-not-ready a p"},
		{"failed legacy eviction", legacyMode(), core.Evict, "351.1 evict a p node-lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, c.policy)
			h.node("a")
			h.node("b")
			h.pod("p", "a", defaultTolerations(-1)...)
			last := ""
			tries := 0
			h.faults = func(a *fleetAction) fault {
				if a.Kind != c.kind {
					return fault{}
				}
				last = h.lines[len(h.lines)-1]
				if tries++; tries > 9 { // after 0.1, 0.3, 0.7 … 25.5 and 51.1 s
					return fault{}
				}
				if tries == 9 {
					h.schedule(h.now.Add(second), false, func() {
						h.fleet.StopLeading(h.now)
						h.fleet.Lead(h.now, h.now)
					})
				}
				return fault{err: errFault}
			}
			h.at(0, func() { h.stop("a") })
			h.run(400 * second)
			if last != c.want {
				t.Errorf("last attempt: got %q, want %q, after %d attempts", last, c.want, tries)
			}
		})
	}
}

// TestEvict_PreservesFirstAttemptTime checks that an eviction has the time of its first attempt
// until it is cancelled.
func TestEvict_PreservesFirstAttemptTime(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.pod("p", "a", tolerates("k", 20))
	var first, due []time.Duration
	h.faults = func(a *fleetAction) fault {
		if a.Kind != core.Evict {
			return fault{}
		}
		first, due = append(first, a.First.Sub(start)), append(due, a.Due.Sub(start))
		return fault{err: errFault}
	}
	h.at(5*second, func() { h.taint("a", "k") })
	h.at(50*second, func() { h.untaint("a", "k") })
	h.at(70*second, func() { h.taint("a", "k") })
	h.run(100 * second)
	for _, moments := range [][]time.Duration{first, due} {
		if got := slices.Compact(moments); len(moments) < 10 || !slices.Equal(got, []time.Duration{25 * second, 90 * second}) {
			t.Errorf("got %v in %d attempts, want 25s and 90s", got, len(moments))
		}
	}
}
