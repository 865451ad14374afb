package core_test

import (
	"fmt"
	"testing"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

func TestATakeoverUntaintsNobodyAndKeepsDeadlines(t *testing.T) {
	w := newWorld(t, taintMode())
	for _, n := range []string{"a", "b", "c", "d"} {
		w.node(n)
	}
	w.pod("web", "a", usual(300)...)
	w.pod("on-b", "b", usual(300)...)
	w.at(5*second, func() { w.stop("a", "b") })
	for s := 60; s < 300; s += 60 {
		w.at(seconds(s), w.restart)
	}
	w.at(250*second, func() { w.resume("b") })
	w.run(600 * second)
	w.expect("taint evict cancel",
		"40 taint a +unreachable:NoSchedule", "40 taint a +unreachable:NoExecute", "40 taint b +unreachable:NoSchedule",
		"50 taint b +unreachable:NoExecute",
		"250 taint b -unreachable:NoSchedule", "250 taint b -unreachable:NoExecute", "250 cancel b on-b",
		"340 evict a web taint")
}

func TestATakeoverBeforeUnknown(t *testing.T) {
	for _, c := range []struct {
		name    string
		restart int
		want    string
	}{
		{"long before", 20, "40"},
		{"just before", 35, "45"},
		{"in that instant", 40, "50"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, taintMode())
			w.node("a")
			w.node("b")
			w.at(5*second, func() { w.stop("a") })
			w.at(seconds(c.restart), w.restart)
			w.run(100 * second)
			w.expect("condition", fourUnknown(c.want, "a", unknown)...)
		})
	}
}

func TestATakeoverGivesNoTokenAway(t *testing.T) {
	w := newWorld(t, taintMode())
	for i := range 9 {
		w.node(fmt.Sprintf("n%d", i))
	}
	w.at(5*second, func() { w.stop("n0", "n1", "n2", "n3") })
	for _, s := range []int{41, 45, 49, 51, 62, 63} {
		w.at(seconds(s), w.restart)
	}
	w.run(200 * second)
	w.expectNoExecute("40 n0", "50 n1", "60 n2", "70 n3")
}

func TestATakeoverAfterAStopFindsTheBucketEmpty(t *testing.T) {
	w := newWorld(t, taintMode())
	for i := range 5 {
		w.node(fmt.Sprintf("n%d", i))
	}
	w.node("elsewhere", in("y"))
	w.at(5*second, func() { w.stop("n0", "n1", "n2") })
	w.at(500*second, func() { w.resume("n2") })
	w.at(505*second, w.restart)
	w.run(600 * second)
	w.expectNoExecute("510 n0", "520 n1")
}

// TestATakeoverAfterAnOutageFindsAllBucketsEmpty checks that zones without recent changes of
// their own nodes also lost their tokens when all zones were down.
func TestATakeoverAfterAnOutageFindsAllBucketsEmpty(t *testing.T) {
	w := newWorld(t, taintMode())
	for i := range 3 {
		w.node(fmt.Sprintf("n%d", i))
	}
	w.node("elsewhere", in("y"))
	w.at(5*second, func() { w.stop("n0", "n1", "n2", "elsewhere") })
	w.at(500*second, func() { w.resume("elsewhere") })
	w.at(505*second, w.restart)
	w.run(600 * second)
	w.expectNoExecute("510 n0", "520 n1", "530 n2")
}

func TestATakeoverDelaysNoToken(t *testing.T) {
	w := newWorld(t, taintMode())
	for i := range 9 {
		w.node(fmt.Sprintf("n%d", i))
	}
	w.at(4*second, func() { w.node("younger") })
	w.at(5*second, func() { w.stop("n0", "n1", "n2", "younger") })
	w.at(47*second, w.restart)
	w.run(200 * second)
	w.expectNoExecute("40 n0", "50 n1", "60 n2", "70 younger")
}

