package core_test

import (
	"fmt"
	"testing"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

func TestTakeover_PreservesTaintsAndDeadlines(t *testing.T) {
	h := newHarness(t, taintMode())
	for _, n := range []string{"a", "b", "c", "d"} {
		h.node(n)
	}
	h.pod("web", "a", defaultTolerations(300)...)
	h.pod("on-b", "b", defaultTolerations(300)...)
	h.at(5*second, func() { h.stop("a", "b") })
	for s := 60; s < 300; s += 60 {
		h.at(seconds(s), h.restart)
	}
	h.at(250*second, func() { h.resume("b") })
	h.run(600 * second)
	h.expect("taint evict cancel",
		"40 taint a +unreachable:NoSchedule", "40 taint a +unreachable:NoExecute", "40 taint b +unreachable:NoSchedule",
		"50 taint b +unreachable:NoExecute",
		"250 taint b -unreachable:NoSchedule", "250 taint b -unreachable:NoExecute", "250 cancel b on-b",
		"340 evict a web taint")
}

func TestTakeover_WaitsOneRenewalBeforeUnknown(t *testing.T) {
	for _, c := range []struct {
		name    string
		restart int
		want    string
	}{
		{"long before", 20, "40"},
		{"just before", 35, "45"},
		{"at the end of the grace period", 40, "50"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, taintMode())
			h.node("a")
			h.node("b")
			h.at(5*second, func() { h.stop("a") })
			h.at(seconds(c.restart), h.restart)
			h.run(100 * second)
			h.expect("condition", fourUnknown(c.want, "a", unknown)...)
		})
	}
}

func TestTakeover_AddsNoToken(t *testing.T) {
	h := newHarness(t, taintMode())
	for i := range 9 {
		h.node(fmt.Sprintf("n%d", i))
	}
	h.at(5*second, func() { h.stop("n0", "n1", "n2", "n3") })
	for _, s := range []int{41, 45, 49, 51, 62, 63} {
		h.at(seconds(s), h.restart)
	}
	h.run(200 * second)
	h.expectNoExecute("40 n0", "50 n1", "60 n2", "70 n3")
}

func TestTakeover_BucketEmptyAfterStop(t *testing.T) {
	h := newHarness(t, taintMode())
	for i := range 5 {
		h.node(fmt.Sprintf("n%d", i))
	}
	h.node("elsewhere", in("y"))
	h.at(5*second, func() { h.stop("n0", "n1", "n2") })
	h.at(500*second, func() { h.resume("n2") })
	h.at(505*second, h.restart)
	h.run(600 * second)
	h.expectNoExecute("510 n0", "520 n1")
}

// TestTakeover_AllBucketsEmptyAfterFullDisruption checks that zones without recent changes of
// their own nodes also lost their tokens when all zones were down.
func TestTakeover_AllBucketsEmptyAfterFullDisruption(t *testing.T) {
	h := newHarness(t, taintMode())
	for i := range 3 {
		h.node(fmt.Sprintf("n%d", i))
	}
	h.node("elsewhere", in("y"))
	h.at(5*second, func() { h.stop("n0", "n1", "n2", "elsewhere") })
	h.at(500*second, func() { h.resume("elsewhere") })
	h.at(505*second, h.restart)
	h.run(600 * second)
	h.expectNoExecute("510 n0", "520 n1", "530 n2")
}

func TestTakeover_DelaysNoToken(t *testing.T) {
	h := newHarness(t, taintMode())
	for i := range 9 {
		h.node(fmt.Sprintf("n%d", i))
	}
	h.at(4*second, func() { h.node("younger") })
	h.at(5*second, func() { h.stop("n0", "n1", "n2", "younger") })
	h.at(47*second, h.restart)
	h.run(200 * second)
	h.expectNoExecute("40 n0", "50 n1", "60 n2", "70 younger")
}

