package core

import (
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/agents"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// TestDryRun_ObservationsTakePrecedence checks what a node counts as after simulated actions
// and later observations of its object.
func TestDryRun_ObservationsTakePrecedence(t *testing.T) {
	then := time.Unix(1_700_000_000, 0)
	later := then.Add(time.Minute)
	noExecute := func(key string, added time.Time) model.Taint {
		return model.Taint{Key: key, Effect: model.NoExecute, Added: added}
	}
	object := &model.Node{Name: "a", UID: "u", Taints: []model.Taint{noExecute("k", then)}}
	object.Conditions[model.Ready] = model.Condition{Status: model.True, Heartbeat: then, Transition: then}
	changed := func(change func(*model.Node)) *model.Node {
		n := *object
		change(&n)
		return &n
	}
	ready := func(s model.Status) *model.Node {
		return changed(func(n *model.Node) {
			n.Conditions[model.Ready] = model.Condition{Status: s, Heartbeat: later, Transition: later}
		})
	}
	tainted := func(all ...model.Taint) *model.Node { return changed(func(n *model.Node) { n.Taints = all }) }
	other := changed(func(n *model.Node) { n.UID = "v" })
	unknown := &Action{Kind: MarkUnknown, Node: "a", at: later, Conditions: []UnknownCondition{{Type: model.Ready, Reason: "r"}}}
	swap := &Action{Kind: Taint, Node: "a", at: later, Add: []model.Taint{noExecute("l", later)}, Remove: []model.Taint{noExecute("k", then)}}
	back := &Action{Kind: Taint, Node: "a", at: later, Add: []model.Taint{noExecute("k", later)}, Remove: []model.Taint{noExecute("l", later)}}
	undo := &Action{Kind: Taint, Node: "a", at: later, Remove: []model.Taint{noExecute("l", later)}}
	for name, c := range map[string]struct {
		actions  []*Action
		observed []*model.Node
		ready    model.Status
		taints   []model.Taint
	}{
		"no action":                        {nil, []*model.Node{object}, model.True, object.Taints},
		"marked Unknown":                   {[]*Action{unknown}, []*model.Node{object}, model.Unknown, object.Taints},
		"marked Unknown, node reports":     {[]*Action{unknown}, []*model.Node{ready(model.True)}, model.True, object.Taints},
		"marked Unknown by another writer": {[]*Action{unknown}, []*model.Node{ready(model.Unknown)}, model.Unknown, object.Taints},
		"swapped taints":                   {[]*Action{swap}, []*model.Node{object}, model.True, swap.Add},
		"swapped twice":                    {[]*Action{swap, back}, []*model.Node{object}, model.True, back.Add},
		"swapped often":                    {[]*Action{swap, back, swap, back, swap, back}, []*model.Node{object}, model.True, back.Add},
		"swapped, then removed":            {[]*Action{swap, undo}, []*model.Node{object}, model.True, nil},
		"taint added by another writer":    {[]*Action{swap}, []*model.Node{tainted(noExecute("l", then))}, model.True, []model.Taint{noExecute("l", then)}},
		"removed taint added again":        {[]*Action{swap}, []*model.Node{tainted(), tainted(noExecute("k", later))}, model.True, []model.Taint{noExecute("k", later), swap.Add[0]}},
		"other writer removes its taint":   {[]*Action{swap}, []*model.Node{tainted(noExecute("l", then)), tainted()}, model.True, nil},
		"another node of the name":         {[]*Action{unknown, swap}, []*model.Node{other}, model.True, object.Taints},
	} {
		f := New(Policy{Agents: agents.Policy{Grace: time.Minute}})
		f.SetDryRun(true)
		f.Lead(time.Time{}, then)
		f.Node(object, then)
		node := f.nodes["a"]
		node.health, node.lastReport, node.lostAt = stateUnreachable, object.Conditions[model.Ready], later
		if !slices.Contains(c.actions, unknown) {
			node.health = stateHealthy
		}
		f.now = later
		for _, a := range c.actions {
			f.addPendingWrite(node, a)
		}
		if len(node.pendingWrites) > 2 {
			t.Errorf("%s: %d pending writes, want them merged", name, len(node.pendingWrites))
		}
		for _, n := range c.observed {
			f.Node(n, later)
		}
		if got := f.nodes["a"].view; got.Conditions[model.Ready].Status != c.ready || !slices.Equal(got.Taints, c.taints) {
			t.Errorf("%s: got Ready %v and taints %v, want %v and %v", name, got.Conditions[model.Ready].Status, got.Taints, c.ready, c.taints)
		}
	}
	if object.Taints[0].Key != "k" || object.Conditions[model.Ready].Status != model.True {
		t.Error("the observed object was changed")
	}
}

// TestDryRun_CleansUpAfterAgentOnce checks that what an agent left behind counts as removed
// until it changes, and until the dry run ends.
func TestDryRun_CleansUpAfterAgentOnce(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	f := New(Policy{Agents: agents.Policy{Grace: time.Minute}})
	f.SetDryRun(true)
	f.Lead(time.Time{}, now)
	n := &model.Node{Name: "a", UID: "u", Pressures: []string{agents.Prefix + "MemoryPressure"}, Taints: []model.Taint{{Key: agents.Prefix + "pressure", Effect: model.NoSchedule}}}
	cleanups := func(minutes int) (count int) {
		for range minutes {
			now = now.Add(time.Minute)
			f.Node(n, now)
			for _, a := range f.Act(now) {
				if a.Kind == CleanUpAgent {
					count++
				}
				if a.Kind.Writes() {
					f.Finished(&a, nil, now)
				}
			}
		}
		return count
	}
	if got := cleanups(60); got != 1 {
		t.Errorf("got %d cleanups in an hour, want 1", got)
	}
	if view := f.nodes["a"].view; slices.ContainsFunc(view.Taints, func(t model.Taint) bool { return t.Key == agents.Prefix+"pressure" }) {
		t.Errorf("the taint of the agent is left after the cleanup: %v", view.Taints)
	}
	changed := *n
	changed.Pressures = append(slices.Clone(n.Pressures), agents.Prefix+"PIDPressure")
	n = &changed
	if got := cleanups(60); got != 1 {
		t.Errorf("got %d cleanups after a change, want 1", got)
	}
	f.StopLeading(now)
	f.SetDryRun(false)
	f.Lead(time.Time{}, now)
	if got := cleanups(3); got == 0 {
		t.Error("no cleanup after the dry run")
	}
}
