package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/confirm"
	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

func seconds(n int) time.Duration { return time.Duration(n) * second }

func TestAutonomy_DelaysTaint(t *testing.T) {
	p := taintMode()
	p.MaxAutonomy = 100 * second
	for _, c := range []struct {
		name      string
		requested time.Duration
		scenario  func(h *harness)
		want      []string
	}{
		{"period of the node", 80 * second, func(h *harness) { h.stop("a") },
			[]string{"40 taint a +unreachable:NoSchedule", "80 taint a +unreachable:NoExecute", "80 pod-not-ready a p", "140 evict a p taint"}},
		{"period capped by the policy", model.Forever, func(h *harness) { h.stop("a") },
			[]string{"40 taint a +unreachable:NoSchedule", "100 taint a +unreachable:NoExecute", "100 pod-not-ready a p", "160 evict a p taint"}},
		{"fault reported by the node", model.Forever, func(h *harness) { h.ready("a", model.False) },
			[]string{"5 taint a +not-ready:NoSchedule", "5 taint a +not-ready:NoExecute", "65 evict a p taint"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, p)
			h.node("a", func(n *model.Node) { n.Autonomy = c.requested })
			h.node("b")
			h.pod("p", "a", defaultTolerations(60)...)
			h.at(5*second, func() { c.scenario(h) })
			h.run(400 * second)
			h.expect("taint evict pod-not-ready", c.want...)
		})
	}
}

func TestAutonomy_DelaysLegacyEviction(t *testing.T) {
	p := legacyMode()
	p.MaxAutonomy = model.Forever
	h := newHarness(t, p)
	h.node("a", func(n *model.Node) { n.Autonomy = 400 * second })
	h.node("always", func(n *model.Node) { n.Autonomy = model.Forever })
	h.node("b")
	h.node("c")
	h.pod("p", "a")
	h.pod("q", "always")
	h.at(5*second, func() { h.stop("a", "always") })
	h.run(1000 * second)
	h.expect("evict pod-not-ready", "400 pod-not-ready a p", "400 evict a p node-lost")
}

func TestSecondOpinion_LiveAgentDelaysTaint(t *testing.T) {
	for _, c := range []struct {
		name   string
		agent  int // renews until then
		result string
	}{
		{"silent agent", 0, "40 a"},
		{"agent that stops later", 65, "100 a"},
		{"live agent", 1000, "160 a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := taintMode()
			p.AgentAliveGrace = 2 * minute
			h := newHarness(t, p)
			h.node("a")
			h.node("b")
			h.pod("p", "a", defaultTolerations(-1)...)
			for s := 0; s < c.agent; s += 10 {
				h.at(seconds(s), func() { h.agent("a") })
			}
			h.at(5*second, func() { h.stop("a") })
			message := ""
			h.check = func(a *core.Action) {
				if a.Kind == core.MarkUnknown {
					message = a.Conditions[0].Message
				}
			}
			h.run(400 * second)
			h.expectNoExecute(c.result)
			h.expect("pod-not-ready", "40 pod-not-ready a p")
			alive := c.agent > 0
			if reported := strings.Contains(strings.Join(h.lines, "\n"), "event a SecondOpinion"); reported != alive || strings.Contains(message, "agent") != alive {
				t.Errorf("event: %v, message of the condition: %q, agent alive: %v", reported, message, alive)
			}
		})
	}
}