func TestTakeover_AcceptsRenewedLease(t *testing.T) {
	h := newHarness(t, taintMode())
	for i := range 9 {
		h.node(fmt.Sprintf("n%d", i))
	}
	h.at(5*second, func() { h.stop("n0", "n1") })
	// n1 waits in the queue and returns, its lease first.
	h.at(48*second, func() {
		h.kubelets["n1"].lease = true
		h.renewLease("n1", h.kubelets["n1"].generation)
	})
	h.at(49*second, h.restart)
	h.at(52*second, func() { h.resume("n1") })
	h.run(200 * second)
	h.expectNoExecute("40 n0")
}

func TestTakeover_ContinuesMarking(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.pod("p", "a", defaultTolerations(-1)...)
	h.faults = func(a *fleetAction) fault {
		if a.Kind == core.MarkNotReady {
			return fault{err: errFault}
		}
		return fault{}
	}
	h.at(5*second, func() { h.stop("a") })
	h.at(60*second, func() {
		h.faults = nil
		h.restart()
	})
	h.run(100 * second)
	if h.pods["p"].Ready {
		t.Error("the pod was never marked not ready")
	}
}

func TestTakeover_PreservesRateInLegacyMode(t *testing.T) {
	h := newHarness(t, legacyMode())
	for i := range 9 {
		h.node(fmt.Sprintf("n%d", i))
		h.pod(fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i))
	}
	h.at(5*second, func() { h.stop("n0", "n1", "n2") })
	h.at(200*second, h.restart)
	h.at(301*second, h.restart)
	h.run(600 * second)
	// The time of the former leader's next token is unknown: one interval after the takeover is
	// late enough.
	h.expect("evict", "300 evict n0 p0 node-lost", "310 evict n1 p1 node-lost", "320 evict n2 p2 node-lost")
}

func TestStopLeading_DecidesNothing(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.pod("p", "a", defaultTolerations(100)...)
	h.at(5*second, func() { h.stop("a") })
	h.at(20*second, func() { h.fleet.StopLeading(h.now) })
	h.run(90 * second)
	h.expect("condition taint evict")
	if at, ok := h.fleet.Next(); ok {
		t.Errorf("Next() = %v, want none", at)
	}
	// The fleet observed renewals all the time, so it does not wait for another interval.
	h.at(95*second, func() { h.fleet.Lead(h.now, h.now) })
	h.run(300 * second)
	h.expect("condition", fourUnknown("95", "a", unknown)...)
	h.expect("evict", "195 evict a p taint")
}

// TestTakeover_RemembersEarlierOutage covers a leader that pauses because it can not renew
// its lease. Another one leads once the API server is back, before the nodes could renew
// theirs.
func TestTakeover_RemembersEarlierOutage(t *testing.T) {
	for _, live := range []bool{true, false} {
		p := taintMode()
		p.Confirmation.LiveReads = live
		h := newHarness(t, p)
		h.node("a")
		h.node("b")
		h.at(5*second, func() { h.stop("a", "b") }) // no renewal arrives
		h.at(15*second, func() { h.fleet.StopLeading(h.now) })
		h.at(98*second, func() { h.fleet.Unreachable(h.now) })
		h.at(100*second, func() { h.fleet.Lead(h.now, at(15*second)) })
		h.at(110*second, func() { h.resume("a") })
		h.run(200 * second)
		h.expect("condition", fourUnknown(map[bool]string{true: "140", false: "138"}[live], "b", unknown)...)
	}
}

func TestLead_RemembersWritesInProgress(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.podLike(model.Pod{Name: "p", Node: "a"})
	h.faults = func(*fleetAction) fault { return fault{done: 20 * second} }
	h.at(5*second, func() { h.taint("a", "k") })
	h.at(10*second, func() {
		h.fleet.StopLeading(h.now)
		h.fleet.Lead(h.now, h.now)
	})
	h.run(100 * second)
	h.expect("evict", "5 evict a p taint")
}
