package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/evictions"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// worlds is the number of random clusters in which each property is checked.
const worlds = 1000

type testingTB = testing.TB

// inWorlds checks a property in random clusters. Only a failure gets a subtest.
func inWorlds(t *testing.T, policies []core.Policy, troubled troubles, property func(c *chaos)) {
	t.Helper()
	t.Parallel()
	for seed := range uint64(worlds) {
		c := newChaos(t, seed, policies[seed%uint64(len(policies))], troubled)
		property(c)
		c.run(troubled.length)
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, lastOf(c.lines))
		}
	}
}

func lastOf(lines []string) (text string) {
	for _, l := range lines[max(0, len(lines)-60):] {
		text += "\t" + l + "\n"
	}
	return text
}

var modes = []core.Policy{taintMode(), legacyMode(), taintMode(), mixedMode()}

func mixedMode() core.Policy {
	p := legacyMode()
	p.TaintEvictions = true
	return p
}

func (c *chaos) complain(format string, args ...any) {
	c.tb.Helper()
	c.tb.Errorf("%v: %s", c.now.Sub(start), fmt.Sprintf(format, args...))
}

func TestANodeThatRenewsIsNeverTaintedForSilence(t *testing.T) {
	inWorlds(t, modes, all, func(c *chaos) {
		c.check = func(a *core.Action) {
			silence := a.Kind == core.MarkUnknown || slices.ContainsFunc(a.Add, func(t model.Taint) bool { return t.Key == model.KeyUnreachable })
			if r := c.seen[a.Node]; silence && c.now.Before(c.heard[a.Node].Add(c.policy.Health.Grace)) && !saysUnknown(r) {
				c.complain("%v %v though it was heard at %v", a.Kind, a.Node, c.heard[a.Node].Sub(start))
			}
		}
	})
}

// saysUnknown reports whether a node itself reports Ready Unknown.
func saysUnknown(n *model.Node) bool {
	r := n.Conditions[model.Ready]
	return r.Status == model.Unknown && r.Reason == "KubeletSays"
}

func TestAPodIsDeletedOnce(t *testing.T) {
	inWorlds(t, modes, all, func(c *chaos) {
		deleted := map[string]bool{}
		c.applied = func(a *core.Action) {
			if a.Kind != core.Evict {
				return
			}
			if p := c.pods[a.Pod.UID]; deleted[a.Pod.UID] && p != nil {
				c.complain("%s is deleted a second time", a.Pod.UID)
			}
			deleted[a.Pod.UID] = true
		}
	})
}

func TestNoTaintIsWrittenThatIsThere(t *testing.T) {
	inWorlds(t, modes, all, func(c *chaos) {
		c.applied = func(a *core.Action) {
			for i := range a.Add {
				has := func(t model.Taint) bool { return t.Is(a.Add[i].Key, a.Add[i].Effect) }
				if n := c.nodes[a.Node]; n != nil && slices.ContainsFunc(n.Taints, has) {
					c.complain("%s is tainted %s:%v once more", a.Node, a.Add[i].Key, a.Add[i].Effect)
				}
			}
		}
	})
}

func TestTaintsKeepToTheRateOfTheirZone(t *testing.T) {
	inWorlds(t, []core.Policy{taintMode()}, all, func(c *chaos) {
		spent := map[string][]time.Time{}
		c.applied = func(a *core.Action) {
			if n := c.nodes[a.Node]; a.Kind == core.Taint && drives(a.Add) && !drives(n.Taints) {
				zone := a.Object.Labels.Zone
				spent[zone] = append(spent[zone], added(a))
				c.compareWithRate(zone, spent[zone], c.restarts)
			}
		}
	})
}

func drives(taints []model.Taint) bool {
	return slices.ContainsFunc(taints, func(t model.Taint) bool {
		return t.Is(model.KeyNotReady, model.NoExecute) || t.Is(model.KeyUnreachable, model.NoExecute)
	})
}

// added returns the time of the decision on a taint.
func added(a *core.Action) time.Time {
	for i := range a.Add {
		if drives(a.Add[i : i+1]) {
			return a.Add[i].Added
		}
	}
	return time.Time{}
}

// compareWithRate compares each interval up to now with its limit of tokens. A failover may
// cost one token, if the taint that shows the last one is gone.
func (c *chaos) compareWithRate(zone string, spent, failovers []time.Time) {
	last := spent[len(spent)-1]
	for i, first := range spent {
		most := 1 + last.Sub(first).Seconds()*c.policy.Zones.Rate + 1e-6
		for _, r := range failovers {
			if r.After(first) && !r.After(last) {
				most++
			}
		}
		if n := len(spent) - i; float64(n) > most {
			c.complain("zone %s spent %d tokens from %v on, at most %.1f", zone, n, first.Sub(start), most)
			return
		}
	}
}

func TestNoFailoverCostsAToken(t *testing.T) {
	calm := troubles{restarts: 3, length: 15 * minute}
	inWorlds(t, []core.Policy{taintMode()}, calm, func(c *chaos) {
		for range 1 + c.r.IntN(len(c.names)-1) {
			c.at(c.moment(calm), func() { c.stop(c.some()) })
		}
		spent := map[string][]time.Time{}
		c.applied = func(a *core.Action) {
			if drives(a.Add) && !drives(c.nodes[a.Node].Taints) {
				zone := a.Object.Labels.Zone
				spent[zone] = append(spent[zone], added(a))
				c.compareWithRate(zone, spent[zone], nil)
			}
		}
	})
}

