package core

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// watchLag is how long an object that does not show a write of ours counts as older
// than the write. Watches lag by less.
const watchLag = 10 * time.Second

// pendingWrite is a write that succeeded and that the object does not show yet.
type pendingWrite struct {
	action *Action
	at     time.Time // when it succeeded
	until  time.Time // zero: no end, see [Fleet.SetDryRun]
}

// observe stores the node's object and drops the pending writes that it shows.
func (f *Fleet) observe(node *nodeState, n *model.Node) {
	was := node.object
	node.object = n
	if f.dryRun {
		node.dropSimulatedWrites()
	}
	node.updateTaintTimes(f.now)
	node.updateReadyTime(f.now)
	back := node.health.lost() && node.reportedSinceLost()
	r := n.Conditions[model.Ready].Status
	reports := r == model.True || r == model.False
	if reports && (back || was != nil && was.Conditions[model.Ready].Status != r) {
		node.resetMarks() // also if it is Unknown again before the next Act
	}
	if back {
		healthTable.move(&node.health, readyReported)
		node.pendingWrites = slices.DeleteFunc(node.pendingWrites, func(b pendingWrite) bool { return b.action.Kind == MarkUnknown })
	}
	if !f.dryRun {
		node.dropReflectedWrites()
	}
	node.refreshView()
}

// reportedSinceLost reports whether the node itself wrote Ready since it was lost.
func (node *nodeState) reportedSinceLost() bool {
	r := node.object.Conditions[model.Ready]
	own := r.Reason != model.ReasonStatusUnknown && r.Reason != model.ReasonStatusNeverUpdated
	return r.Status != model.Absent && own && !sameReport(&r, &node.lastReport)
}

// sameReport reports whether two conditions are the same write of a node.
func sameReport(a, b *model.Condition) bool {
	return a.Status == b.Status && a.Heartbeat.Equal(b.Heartbeat) && a.Transition.Equal(b.Transition)
}

// dropReflectedWrites drops the pending writes that the node's object shows.
func (node *nodeState) dropReflectedWrites() {
	for len(node.pendingWrites) > 0 && reflects(node.object, node.pendingWrites[0].action) {
		node.pendingWrites = node.pendingWrites[1:]
	}
}

// addPendingWrite stores a write that succeeded.
func (f *Fleet) addPendingWrite(node *nodeState, a *Action) {
	now := f.now
	if f.dryRun {
		node.addSimulatedWrite(a, now)
		return
	}
	if node.object != nil && (len(node.pendingWrites) > 0 || !reflects(node.object, a)) {
		node.pendingWrites = append(node.pendingWrites, pendingWrite{a, now, now.Add(watchLag)})
		node.addTaintTimes(a, now)
	}
}

// dropOutdatedWrites drops the pending writes that the object should have shown by now.
func (node *nodeState) dropOutdatedWrites(now time.Time) {
	outdated := func(w pendingWrite) bool { return !w.until.IsZero() && !w.until.After(now) }
	for len(node.pendingWrites) > 0 && outdated(node.pendingWrites[0]) {
		node.pendingWrites = node.pendingWrites[1:]
	}
	if len(node.pendingWrites) == 0 {
		node.pendingWrites = nil
	}
}

// setUnknown sets the conditions to Unknown that a lost node does not report any more.
func setUnknown(n *model.Node, since time.Time) {
	for t := range model.UnknownConditionTypes {
		if c := &n.Conditions[t]; c.Status != model.Unknown {
			*c = unknownCondition(c, since)
		}
	}
}

// unknownCondition returns a condition of a lost node.
func unknownCondition(c *model.Condition, since time.Time) model.Condition {
	s := model.Condition{Status: model.Unknown, Heartbeat: c.Heartbeat, Transition: since, Reason: model.ReasonStatusUnknown}
	if c.Status == model.Absent {
		s.Reason = model.ReasonStatusNeverUpdated
	}
	return s
}

// reflects reports whether the node is as it is after the action.
func reflects(n *model.Node, a *Action) bool {
	after := *n
	after.Taints = slices.Clone(n.Taints)
	return !applyTo(a, a.at, &after)
}

// applyTo changes a node as the action changes its object at that moment, and reports
// whether that made a difference. The node's taints must not be shared.
func applyTo(a *Action, at time.Time, n *model.Node) (changed bool) {
	for i := range a.Conditions {
		c := &n.Conditions[a.Conditions[i].Type]
		if c.Status != model.Unknown {
			*c, changed = unknownCondition(c, at), true
		}
	}
	for i := range a.Remove {
		length := len(n.Taints)
		n.Taints = slices.DeleteFunc(n.Taints, func(t model.Taint) bool { return t.Is(a.Remove[i].Key, a.Remove[i].Effect) })
		changed = changed || len(n.Taints) != length
	}
	for _, t := range a.Add {
		if !slices.ContainsFunc(n.Taints, func(has model.Taint) bool { return has.Is(t.Key, t.Effect) }) {
			n.Taints, changed = append(n.Taints, t), true
		}
	}
	return applyLabels(a, &n.Labels) || changed
}

// applyLabels does the same to labels.
func applyLabels(a *Action, l *model.Labels) (changed bool) {
	for _, c := range a.Labels {
		label := &l.OldOS
		if c.Key == "beta.kubernetes.io/arch" {
			label = &l.OldArch
		}
		if want := (model.Label{Value: c.Value, Is: true}); *label != want {
			*label, changed = want, true
		}
	}
	return changed
}
