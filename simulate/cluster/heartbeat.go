package cluster

import (
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// begin starts a node: it writes its lease and its status in this instant, and periodically afterwards.
func (w *env) begin(n *node) {
	n.generation++
	n.renews, n.reports = true, true
	w.calendar.add(w.now, beat{n, n.generation, true})
	w.calendar.add(w.now, beat{n, n.generation, false})
}

// resume is begin for a node that returns in good health.
func (w *env) resume(n *node) {
	n.ownStatus[model.Ready] = model.True
	w.begin(n)
}

// beat executes the writes that are due.
func (w *env) beat() {
	for _, b := range w.calendar.pop(w.now) {
		n := b.node
		switch {
		case b.generation != n.generation:
		case b.status && n.reports:
			w.report(n)
			w.calendar.add(w.now.Add(reportEvery), b)
		case !b.status && n.renews:
			w.renew(n)
			w.calendar.add(w.now.Add(renewalEvery), b)
		}
	}
}

// renew writes the lease. It triggers no action by itself: the Fleet reports the time of its next
// action.
func (w *env) renew(n *node) {
	n.lease = w.now
	if w.fleet != nil {
		w.fleet.Renewed(n.object.Name, w.now, w.now, w.now)
	}
}

// report writes the node's own status. If the node is ready, its pods become ready again.
func (w *env) report(n *node) {
	w.change(n, func(o *model.Node) {
		for t := range model.ConditionTypes {
			if n.ownStatus[t] != model.Absent {
				o.Conditions[t] = w.reported(o.Conditions[t], n.ownStatus[t])
			}
		}
	})
	if n.ownStatus[model.Ready] != model.True {
		return
	}
	for _, p := range w.bound[n.object.Name] {
		if p.runs && !p.object.Ready {
			w.setReady(p, true)
		}
	}
}

func (w *env) reported(c model.Condition, status model.Status) model.Condition {
	if c.Status != status {
		c.Transition = w.now
	}
	return model.Condition{Status: status, Heartbeat: w.now, Transition: c.Transition}
}

// setCondition changes a condition reported by a node. A node that writes its status does so at once. For
// a node that does not, the condition is written alone, as another component would. Ready is an
// exception: it is written because it is the subject of the event.
func (w *env) setCondition(n *node, t model.ConditionType, status model.Status) {
	n.ownStatus[t] = status
	if n.reports || t == model.Ready {
		w.report(n)
		return
	}
	w.change(n, func(o *model.Node) { o.Conditions[t] = w.reported(o.Conditions[t], status) })
}