func TestATakeoverLengthensNoDeadline(t *testing.T) {
	inWorlds(t, []core.Policy{taintMode(), mixedMode()}, all, func(c *chaos) {
		for range 3 {
			c.at(c.moment(all), func() {
				c.settle()
				c.restarts = append(c.restarts, c.now)
				before := c.timers()
				c.restart()
				evicted := c.carryOutLater()
				for uid, was := range before {
					is, ok := c.fleet.Timer(uid)
					if p := c.pods[uid]; p != nil && c.stillDriven(p) && (!ok && !evicted[uid] || is.After(was)) {
						c.complain("%s was to go at %v, now at %v (%v)", uid, was.Sub(start), is.Sub(start), ok)
					}
				}
			})
		}
	})
}

// stillDriven reports whether the API's objects require the eviction of the pod.
func (c *chaos) stillDriven(p *model.Pod) bool {
	n := c.nodes[p.Node]
	if n == nil || n.Conditions[model.Ready].Status == model.True || c.allFull(c.nodes) {
		return false
	}
	_, ok := evictions.Deadline(p, n.Taints)
	return ok
}

func (c *chaos) timers() map[string]time.Time {
	timers := map[string]time.Time{}
	for uid := range c.pods {
		if at, ok := c.fleet.Timer(uid); ok {
			timers[uid] = at
		}
	}
	return timers
}

// carryOutLater lets the fleet decide and returns the evicted pods before anything is written.
func (c *chaos) carryOutLater() map[string]bool {
	actions, evicted := c.fleet.Act(c.now), map[string]bool{}
	for i := range actions {
		if actions[i].Kind == core.Evict {
			evicted[actions[i].Pod.UID] = true
		}
	}
	c.at(c.now.Sub(start), func() {
		for i := range actions {
			c.carryOut(&actions[i])
		}
	})
	return evicted
}

func TestUnknownComesSoonAfterATakeover(t *testing.T) {
	inWorlds(t, modes, all, func(c *chaos) {
		c.restarted = func() {
			taken, overdue, reign := c.now, c.overdue(), c.reign
			c.at(taken.Add(c.policy.Health.Renewal).Sub(start), func() {
				c.settle()
				for name, uid := range overdue {
					if n := c.nodes[name]; reign == c.reign && n != nil && n.UID == uid && c.heard[name].Before(taken) && c.said[name].Before(taken) {
						c.complain("%s looked dead at %v and is not Unknown", name, taken.Sub(start))
					}
				}
			})
		}
	})
}

// overdue returns the nodes, with their UIDs, that appear dead and are not Unknown yet.
func (c *chaos) overdue() map[string]string {
	nodes := map[string]string{}
	for name, n := range c.nodes {
		last := n.Conditions[model.Ready].Heartbeat
		if c.leases[name].After(last) {
			last = c.leases[name]
		}
		if c.down[name] && n.Conditions[model.Ready].Status != model.Unknown && !c.now.Before(last.Add(c.policy.Health.Grace)) {
			nodes[name] = n.UID
		}
	}
	return nodes
}

func TestNobodyIsEvictedForDeadNodesWhileAllZonesAreFull(t *testing.T) {
	inWorlds(t, modes, all, func(c *chaos) {
		c.check = func(a *core.Action) {
			if a.Kind != core.Evict || !c.allFull(c.seen) {
				return
			}
			byUser := slices.DeleteFunc(slices.Clone(c.seen[a.Node].Taints), func(t model.Taint) bool { return drives([]model.Taint{t}) })
			if at, ok := evictions.Deadline(a.Pod, byUser); a.Why == core.NodeLost || !ok || at.After(c.now) {
				c.complain("%s is evicted while every zone is fully disrupted", a.Pod.UID)
			}
		}
	})
}

// allFull reports whether there are counted nodes, and none of them is ready.
func (c *chaos) allFull(nodes map[string]*model.Node) bool {
	counted := false
	for _, n := range nodes {
		if n.Labels.Excluded {
			continue
		}
		if counted = true; n.Conditions[model.Ready].Status == model.True {
			return false
		}
	}
	return counted
}

func TestNextIsNeverTooLate(t *testing.T) {
	inWorlds(t, append(modes, cleaning()), all, func(c *chaos) {
		c.remains(all)
		c.apart = func(from, to time.Time) {
			probe := from.Add(time.Duration(1 + c.r.Int64N(int64(to.Sub(from)))))
			if !probe.Before(to) {
				return
			}
			if actions := c.fleet.Act(probe); len(actions) > 0 {
				c.complain("Next said %v, but there is something to do at %v: %v %s", to.Sub(start), probe.Sub(start), actions[0].Kind, actions[0].Node)
			}
			c.now = probe
		}
	})
}

func TestTheSameInputGivesTheSameActions(t *testing.T) {
	t.Parallel()
	for seed := range uint64(worlds / 4) {
		p := modes[seed%uint64(len(modes))]
		p.EvictedPodTTL = minute
		one, other := newChaos(t, seed, p, all), newChaos(t, seed, p, all)
		one.remains(all)
		other.remains(all)
		one.run(all.length)
		other.run(all.length)
		if !slices.Equal(one.lines, other.lines) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
}
