package core

import (
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/agents"
	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/taints"
)

// SetDryRun sets whether the next term writes nothing. In a dry run, each action has to be
// finished without an error and without a write. Its effect on a node then stays pending until the
// node's object differs: the node reports its condition itself, has the added taint, or has
// lost the removed one. So decisions continue as after a write, and each is returned once.
func (f *Fleet) SetDryRun(on bool) { f.dryRun = on }

// addSimulatedWrite stores an action of a dry run. All actions on taints and labels are merged
// into one, so that an alternating node needs constant memory.
func (node *nodeState) addSimulatedWrite(a *Action, now time.Time) {
	if node.object == nil {
		return
	}
	node.addTaintTimes(a, now)
	if a.Kind == MarkUnknown {
		node.pendingWrites = append(node.pendingWrites, pendingWrite{action: a, at: now})
		return
	}
	merged := &Action{Kind: Taint, Node: a.Node, at: a.at,
		Remove: slices.Clone(a.Remove), Add: slices.Clone(a.Add), Labels: slices.Clone(a.Labels)}
	if i := slices.IndexFunc(node.pendingWrites, ofTaints); i >= 0 {
		merged.add(node.pendingWrites[i].action)
		node.pendingWrites = slices.Delete(node.pendingWrites, i, i+1)
	}
	node.pendingWrites = append(node.pendingWrites, pendingWrite{action: merged, at: now})
	node.dropSimulatedWrites()
}

func ofTaints(w pendingWrite) bool { return w.action.Kind == Taint }

// add adds the effects of an earlier action that this one does not replace.
func (a *Action) add(earlier *Action) {
	removed := a.Remove
	for _, t := range earlier.Add {
		if !hasTaint(removed, &t) && !hasTaint(a.Add, &t) {
			a.Add = append(a.Add, t)
		}
	}
	for _, t := range earlier.Remove {
		if !hasTaint(a.Remove, &t) {
			a.Remove = append(a.Remove, t)
		}
	}
	for _, l := range earlier.Labels {
		if !slices.ContainsFunc(a.Labels, func(later taints.LabelChange) bool { return later.Key == l.Key }) {
			a.Labels = append(a.Labels, l)
		}
	}
}

func hasTaint(all []model.Taint, t *model.Taint) bool {
	return slices.ContainsFunc(all, func(has model.Taint) bool { return has.Is(t.Key, t.Effect) })
}

// dropSimulatedWrites drops the effects that the node's object shows: from then on the
// object counts.
func (node *nodeState) dropSimulatedWrites() {
	node.pendingWrites = slices.DeleteFunc(node.pendingWrites, func(w pendingWrite) bool {
		if !ofTaints(w) {
			return reflects(node.object, w.action)
		}
		a := w.action
		a.Add = slices.DeleteFunc(a.Add, func(t model.Taint) bool {
			return hasTaint(node.object.Taints, &t) && !hasTaint(a.Remove, &t)
		})
		a.Remove = slices.DeleteFunc(a.Remove, func(t model.Taint) bool { return !hasTaint(node.object.Taints, &t) })
		labels := node.object.Labels
		return len(a.Add)+len(a.Remove) == 0 && !applyLabels(a, &labels)
	})
	node.taintTimes = slices.DeleteFunc(node.taintTimes, func(m taintTime) bool {
		return m.own && !slices.ContainsFunc(node.pendingWrites, func(w pendingWrite) bool {
			return slices.ContainsFunc(w.action.Add, func(t model.Taint) bool { return t.Key == m.key })
		})
	})
}

// simulateCleanup removes what an agent left behind on a node, until the node's object shows
// other leftovers.
func (f *Fleet) simulateCleanup(node *nodeState, now time.Time) {
	if node == nil || node.object == nil {
		return
	}
	node.cleaned = node.object
	clean := *node.object
	clean.Pressures, clean.Taints = nil, nil
	f.agents.Node(&clean, now)
	node.addSimulatedWrite(&Action{Kind: Taint, Node: node.name, at: now, Remove: agentTaints(node.object)}, now)
	f.touch(node)
}

// cleanedAs reports whether a simulated cleanup removed what the agent left behind on n.
func (node *nodeState) cleanedAs(n *model.Node) bool {
	if node.cleaned == nil || !slices.Equal(node.cleaned.Pressures, n.Pressures) {
		return false
	}
	return slices.Equal(agentTaints(node.cleaned), agentTaints(n))
}

// agentTaints returns the taints of the node that its agent set.
func agentTaints(n *model.Node) (own []model.Taint) {
	for _, t := range n.Taints {
		if strings.HasPrefix(t.Key, agents.Prefix) {
			own = append(own, t)
		}
	}
	return own
}

// endDryRun discards the effects of a dry run.
func (f *Fleet) endDryRun(now time.Time) {
	if !f.dryRun {
		return
	}
	for _, node := range f.nodes {
		node.pendingWrites = nil
		if node.cleaned != nil {
			node.cleaned = nil
			f.agents.Node(node.object, now)
		}
	}
}