func TestATakeoverBelievesALeaseThatWasRenewed(t *testing.T) {
	w := newWorld(t, taintMode())
	for i := range 9 {
		w.node(fmt.Sprintf("n%d", i))
	}
	w.at(5*second, func() { w.stop("n0", "n1") })
	// n1 waits for its turn, and returns, its lease first.
	w.at(48*second, func() {
		w.beats["n1"].lease = true
		w.renewLease("n1", w.beats["n1"].life)
	})
	w.at(49*second, w.restart)
	w.at(52*second, func() { w.resume("n1") })
	w.run(200 * second)
	w.expectNoExecute("40 n0")
}

func TestATakeoverGoesOnWithMarks(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.pod("p", "a", usual(-1)...)
	w.faults = func(a *fleetAction) fault {
		if a.Kind == core.MarkNotReady {
			return fault{err: errFault}
		}
		return fault{}
	}
	w.at(5*second, func() { w.stop("a") })
	w.at(60*second, func() {
		w.faults = nil
		w.restart()
	})
	w.run(100 * second)
	if w.pods["p"].Ready {
		t.Error("it was never marked")
	}
}

func TestATakeoverWithoutTaints(t *testing.T) {
	w := newWorld(t, legacyMode())
	for i := range 9 {
		w.node(fmt.Sprintf("n%d", i))
		w.pod(fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i))
	}
	w.at(5*second, func() { w.stop("n0", "n1", "n2") })
	w.at(200*second, w.restart)
	w.at(301*second, w.restart)
	w.run(600 * second)
	// The time of the former leader's next token is unknown: one interval after the takeover is
	// late enough.
	w.expect("evict", "300 evict n0 p0 node-lost", "310 evict n1 p1 node-lost", "320 evict n2 p2 node-lost")
}

func TestWhoRestsDecidesNothing(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.pod("p", "a", usual(100)...)
	w.at(5*second, func() { w.stop("a") })
	w.at(20*second, func() { w.fleet.StopLeading(w.now) })
	w.run(90 * second)
	w.expect("condition taint evict")
	if at, ok := w.fleet.Next(); ok {
		t.Errorf("it waits for %v", at)
	}
	// It has watched all the time, so it does not wait for another interval.
	w.at(95*second, func() { w.fleet.Lead(w.now, w.now) })
	w.run(300 * second)
	w.expect("condition", fourUnknown("95", "a", unknown)...)
	w.expect("evict", "195 evict a p taint")
}

// TestATakeoverKnowsOfTheOutageBeforeIt covers a leader that pauses because it can not renew
// its lease. Another one leads once the API server is back, before the nodes could renew
// theirs.
func TestATakeoverKnowsOfTheOutageBeforeIt(t *testing.T) {
	for _, live := range []bool{true, false} {
		p := taintMode()
		p.Evidence.LiveReads = live
		w := newWorld(t, p)
		w.node("a")
		w.node("b")
		w.at(5*second, func() { w.stop("a", "b") }) // no renewal arrives
		w.at(15*second, func() { w.fleet.StopLeading(w.now) })
		w.at(98*second, func() { w.fleet.Unreachable(w.now) })
		w.at(100*second, func() { w.fleet.Lead(w.now, at(15*second)) })
		w.at(110*second, func() { w.resume("a") })
		w.run(200 * second)
		w.expect("condition", fourUnknown(map[bool]string{true: "140", false: "138"}[live], "b", unknown)...)
	}
}

func TestWhoLeadsAgainKnowsWhatIsUnderWay(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.podLike(model.Pod{Name: "p", Node: "a"})
	w.faults = func(*fleetAction) fault { return fault{done: 20 * second} }
	w.at(5*second, func() { w.taint("a", "k") })
	w.at(10*second, func() {
		w.fleet.StopLeading(w.now)
		w.fleet.Lead(w.now, w.now)
	})
	w.run(100 * second)
	w.expect("evict", "5 evict a p taint")
}
