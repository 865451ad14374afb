package cluster

import (
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/agents"
	"plimsoll.dev/plimsoll/lifecycle/convert"
	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// execute executes an action, at once and without failure, and notes it. Events for users, which
// change nothing, are not noted.
func (r *run) execute(a *core.Action) {
	if do := executors[a.Kind]; do != nil {
		do(r, a)
	}
	if a.Kind.Writes() {
		r.env.fleet.Finished(a, nil, r.env.now)
	}
}

// executors execute the kinds of actions.
var executors = map[core.Kind]func(*run, *core.Action){
	core.ReadLease:        (*run).readLease,
	core.MarkUnknown:      (*run).markUnknown,
	core.Zone:             (*run).zone,
	core.Taint:            (*run).taint,
	core.MarkNotReady:     (*run).markNotReady,
	core.Evict:            (*run).evict,
	core.Cancel:           (*run).cancel,
	core.CleanUpAgent:     (*run).cleanUpAgent,
	core.DeleteEvictedPod: (*run).deleteEvictedPod,
}

// readLease answers a live read with the lease of the API, which the watch has reported, too.
func (r *run) readLease(a *core.Action) {
	var renewed time.Time
	if n := r.env.nodes[a.Node]; n != nil {
		renewed = n.lease
	}
	r.env.fleet.LeaseRead(a.Node, renewed, nil, r.env.now)
}

func (r *run) markUnknown(a *core.Action) {
	n := r.env.nodes[a.Node]
	if n == nil {
		return
	}
	why := r.whyUnknown(n)
	for _, c := range a.Conditions {
		r.note(Line{Do: doCondition, Node: a.Node, Type: c.Type.String(), Status: model.Unknown.String(), Reason: c.Reason, why: why})
	}
	r.env.change(n, func(o *model.Node) {
		for _, c := range a.Conditions {
			heartbeat := o.Conditions[c.Type].Heartbeat
			if o.Conditions[c.Type].Status == model.Absent {
				heartbeat = o.Created
			}
			o.Conditions[c.Type] = model.Condition{Status: model.Unknown, Reason: c.Reason, Heartbeat: heartbeat, Transition: r.env.now}
		}
	})
}

// zone notes a change of a zone: a new leader reports every zone.
func (r *run) zone(a *core.Action) {
	name, state := a.Zone.Place.String(), zoneState{a.Zone.State.String(), a.Zone.Rate}
	reported, is := r.reported[name]
	r.reported[name] = state
	if reported == state || !is && state.name == normal {
		return
	}
	r.note(Line{Do: doZone, Zone: &name, State: state.name, Rate: &state.rate, why: r.whyZone(a.Zone)})
}

func (r *run) taint(a *core.Action) {
	n := r.env.nodes[a.Node]
	if n == nil {
		return
	}
	for _, t := range a.Remove {
		r.note(Line{Do: doTaint, Node: a.Node, Op: opRemove, Key: t.Key, Effect: t.Effect.String()})
	}
	for _, t := range a.Add {
		r.note(Line{Do: doTaint, Node: a.Node, Op: opAdd, Key: t.Key, Effect: t.Effect.String()})
	}
	for _, l := range a.Labels {
		r.note(Line{Do: doLabel, Node: a.Node, Key: l.Key, Value: &l.Value})
		n.labels = withLabel(n.labels, l.Key, l.Value)
	}
	r.env.change(n, func(o *model.Node) {
		for _, t := range slices.Concat(a.Remove, a.Add) {
			o.Taints = without(o.Taints, t)
		}
		o.Taints = append(o.Taints, a.Add...)
		o.Labels = convert.Labels(n.labels)
	})
}

func (r *run) markNotReady(a *core.Action) {
	if p := r.present(a); p != nil {
		r.note(Line{Do: doPodNotReady, Node: a.Node, Pod: a.Pod.Key()})
		r.env.setReady(p, false)
	}
}

func (r *run) evict(a *core.Action) {
	if p := r.present(a); p != nil {
		r.note(Line{Do: doEvict, Node: a.Node, Pod: a.Pod.Key(), Why: a.Why.String(), why: r.whyEvicted(a)})
		r.env.remove(a.Pod.Key())
	}
}

func (r *run) cancel(a *core.Action) {
	if p := r.present(a); p != nil {
		r.note(Line{Do: doCancel, Node: a.Node, Pod: a.Pod.Key(), why: r.whyCancelled(a)})
	}
}

func (r *run) deleteEvictedPod(a *core.Action) {
	if p := r.present(a); p != nil {
		r.note(Line{Do: doClearPod, Node: a.Node, Pod: a.Pod.Key(), why: r.whyDeleted(a)})
		r.env.remove(a.Pod.Key())
	}
}

// present returns the pod of an action, or nil if it no longer exists. The write then finds
// nothing to change, which is no failure.
func (r *run) present(a *core.Action) *pod {
	if p := r.env.pods[a.Pod.Key()]; p != nil && p.object.UID == a.Pod.UID {
		return p
	}
	return nil
}

// cleanUpAgent removes the taints of agents. A scenario has no agents: such a taint in the file is
// from a dead agent.
func (r *run) cleanUpAgent(a *core.Action) {
	n := r.env.nodes[a.Node]
	if n == nil {
		return
	}
	isOfAgents := func(t model.Taint) bool { return strings.HasPrefix(t.Key, agents.Prefix) }
	for _, t := range n.object.Taints {
		if isOfAgents(t) {
			r.note(Line{Do: doTaint, Node: a.Node, Op: opRemove, Key: t.Key, Effect: t.Effect.String()})
		}
	}
	r.env.change(n, func(o *model.Node) { o.Taints = slices.DeleteFunc(slices.Clone(o.Taints), isOfAgents) })
}
