package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/confirm"
	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

func seconds(n int) time.Duration { return time.Duration(n) * second }

func TestAutonomy(t *testing.T) {
	p := taintMode()
	p.AutonomyLongest = 100 * second
	for _, c := range []struct {
		name   string
		wished time.Duration
		story  func(w *world)
		want   []string
	}{
		{"as long as the node wishes", 80 * second, func(w *world) { w.stop("a") },
			[]string{"40 taint a +unreachable:NoSchedule", "80 taint a +unreachable:NoExecute", "80 pod-not-ready a p", "140 evict a p taint"}},
		{"not for ever", model.Forever, func(w *world) { w.stop("a") },
			[]string{"40 taint a +unreachable:NoSchedule", "100 taint a +unreachable:NoExecute", "100 pod-not-ready a p", "160 evict a p taint"}},
		{"never for a fault that it reports itself", model.Forever, func(w *world) { w.ready("a", model.False) },
			[]string{"5 taint a +not-ready:NoSchedule", "5 taint a +not-ready:NoExecute", "65 evict a p taint"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, p)
			w.node("a", func(n *model.Node) { n.Autonomy = c.wished })
			w.node("b")
			w.pod("p", "a", usual(60)...)
			w.at(5*second, func() { c.story(w) })
			w.run(400 * second)
			w.expect("taint evict pod-not-ready", c.want...)
		})
	}
}

func TestAutonomyWithoutTaints(t *testing.T) {
	p := legacyMode()
	p.AutonomyLongest = model.Forever
	w := newWorld(t, p)
	w.node("a", func(n *model.Node) { n.Autonomy = 400 * second })
	w.node("always", func(n *model.Node) { n.Autonomy = model.Forever })
	w.node("b")
	w.node("c")
	w.pod("p", "a")
	w.pod("q", "always")
	w.at(5*second, func() { w.stop("a", "always") })
	w.run(1000 * second)
	w.expect("evict pod-not-ready", "400 pod-not-ready a p", "400 evict a p node-lost")
}

func TestSecondOpinion(t *testing.T) {
	for _, c := range []struct {
		name   string
		agent  int // renews until then
		result string
	}{
		{"the agent is silent as well", 0, "40 a"},
		{"the agent falls silent", 65, "100 a"},
		{"the agent lives on", 1000, "160 a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := taintMode()
			p.SecondOpinion = 2 * minute
			w := newWorld(t, p)
			w.node("a")
			w.node("b")
			w.pod("p", "a", usual(-1)...)
			for s := 0; s < c.agent; s += 10 {
				w.at(seconds(s), func() { w.agent("a") })
			}
			w.at(5*second, func() { w.stop("a") })
			said := ""
			w.check = func(a *core.Action) {
				if a.Kind == core.MarkUnknown {
					said = a.Conditions[0].Message
				}
			}
			w.run(400 * second)
			w.expectNoExecute(c.result)
			w.expect("pod-not-ready", "40 pod-not-ready a p")
			alive := c.agent > 0
			if told := strings.Contains(strings.Join(w.lines, "\n"), "event a SecondOpinion"); told != alive || strings.Contains(said, "agent") != alive {
				t.Errorf("told: %v, and in the condition: %q", told, said)
			}
		})
	}
}

func TestTooManyUnreadyNodes(t *testing.T) {
	for _, bound := range []core.Bound{{Set: true, Nodes: 2}, {Set: true, Percent: 0.2}} {
		p := taintMode()
		p.MostUnhealthy, p.StormCooldown = bound, 50*second
		w := newWorld(t, p)
		for i := range 10 {
			w.node(fmt.Sprintf("n%d", i))
			w.pod(fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i), append(usual(60), bears("user", 10))...)
		}
		w.at(5*second, func() { w.stop("n0", "n1") })
		w.at(41*second, func() { w.ready("n2", model.False) })
		w.at(80*second, func() { w.taint("n0", "user") })
		w.at(120*second, func() { w.ready("n2", model.True) })
		w.run(300 * second)
		w.expectNoExecute("40 n0", "170 n1")
		w.expect("evict cancel", "90 evict n0 p0 taint", "230 evict n1 p1 taint")
		w.expect("event", "0 event n0 RegisteredNode", "0 event n1 RegisteredNode", "0 event n2 RegisteredNode", "0 event n3 RegisteredNode", "0 event n4 RegisteredNode",
			"0 event n5 RegisteredNode", "0 event n6 RegisteredNode", "0 event n7 RegisteredNode", "0 event n8 RegisteredNode", "0 event n9 RegisteredNode",
			"40 event n0 NodeNotReady", "40 event n1 NodeNotReady", "41 event n2 NodeNotReady", "41 event  BudgetExceeded", "170 event  BudgetRestored")
	}
}

func TestTimersWaitWhileAZoneIsDisrupted(t *testing.T) {
	p := taintMode()
	p.PauseDisrupted = true
	w := newWorld(t, p)
	for i := range 5 {
		w.node(fmt.Sprintf("n%d", i))
		w.pod(fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i), usual(60)...)
	}
	w.at(5*second, func() { w.stop("n0") })
	w.at(51*second, func() { w.stop("n1", "n2") })
	w.at(200*second, func() { w.resume("n1") })
	w.run(220 * second)
	w.expect("evict cancel", "200 evict n0 p0 taint")
}

