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

// clusters is the number of random clusters in which each property is checked.
const clusters = 1000

type testingTB = testing.TB

// inRandomClusters checks a property in random clusters. Only a failure gets a subtest.
func inRandomClusters(t *testing.T, policies []core.Policy, config chaosConfig, property func(c *chaos)) {
	t.Helper()
	t.Parallel()
	for seed := range uint64(clusters) {
		c := newChaos(t, seed, policies[seed%uint64(len(policies))], config)
		property(c)
		c.run(config.length)
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

func (c *chaos) errorf(format string, args ...any) {
	c.tb.Helper()
	c.tb.Errorf("%v: %s", c.now.Sub(start), fmt.Sprintf(format, args...))
}

func TestFleet_NeverTaintsRenewingNodeUnreachable(t *testing.T) {
	inRandomClusters(t, modes, all, func(c *chaos) {
		c.check = func(a *core.Action) {
			silence := a.Kind == core.MarkUnknown || slices.ContainsFunc(a.Add, func(t model.Taint) bool { return t.Key == model.KeyUnreachable })
			if r := c.seen[a.Node]; silence && c.now.Before(c.renewed[a.Node].Add(c.policy.Health.Grace)) && !reportsUnknown(r) {
				c.errorf("%v of %v, but its last heartbeat was at %v", a.Kind, a.Node, c.renewed[a.Node].Sub(start))
			}
		}
	})
}

// reportsUnknown reports whether a node itself reports Ready Unknown.
func reportsUnknown(n *model.Node) bool {
	r := n.Conditions[model.Ready]
	return r.Status == model.Unknown && r.Reason == "KubeletReports"
}

func TestFleet_DeletesPodOnce(t *testing.T) {
	inRandomClusters(t, modes, all, func(c *chaos) {
		deleted := map[string]bool{}
		c.applied = func(a *core.Action) {
			if a.Kind != core.Evict {
				return
			}
			if p := c.pods[a.Pod.UID]; deleted[a.Pod.UID] && p != nil {
				c.errorf("%s was deleted twice", a.Pod.UID)
			}
			deleted[a.Pod.UID] = true
		}
	})
}

func TestFleet_NeverWritesExistingTaint(t *testing.T) {
	inRandomClusters(t, modes, all, func(c *chaos) {
		c.applied = func(a *core.Action) {
			for i := range a.Add {
				has := func(t model.Taint) bool { return t.Is(a.Add[i].Key, a.Add[i].Effect) }
				if n := c.nodes[a.Node]; n != nil && slices.ContainsFunc(n.Taints, has) {
					c.errorf("%s: the existing taint %s:%v was written again", a.Node, a.Add[i].Key, a.Add[i].Effect)
				}
			}
		}
	})
}

func TestFleet_LimitsTaintsToZoneRate(t *testing.T) {
	inRandomClusters(t, []core.Policy{taintMode()}, all, func(c *chaos) {
		spent := map[string][]time.Time{}
		c.applied = func(a *core.Action) {
			if n := c.nodes[a.Node]; a.Kind == core.Taint && evictsPods(a.Add) && !evictsPods(n.Taints) {
				zone := a.Object.Labels.Zone
				spent[zone] = append(spent[zone], added(a))
				c.compareWithRate(zone, spent[zone], c.restarts)
			}
		}
	})
}

func evictsPods(taints []model.Taint) bool {
	return slices.ContainsFunc(taints, func(t model.Taint) bool {
		return t.Is(model.KeyNotReady, model.NoExecute) || t.Is(model.KeyUnreachable, model.NoExecute)
	})
}

// added returns the time of the decision on a taint.
func added(a *core.Action) time.Time {
	for i := range a.Add {
		if evictsPods(a.Add[i : i+1]) {
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
			c.errorf("zone %s spent %d tokens from %v on, at most %.1f", zone, n, first.Sub(start), most)
			return
		}
	}
}

func TestFleet_FailoverAddsNoToken(t *testing.T) {
	calm := chaosConfig{restarts: 3, length: 15 * minute}
	inRandomClusters(t, []core.Policy{taintMode()}, calm, func(c *chaos) {
		for range 1 + c.r.IntN(len(c.names)-1) {
			c.at(c.moment(calm), func() { c.stop(c.randomNode()) })
		}
		spent := map[string][]time.Time{}
		c.applied = func(a *core.Action) {
			if evictsPods(a.Add) && !evictsPods(c.nodes[a.Node].Taints) {
				zone := a.Object.Labels.Zone
				spent[zone] = append(spent[zone], added(a))
				c.compareWithRate(zone, spent[zone], nil)
			}
		}
	})
}

func TestFleet_TakeoverExtendsNoDeadline(t *testing.T) {
	inRandomClusters(t, []core.Policy{taintMode(), mixedMode()}, all, func(c *chaos) {
		for range 3 {
			c.at(c.moment(all), func() {
				c.settle()
				c.restarts = append(c.restarts, c.now)
				before := c.timers()
				c.restart()
				evicted := c.executeLater()
				for uid, was := range before {
					is, ok := c.fleet.Timer(uid)
					if p := c.pods[uid]; p != nil && c.stillEvicted(p) && (!ok && !evicted[uid] || is.After(was)) {
						c.errorf("%s: the deadline moved from %v to %v (%v)", uid, was.Sub(start), is.Sub(start), ok)
					}
				}
			})
		}
	})
}

// stillEvicted reports whether the API's objects require the eviction of the pod.
func (c *chaos) stillEvicted(p *model.Pod) bool {
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

// executeLater lets the fleet decide and returns the evicted pods before anything is written.
func (c *chaos) executeLater() map[string]bool {
	actions, evicted := c.fleet.Act(c.now), map[string]bool{}
	for i := range actions {
		if actions[i].Kind == core.Evict {
			evicted[actions[i].Pod.UID] = true
		}
	}
	c.at(c.now.Sub(start), func() {
		for i := range actions {
			c.execute(&actions[i])
		}
	})
	return evicted
}

func TestFleet_MarksUnknownSoonAfterTakeover(t *testing.T) {
	inRandomClusters(t, modes, all, func(c *chaos) {
		c.restarted = func() {
			taken, overdue, term := c.now, c.overdue(), c.term
			c.at(taken.Add(c.policy.Health.Renewal).Sub(start), func() {
				c.settle()
				for name, uid := range overdue {
					if n := c.nodes[name]; term == c.term && n != nil && n.UID == uid && c.renewed[name].Before(taken) && c.markedUnknown[name].Before(taken) {
						c.errorf("%s had no heartbeat at %v, but is not Unknown", name, taken.Sub(start))
					}
				}
			})
		}
	})
}

// overdue returns the nodes, with their UIDs, without heartbeats that are not Unknown yet.
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

func TestFleet_EvictsNoPodDuringFullDisruption(t *testing.T) {
	inRandomClusters(t, modes, all, func(c *chaos) {
		c.check = func(a *core.Action) {
			if a.Kind != core.Evict || !c.allFull(c.seen) {
				return
			}
			byUser := slices.DeleteFunc(slices.Clone(c.seen[a.Node].Taints), func(t model.Taint) bool { return evictsPods([]model.Taint{t}) })
			if at, ok := evictions.Deadline(a.Pod, byUser); a.Why == core.NodeLost || !ok || at.After(c.now) {
				c.errorf("%s was evicted while every zone was fully disrupted", a.Pod.UID)
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

func TestNext_NeverTooLate(t *testing.T) {
	inRandomClusters(t, append(modes, podGCMode()), all, func(c *chaos) {
		c.addEvictedPods(all)
		c.beforeAdvance = func(from, to time.Time) {
			probe := from.Add(time.Duration(1 + c.r.Int64N(int64(to.Sub(from)))))
			if !probe.Before(to) {
				return
			}
			if actions := c.fleet.Act(probe); len(actions) > 0 {
				c.errorf("Next returned %v, but Act returned an action at %v: %v %s", to.Sub(start), probe.Sub(start), actions[0].Kind, actions[0].Node)
			}
			c.now = probe
		}
	})
}

func TestFleet_IsDeterministic(t *testing.T) {
	t.Parallel()
	for seed := range uint64(clusters / 4) {
		p := modes[seed%uint64(len(modes))]
		p.EvictedPodTTL = minute
		one, other := newChaos(t, seed, p, all), newChaos(t, seed, p, all)
		one.addEvictedPods(all)
		other.addEvictedPods(all)
		one.run(all.length)
		other.run(all.length)
		if !slices.Equal(one.lines, other.lines) {
			t.Fatalf("seed %d: the actions of two runs differ", seed)
		}
	}
}
