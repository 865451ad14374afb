package core_test

import (
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

func TestAWriteThatFailedIsRepeated(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	tries := 0
	w.faults = func(*fleetAction) fault {
		if tries++; tries < 3 {
			return fault{err: errFault}
		}
		return fault{}
	}
	w.at(5*second, func() { w.change("a", func(n *model.Node) { n.Unschedulable = true }) })
	w.run(100 * second)
	w.expect("taint", "5 taint a +unschedulable:NoSchedule", "5.1 taint a +unschedulable:NoSchedule", "5.3 taint a +unschedulable:NoSchedule")
}

func TestAWriteThatLeavesNoTraceIsRepeated(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.faults = func(*fleetAction) fault { return fault{shown: 25 * second} }
	w.at(5*second, func() { w.change("a", func(n *model.Node) { n.Unschedulable = true }) })
	w.run(16 * second)
	w.expect("taint", "5 taint a +unschedulable:NoSchedule", "15 taint a +unschedulable:NoSchedule")
}

// TestOldestDeathFirstAfterAnOutage checks that nodes lost at once after an outage are tainted
// in the order of their deaths.
func TestOldestDeathFirstAfterAnOutage(t *testing.T) {
	w := newWorld(t, taintMode())
	for _, name := range []string{"z", "b", "c", "d", "e"} {
		w.node(name)
	}
	w.at(4*second, func() { w.node("a") })
	w.at(5*second, func() { w.stop("z", "a") })
	w.at(30*second, func() { w.fleet.Unreachable(w.now) })
	w.run(200 * second)
	w.expectNoExecute("70 z", "80 a")
}

func TestWithoutTaintsAllFullCallsTurnsOff(t *testing.T) {
	w := newWorld(t, legacyMode())
	w.node("a")
	w.node("b")
	w.pod("p", "a")
	w.at(5*second, func() { w.stop("a") })
	w.at(355*second, func() { w.stop("b") })
	w.at(400*second, func() { w.pod("q", "a") })
	w.at(500*second, func() { w.resume("b") })
	w.run(600 * second)
	w.expect("evict", "300 evict a p "+core.NodeLost.String(), "510 evict a q "+core.NodeLost.String())
}

// TestWhatFailedBeforeANewTermIsRepeatedInIt covers a new term within a backoff: the failed
// action is retried when the backoff ends, without waiting for a change of the pod.
func TestWhatFailedBeforeANewTermIsRepeatedInIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy core.Policy
		kind   core.Kind
		want   string
	}{
		{"a mark", taintMode(), core.MarkNotReady, "91.1 pod-not-ready a p"},
		{"an eviction without taints", legacyMode(), core.Evict, "351.1 evict a p node-lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.policy)
			w.node("a")
			w.node("b")
			w.pod("p", "a", usual(-1)...)
			last := ""
			tries := 0
			w.faults = func(a *fleetAction) fault {
				if a.Kind != c.kind {
					return fault{}
				}
				last = w.lines[len(w.lines)-1]
				if tries++; tries > 9 { // after 0.1, 0.3, 0.7 … 25.5 and 51.1 s
					return fault{}
				}
				if tries == 9 {
					w.schedule(w.now.Add(second), false, func() {
						w.fleet.StopLeading(w.now)
						w.fleet.Lead(w.now, w.now)
					})
				}
				return fault{err: errFault}
			}
			w.at(0, func() { w.stop("a") })
			w.run(400 * second)
			if last != c.want {
				t.Errorf("at last: %s instead of %s, after %d tries", last, c.want, tries)
			}
		})
	}
}

// TestSinceWhenAnEvictionIsTried checks that the time of an eviction's first attempt is kept as
// long as the eviction is wanted.
func TestSinceWhenAnEvictionIsTried(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.pod("p", "a", bears("k", 20))
	var first, due []time.Duration
	w.faults = func(a *fleetAction) fault {
		if a.Kind != core.Evict {
			return fault{}
		}
		first, due = append(first, a.First.Sub(start)), append(due, a.Due.Sub(start))
		return fault{err: errFault}
	}
	w.at(5*second, func() { w.taint("a", "k") })
	w.at(50*second, func() { w.untaint("a", "k") })
	w.at(70*second, func() { w.taint("a", "k") })
	w.run(100 * second)
	for _, moments := range [][]time.Duration{first, due} {
		if got := slices.Compact(moments); len(moments) < 10 || !slices.Equal(got, []time.Duration{25 * second, 90 * second}) {
			t.Errorf("of %d tries: %v", len(moments), got)
		}
	}
}