func TestMostUnhealthy_BlocksTaintsAndEvictions(t *testing.T) {
	for _, bound := range []core.Bound{{Set: true, Nodes: 2}, {Set: true, Percent: 0.2}} {
		p := taintMode()
		p.MaxUnhealthy, p.MaxUnhealthyCooldown = bound, 50*second
		h := newHarness(t, p)
		for i := range 10 {
			h.node(fmt.Sprintf("n%d", i))
			h.pod(fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i), append(defaultTolerations(60), tolerates("user", 10))...)
		}
		h.at(5*second, func() { h.stop("n0", "n1") })
		h.at(41*second, func() { h.ready("n2", model.False) })
		h.at(80*second, func() { h.taint("n0", "user") })
		h.at(120*second, func() { h.ready("n2", model.True) })
		h.run(300 * second)
		h.expectNoExecute("40 n0", "170 n1")
		h.expect("evict cancel", "90 evict n0 p0 taint", "230 evict n1 p1 taint")
		h.expect("event", "0 event n0 RegisteredNode", "0 event n1 RegisteredNode", "0 event n2 RegisteredNode", "0 event n3 RegisteredNode", "0 event n4 RegisteredNode",
			"0 event n5 RegisteredNode", "0 event n6 RegisteredNode", "0 event n7 RegisteredNode", "0 event n8 RegisteredNode", "0 event n9 RegisteredNode",
			"40 event n0 NodeNotReady", "40 event n1 NodeNotReady", "41 event n2 NodeNotReady", "41 event  BudgetExceeded", "170 event  BudgetRestored")
		i := slices.IndexFunc(h.events, func(a core.Action) bool { return a.Event == core.BudgetExceeded })
		if want := "3 of 10 nodes are unready: no node is tainted NoExecute and no eviction begins"; h.events[i].Message != want {
			t.Errorf("message %q, want %q", h.events[i].Message, want)
		}
	}
}

func TestPauseDisrupted_DelaysTaintEvictions(t *testing.T) {
	p := taintMode()
	p.PauseDisrupted = true
	h := newHarness(t, p)
	for i := range 5 {
		h.node(fmt.Sprintf("n%d", i))
		h.pod(fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i), defaultTolerations(60)...)
	}
	h.at(5*second, func() { h.stop("n0") })
	h.at(51*second, func() { h.stop("n1", "n2") })
	h.at(200*second, func() { h.resume("n1") })
	h.run(220 * second)
	h.expect("evict cancel", "200 evict n0 p0 taint")
}

func TestReadLease_ConfirmsSilence(t *testing.T) {
	p := taintMode()
	p.Confirmation.LiveReads = true
	t.Run("renewal missed by the watch", func(t *testing.T) {
		h := newHarness(t, p)
		h.node("a")
		h.node("b")
		h.lossy = func() bool { return h.now.After(at(15 * second)) }
		h.run(100 * second)
		h.expect("condition taint")
		h.expect("read-lease", "50 read-lease b", "50 read-lease a", "90 read-lease b", "90 read-lease a")
	})
	t.Run("lost node", func(t *testing.T) {
		h := newHarness(t, p)
		h.node("a")
		h.node("b")
		h.at(5*second, func() { h.stop("a") })
		h.run(100 * second)
		h.expect("read-lease", "40 read-lease a")
		h.expect("condition", fourUnknown("40", "a", unknown)...)
	})
	t.Run("unreachable API server", func(t *testing.T) {
		h := newHarness(t, p)
		h.node("a")
		h.node("b")
		down := true
		h.lossy = func() bool { return down && h.now.After(at(5*second)) }
		h.readError = func(string) error {
			if down {
				return errFault
			}
			return nil
		}
		h.at(100*second, func() { down = false })
		h.run(200 * second)
		h.expect("condition taint")
	})
	t.Run("reported outage of the API server", func(t *testing.T) {
		h := newHarness(t, p)
		h.node("a")
		h.node("b")
		h.at(5*second, func() { h.stop("a") })
		h.lossy = func() bool { return h.now.After(at(5*second)) && h.now.Before(at(41*second)) }
		h.at(30*second, func() { h.fleet.Unreachable(h.now) })
		h.run(200 * second)
		// A read succeeds at 40 s; a living node renews within 40 s of it.
		h.expect("condition", fourUnknown("80", "a", unknown)...)
	})
}

