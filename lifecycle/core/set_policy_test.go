package core_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// setPolicy replaces the policy of the harness by a changed one.
func (h *harness) setPolicy(change func(p *core.Policy)) {
	change(&h.policy)
	h.fleet.SetPolicy(h.policy, h.now)
}

func grace(d time.Duration) func(*core.Policy) { return func(p *core.Policy) { p.Health.Grace = d } }

// A node has been silent since 0. Its grace period counts from there, whatever it is changed to.
func TestSetPolicy_GracePeriod(t *testing.T) {
	for _, c := range []struct {
		name   string
		at     time.Duration
		change func(*core.Policy)
		want   []string
	}{
		{"longer", 30 * second, grace(100 * second), fourUnknown("100", "a", unknown)},
		{"shorter, not over yet", 10 * second, grace(20 * second), fourUnknown("20", "a", unknown)},
		{"shorter, over already", 30 * second, grace(20 * second), fourUnknown("30", "a", unknown)},
		{"longer, after the loss", 50 * second, grace(100 * second), fourUnknown("40", "a", unknown)},
		{"the same", 30 * second, grace(40 * second), fourUnknown("40", "a", unknown)},
	} {
		h := newHarness(t, taintMode())
		h.node("a")
		h.node("b")
		h.at(second, func() { h.stop("a") })
		h.at(c.at, func() { h.setPolicy(c.change) })
		h.run(300 * second)
		if got := h.of("condition"); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// The loss of a node cannot be confirmed for a while. A longer grace period ends the suspicion, and without
// live reads the suspected node is lost at once.
func TestSetPolicy_SuspectedNode(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*core.Policy)
		want   []string
	}{
		"longer grace period": {grace(200 * second), fourUnknown("200", "a", unknown)},
		"no live reads":       {func(p *core.Policy) { p.Confirmation.LiveReads = false }, fourUnknown("60", "a", unknown)},
	} {
		p := taintMode()
		p.Confirmation.LiveReads, p.Confirmation.Outage = true, 0
		h := newHarness(t, p)
		h.readError = func(string) error {
			if h.now.Before(at(61 * second)) {
				return errFault
			}
			return nil
		}
		h.node("a")
		h.node("b")
		h.at(second, func() { h.stop("a") })
		h.at(60*second, func() { h.setPolicy(c.change) })
		h.run(400 * second)
		if got := h.of("condition"); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestSetPolicy_RatesAndLimits(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func(*core.Policy)
		want          []string
	}{
		"faster": {func(*core.Policy) {}, func(p *core.Policy) { p.Zones.Rate = 1 },
			[]string{"40 taint a +unreachable:NoExecute", "50 taint b +unreachable:NoExecute", "53 taint c +unreachable:NoExecute"}},
		"slower": {func(*core.Policy) {}, func(p *core.Policy) { p.Zones.Rate = 0.01 },
			[]string{"40 taint a +unreachable:NoExecute", "50 taint b +unreachable:NoExecute", "152 taint c +unreachable:NoExecute"}},
		"limit raised": {func(p *core.Policy) { p.MaxUnhealthy = core.Bound{Set: true, Nodes: 2} }, func(p *core.Policy) { p.MaxUnhealthy.Nodes = 3 },
			[]string{"52 taint a +unreachable:NoExecute", "62 taint b +unreachable:NoExecute", "72 taint c +unreachable:NoExecute"}},
		"limit lowered": {func(*core.Policy) {}, func(p *core.Policy) { p.MaxUnhealthy = core.Bound{Set: true, Nodes: 2} },
			[]string{"40 taint a +unreachable:NoExecute", "50 taint b +unreachable:NoExecute"}},
	} {
		p := taintMode()
		c.before(&p)
		h := newHarness(t, p)
		for _, node := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			h.node(node)
		}
		h.at(second, func() { h.stop("a", "b", "c") })
		h.at(52*second, func() { h.setPolicy(c.after) })
		h.run(300 * second)
		var got []string
		for _, line := range h.of("taint") {
			if line[len(line)-len("NoExecute"):] == "NoExecute" {
				got = append(got, line)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// The TTL counts from the eviction, also of pods that were evicted while there was none.
func TestSetPolicy_EvictedPodTTL(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.pod("p", "a")
	h.at(10*second, func() { h.agentEvicts("p") })
	h.at(50*second, func() { h.setPolicy(func(p *core.Policy) { p.EvictedPodTTL = 100 * second }) })
	h.at(60*second, func() { h.setPolicy(func(p *core.Policy) { p.EvictedPodTTL = 0 }) })
	h.at(200*second, func() { h.setPolicy(func(p *core.Policy) { p.EvictedPodTTL = 300 * second }) })
	h.run(600 * second)
	h.expect("delete-evicted-pod", "310 delete-evicted-pod a p")
}

// An equal policy at any time changes nothing of what is decided, nor when.
func TestSetPolicy_EqualOneChangesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(clusters / 4) {
		run := func(times func(c *chaos) func()) []string {
			c := newChaos(t, seed, modes[seed%uint64(len(modes))], all)
			for i := range 60 {
				c.at(time.Duration(i)*all.length/60+time.Duration(seed%7)*second, times(c))
			}
			c.run(all.length)
			return c.lines
		}
		want := run(func(*chaos) func() { return func() {} })
		got := run(func(c *chaos) func() { return func() { c.fleet.SetPolicy(c.policy, c.now) } })
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: got\n%s\nwant\n%s", seed, lastOf(got), lastOf(want))
		}
	}
}

// Over random changes nothing is done twice, no node is Unknown within the shortest grace period, and the
// harness finds no endless loop.
func TestSetPolicy_RandomChanges(t *testing.T) {
	inRandomClusters(t, modes, all, func(c *chaos) {
		deleted := map[string]bool{}
		for range 20 {
			c.at(c.moment(all), func() { c.setPolicy(func(p *core.Policy) { randomize(c.r, p) }) })
		}
		c.check = func(a *core.Action) {
			if r := c.seen[a.Node]; a.Kind == core.MarkUnknown && c.now.Before(c.renewed[a.Node].Add(minGrace)) && !reportsUnknown(r) {
				c.errorf("%v of %v, but its last heartbeat was at %v", a.Kind, a.Node, c.renewed[a.Node].Sub(start))
			}
		}
		c.applied = func(a *core.Action) {
			for i := range a.Add {
				has := func(t model.Taint) bool { return t.Is(a.Add[i].Key, a.Add[i].Effect) }
				if n := c.nodes[a.Node]; n != nil && slices.ContainsFunc(n.Taints, has) {
					c.errorf("%s: the existing taint %s:%v was written again", a.Node, a.Add[i].Key, a.Add[i].Effect)
				}
			}
			if a.Kind != core.Evict {
				return
			}
			if deleted[a.Pod.UID] && c.pods[a.Pod.UID] != nil {
				c.errorf("%s was deleted twice", a.Pod.UID)
			}
			deleted[a.Pod.UID] = true
		}
	})
}

const minGrace = 20 * second

// randomize draws every part of a policy but its mode.
func randomize(r *rand.Rand, p *core.Policy) {
	draw := func(of ...time.Duration) time.Duration { return of[r.IntN(len(of))] }
	rate := func() float64 { return []float64{0, 0.02, 0.1, 1}[r.IntN(4)] }
	p.Health.Grace, p.Health.StartupGrace = draw(minGrace, 40*second, 2*minute), draw(minGrace, 60*second)
	p.Zones.Rate, p.Zones.SecondaryRate, p.Zones.FullRate, p.Zones.Unhealthy, p.Zones.LargeZone = rate(), rate(), rate()-0.01, []float64{0.3, 0.55, 2}[r.IntN(3)], r.IntN(6)
	p.Confirmation.LiveReads, p.Confirmation.ReadsPerSecond, p.Confirmation.Outage = r.IntN(2) == 0, rate(), draw(0, 40*second)
	p.Confirmation.MassFailureMinNodes, p.Confirmation.MassFailureFraction, p.Confirmation.MassFailureWindow, p.Confirmation.MassFailureMaxDuration = r.IntN(4), r.Float64()/2, draw(10*second, minute), draw(30*second, 5*minute)
	p.Agents.Grace, p.AgentAliveGrace, p.MaxAutonomy, p.EvictedPodTTL = draw(20*second, minute), draw(0, minute), draw(0, minute), draw(0, minute)
	p.MaxUnhealthy, p.MaxUnhealthyCooldown = core.Bound{Set: r.IntN(2) == 0, Nodes: 1 + r.IntN(4)}, draw(0, minute)
	p.PodEvictionTimeout, p.PauseDisrupted, p.UntaintRate = draw(minute, 5*minute), r.IntN(2) == 0, rate()
}