func TestLiveReads(t *testing.T) {
	p := taintMode()
	p.Evidence.LiveReads = true
	t.Run("a renewal that the watch did not deliver", func(t *testing.T) {
		w := newWorld(t, p)
		w.node("a")
		w.node("b")
		w.lossy = func() bool { return w.now.After(at(15 * second)) }
		w.run(100 * second)
		w.expect("condition taint")
		w.expect("read-lease", "50 read-lease b", "50 read-lease a", "90 read-lease b", "90 read-lease a")
	})
	t.Run("a dead node", func(t *testing.T) {
		w := newWorld(t, p)
		w.node("a")
		w.node("b")
		w.at(5*second, func() { w.stop("a") })
		w.run(100 * second)
		w.expect("read-lease", "40 read-lease a")
		w.expect("condition", fourUnknown("40", "a", unknown)...)
	})
	t.Run("an API server that does not answer", func(t *testing.T) {
		w := newWorld(t, p)
		w.node("a")
		w.node("b")
		down := true
		w.lossy = func() bool { return down && w.now.After(at(5*second)) }
		w.reads = func(string) error {
			if down {
				return errFault
			}
			return nil
		}
		w.at(100*second, func() { down = false })
		w.run(200 * second)
		w.expect("condition taint")
	})
	t.Run("it is told that nobody answers", func(t *testing.T) {
		w := newWorld(t, p)
		w.node("a")
		w.node("b")
		w.at(5*second, func() { w.stop("a") })
		w.lossy = func() bool { return w.now.After(at(5*second)) && w.now.Before(at(41*second)) }
		w.at(30*second, func() { w.fleet.Unreachable(w.now) })
		w.run(200 * second)
		// A read succeeds at 40 s; a living node renews within 40 s of it.
		w.expect("condition", fourUnknown("80", "a", unknown)...)
	})
}

func TestAStormOpensTheBreaker(t *testing.T) {
	p := taintMode()
	p.Evidence = confirm.Policy{LiveReads: true, ReadsPerSecond: 1, Outage: 40 * second, StormNodes: 10, StormShare: 0.1, StormWindow: 10 * second, StormLongest: 5 * minute}
	p.RecoveriesPerSecond = 0.2
	w := newWorld(t, p)
	for i := range 40 {
		w.node(fmt.Sprintf("n%02d", i), in(fmt.Sprint("z", i%2)))
	}
	// A zone dies; no node is lost before twenty of its leases were read.
	w.at(5*second, func() {
		for i := 0; i < 40; i += 2 {
			w.stop(fmt.Sprintf("n%02d", i))
		}
	})
	w.at(100*second, func() { w.resume("n00", "n02", "n04", "n06") })
	w.run(300 * second)
	first := w.of("condition")[0]
	if !strings.HasPrefix(first, "59.0") {
		t.Errorf("the first is given up so: %s", first)
	}
	var back []string
	for _, l := range w.of("taint") {
		if strings.HasSuffix(l, "-unreachable:NoExecute") {
			back = append(back, l)
		}
	}
	if len(back) == 0 {
		t.Error("nobody lost his NoExecute taint")
	}
	w.expectTold(core.BreakerOpened, 40*second)
	w.expectTold(core.BreakerClosed, 59*second)
}

// expectTold expects an event of the cluster within a millisecond of a moment.
func (w *world) expectTold(e core.Event, when time.Duration) {
	w.tb.Helper()
	for _, l := range w.of("event") {
		var at float64
		var what string
		if n, _ := fmt.Sscanf(l, "%g event %s", &at, &what); n == 2 && what == e.String() && time.Duration(at*1e9).Round(time.Millisecond) == when {
			return
		}
	}
	w.tb.Errorf("%v was not told at %v: %v", e, when, w.of("event"))
}

func TestRecoveriesAfterAStormAreSpread(t *testing.T) {
	p := taintMode()
	p.Evidence = confirm.Policy{StormNodes: 3, StormWindow: 10 * second, StormLongest: minute, Outage: 40 * second}
	p.RecoveriesPerSecond = 0.2
	p.Zones.Rate = 1
	w := newWorld(t, p)
	for i := range 12 {
		w.node(fmt.Sprintf("n%02d", i))
		w.pod(fmt.Sprintf("p%02d", i), fmt.Sprintf("n%02d", i), usual(100)...)
	}
	w.at(5*second, func() { w.stop("n00", "n01") })
	w.at(61*second, func() { w.stop("n02", "n03", "n04", "n05") })
	w.at(120*second, func() { w.resume("n00", "n01") })
	w.run(180 * second)
	var back []string
	for _, l := range w.of("taint") {
		if strings.HasSuffix(l, "-unreachable:NoExecute") {
			back = append(back, l)
		}
	}
	if want := []string{"120 taint n00 -unreachable:NoExecute", "125 taint n01 -unreachable:NoExecute"}; fmt.Sprint(back) != fmt.Sprint(want) {
		t.Errorf("%v instead of %v", back, want)
	}
	w.expect("evict cancel", "120 cancel n00 p00", "120 cancel n01 p01")
}

// TestNext_ObsoleteRetryOfHeldPod covers an obsolete failed write with its retry in the past.
// It must not wake the fleet repeatedly while the eviction of its pod is limited.
func TestNext_ObsoleteRetryOfHeldPod(t *testing.T) {
	p := taintMode()
	p.MostUnhealthy, p.StormCooldown = core.Bound{Nodes: 1, Set: true}, 50*second
	w := newWorld(t, p)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.node(name)
	}
	w.pod("web", "a", usual(300)...)
	w.faults = func(a *core.Action) (f fault) {
		if a.Kind == core.MarkNotReady {
			f.err = errFault
		}
		return f
	}
	w.at(60*second, func() { w.stop("a") })
	w.at(95*second, func() { w.changePod("web", 0, func(p *model.Pod) { p.Ready = false }) })
	w.at(100*second, func() { w.stop("b") })
	w.run(600 * second)
	w.expect("evict cancel")
}
