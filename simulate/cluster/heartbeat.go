package cluster

import (
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// begin has a node write its lease and its status in this instant, and periodically from then on.
func (w *world) begin(n *node) {
	n.turn++
	n.renews, n.reports = true, true
	w.calendar.add(w.now, beat{n, n.turn, true})
	w.calendar.add(w.now, beat{n, n.turn, false})
}

// resume is begin for a node that returns in good health.
func (w *world) resume(n *node) {
	n.says[model.Ready] = model.True
	w.begin(n)
}

// beat executes the writes that are due.
func (w *world) beat() {
	for _, b := range w.calendar.take(w.now) {
		n := b.node
		switch {
		case b.turn != n.turn:
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
func (w *world) renew(n *node) {
	n.lease = w.now
	if w.fleet != nil {
		w.fleet.Renewed(n.object.Name, w.now, w.now, w.now)
	}
}

// report writes the node's own status. If the node is ready, its pods become ready again.
func (w *world) report(n *node) {
	w.change(n, func(o *model.Node) {
		for t := range model.ConditionTypes {
			if n.says[t] != model.Absent {
				o.Conditions[t] = w.reported(o.Conditions[t], n.says[t])
			}
		}
	})
	if n.says[model.Ready] != model.True {
		return
	}
	for _, p := range w.bound[n.object.Name] {
		if p.runs && !p.object.Ready {
			w.setReady(p, true)
		}
	}
}

func (w *world) reported(c model.Condition, status model.Status) model.Condition {
	if c.Status != status {
		c.Transition = w.now
	}
	return model.Condition{Status: status, Heartbeat: w.now, Transition: c.Transition}
}

// say changes a condition reported by a node. A node that writes its status does so at once. For
// a node that does not, the condition is written alone, as another component would. Ready is an
// exception: it is written because it is the subject of the event.
func (w *world) say(n *node, t model.ConditionType, status model.Status) {
	n.says[t] = status
	if n.reports || t == model.Ready {
		w.report(n)
		return
	}
	w.change(n, func(o *model.Node) { o.Conditions[t] = w.reported(o.Conditions[t], status) })
}
