package core

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// taintTime is the time since when a NoExecute taint counts, where its timeAdded is
// not exact: the API stores whole seconds, or none.
type taintTime struct {
	key   string
	stamp time.Time // timeAdded; zero: the object has none
	since time.Time
	own   bool // of a pending write
}

// updateTaintTimes derives the times of the NoExecute taints of the node's object.
func (node *nodeState) updateTaintTimes(now time.Time) {
	var dated []taintTime
	for i := range node.object.Taints {
		t := &node.object.Taints[i]
		if t.Effect != model.NoExecute {
			continue
		}
		if since := node.taintSince(t, now); !since.IsZero() {
			dated = append(dated, taintTime{key: t.Key, stamp: t.Added, since: since})
		}
	}
	for _, m := range node.taintTimes {
		shown := func(d taintTime) bool { return d.key == m.key }
		if m.own && len(node.pendingWrites) > 0 && !slices.ContainsFunc(dated, shown) {
			dated = append(dated, m)
		}
	}
	node.taintTimes = dated
}

// taintSince returns since when a taint of the object counts; zero if
// its timeAdded is exact.
func (node *nodeState) taintSince(t *model.Taint, now time.Time) time.Time {
	if since := node.knownSince(t); !since.IsZero() {
		return since
	}
	if t.Added.IsZero() || t.Added.After(now) || node.taintWrite.underWay() && node.taintWrite.freshKey == t.Key {
		return now
	}
	return time.Time{}
}

// knownSince returns the known time of a taint, or of the one that it replaced; zero if
// there is none.
func (node *nodeState) knownSince(t *model.Taint) (since time.Time) {
	for _, m := range node.taintTimes {
		switch {
		case m.key == t.Key && (m.own || m.stamp.Equal(t.Added)):
			return m.since
		case m.key == model.Opposite(t.Key) && m.stamp.Equal(t.Added):
			since = m.since
		}
	}
	return since
}

// restoreTimeAdded sets the timeAdded of taints that replace another one to what the
// object shows of that, in place of the exact time.
func (node *nodeState) restoreTimeAdded(taints []model.Taint) {
	for i := range taints {
		t := &taints[i]
		for _, m := range node.taintTimes {
			if m.key == model.Opposite(t.Key) && m.since.Equal(t.Added) && !m.stamp.IsZero() && !m.own {
				t.Added = m.stamp
			}
		}
	}
}

// addTaintTimes stores that a write of taints succeeded now: the tolerations of the
// node's pods run from then on, not from the decision.
func (node *nodeState) addTaintTimes(a *Action, now time.Time) {
	for i := range a.Add {
		t := &a.Add[i]
		if t.Effect != model.NoExecute {
			continue
		}
		since := node.knownSince(t)
		if a.Fresh(t) {
			since = now
		}
		if !since.IsZero() {
			node.taintTimes = append(node.taintTimes, taintTime{key: t.Key, stamp: t.Added, since: since, own: true})
		}
	}
}

// updateReadyTime stores when a transition of Ready with a later date was observed: a
// fast clock moves no timer.
func (node *nodeState) updateReadyTime(now time.Time) {
	switch at := node.object.Conditions[model.Ready].Transition; {
	case !at.After(now):
		node.readyTime = taintTime{}
	case !node.readyTime.stamp.Equal(at):
		node.readyTime = taintTime{stamp: at, since: now}
	}
}

// refreshView builds the view of the node: its object with exact times, pending writes
// and a confirmed loss.
func (node *nodeState) refreshView() {
	node.view = node.object
	known := !node.health.lost() && len(node.pendingWrites) == 0 && len(node.taintTimes) == 0 && node.readyTime.since.IsZero()
	if node.object == nil || known {
		return
	}
	n := *node.object
	n.Taints = slices.Clone(n.Taints)
	if r := &n.Conditions[model.Ready]; r.Transition.Equal(node.readyTime.stamp) && !node.readyTime.since.IsZero() {
		r.Transition = node.readyTime.since
	}
	for _, b := range node.pendingWrites {
		applyTo(b.action, b.at, &n)
	}
	for _, m := range node.taintTimes {
		for i := range n.Taints {
			if t := &n.Taints[i]; t.Is(m.key, model.NoExecute) && t.Added.Equal(m.stamp) {
				t.Added = m.since
			}
		}
	}
	if node.health.lost() {
		setUnknown(&n, node.lostAt)
	}
	node.view = &n
}
