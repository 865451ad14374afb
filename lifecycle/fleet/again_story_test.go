package fleet_test

import (
	"testing"

	"plimsoll.dev/plimsoll/lifecycle/facts"
	"plimsoll.dev/plimsoll/lifecycle/fleet"
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
	w.at(5*second, func() { w.change("a", func(n *facts.Node) { n.Unschedulable = true }) })
	w.run(100 * second)
	w.expect("taint", "5 taint a +unschedulable:NoSchedule", "5.1 taint a +unschedulable:NoSchedule", "5.3 taint a +unschedulable:NoSchedule")
}

func TestAWriteThatLeavesNoTraceIsRepeated(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.faults = func(*fleetAction) fault { return fault{shown: 25 * second} }
	w.at(5*second, func() { w.change("a", func(n *facts.Node) { n.Unschedulable = true }) })
	w.run(16 * second)
	w.expect("taint", "5 taint a +unschedulable:NoSchedule", "15 taint a +unschedulable:NoSchedule")
}

// After an outage many are given up at once: who died first is first all the same.
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
	w.expect("evict", "300 evict a p "+fleet.NodeLost.String(), "510 evict a q "+fleet.NodeLost.String())
}