func TestBreaker_OpensOnMassFailure(t *testing.T) {
	p := taintMode()
	p.Confirmation = confirm.Policy{LiveReads: true, ReadsPerSecond: 1, Outage: 40 * second, MassFailureMinNodes: 10, MassFailureFraction: 0.1, MassFailureWindow: 10 * second, MassFailureMaxDuration: 5 * minute}
	p.UntaintRate = 0.2
	h := newHarness(t, p)
	for i := range 40 {
		h.node(fmt.Sprintf("n%02d", i), in(fmt.Sprint("z", i%2)))
	}
	// A zone fails; no node is lost before twenty of its leases were read.
	h.at(5*second, func() {
		for i := 0; i < 40; i += 2 {
			h.stop(fmt.Sprintf("n%02d", i))
		}
	})
	h.at(100*second, func() { h.resume("n00", "n02", "n04", "n06") })
	h.run(300 * second)
	first := h.of("condition")[0]
	if !strings.HasPrefix(first, "59.0") {
		t.Errorf("got the first loss at %q, want 59 s", first)
	}
	var back []string
	for _, l := range h.of("taint") {
		if strings.HasSuffix(l, "-unreachable:NoExecute") {
			back = append(back, l)
		}
	}
	if len(back) == 0 {
		t.Error("no NoExecute taint was removed")
	}
	h.expectEvent(core.BreakerOpened, 40*second)
	h.expectEvent(core.BreakerClosed, 59*second)
}

// expectEvent expects an event of the cluster within a millisecond of a time.
func (h *harness) expectEvent(e core.Event, when time.Duration) {
	h.tb.Helper()
	for _, l := range h.of("event") {
		var at float64
		var what string
		if n, _ := fmt.Sscanf(l, "%g event %s", &at, &what); n == 2 && what == e.String() && time.Duration(at*1e9).Round(time.Millisecond) == when {
			return
		}
	}
	h.tb.Errorf("no event %v at %v: got %v", e, when, h.of("event"))
}

func TestRecovery_SpreadsUntaintsAfterMassFailure(t *testing.T) {
	p := taintMode()
	p.Confirmation = confirm.Policy{MassFailureMinNodes: 3, MassFailureWindow: 10 * second, MassFailureMaxDuration: minute, Outage: 40 * second}
	p.UntaintRate = 0.2
	p.Zones.Rate = 1
	h := newHarness(t, p)
	for i := range 12 {
		h.node(fmt.Sprintf("n%02d", i))
		h.pod(fmt.Sprintf("p%02d", i), fmt.Sprintf("n%02d", i), defaultTolerations(100)...)
	}
	h.at(5*second, func() { h.stop("n00", "n01") })
	h.at(61*second, func() { h.stop("n02", "n03", "n04", "n05") })
	h.at(120*second, func() { h.resume("n00", "n01") })
	h.run(180 * second)
	var back []string
	for _, l := range h.of("taint") {
		if strings.HasSuffix(l, "-unreachable:NoExecute") {
			back = append(back, l)
		}
	}
	if want := []string{"120 taint n00 -unreachable:NoExecute", "125 taint n01 -unreachable:NoExecute"}; fmt.Sprint(back) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", back, want)
	}
	h.expect("evict cancel", "120 cancel n00 p00", "120 cancel n01 p01")
}

// TestNext_IgnoresObsoleteRetryOfLimitedPod covers an obsolete failed write with its retry in
// the past. It must not cause repeated calls of Act while the eviction of its pod is limited.
func TestNext_IgnoresObsoleteRetryOfLimitedPod(t *testing.T) {
	p := taintMode()
	p.MaxUnhealthy, p.MaxUnhealthyCooldown = core.Bound{Nodes: 1, Set: true}, 50*second
	h := newHarness(t, p)
	for _, name := range []string{"a", "b", "c", "d"} {
		h.node(name)
	}
	h.pod("web", "a", defaultTolerations(300)...)
	h.faults = func(a *core.Action) (f fault) {
		if a.Kind == core.MarkNotReady {
			f.err = errFault
		}
		return f
	}
	h.at(60*second, func() { h.stop("a") })
	h.at(95*second, func() { h.changePod("web", 0, func(p *model.Pod) { p.Ready = false }) })
	h.at(100*second, func() { h.stop("b") })
	h.run(600 * second)
	h.expect("evict cancel")
}
