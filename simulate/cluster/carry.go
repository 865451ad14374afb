package cluster

import (
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/lifecycle/convert"
	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// carryOut executes an action, at once and without failure, and notes it. Events for users, which
// change nothing, are not noted.
func (r *run) carryOut(a *core.Action) {
	if do := carriers[a.Kind]; do != nil {
		do(r, a)
	}
	if a.Kind.Writes() {
		r.world.fleet.Finished(a, nil, r.world.now)
	}
}

// carriers execute the kinds of actions. ReadLease is not among them: the policy of a scenario
// reads no leases.
var carriers = map[core.Kind]func(*run, *core.Action){
	core.MarkUnknown:      (*run).silence,
	core.Zone:             (*run).zone,
	core.Taint:            (*run).taint,
	core.MarkNotReady:     (*run).markNotReady,
	core.Evict:            (*run).evict,
	core.Cancel:           (*run).cancel,
	core.CleanUpAgent:     (*run).clearAgent,
	core.DeleteEvictedPod: (*run).clearPod,
}

func (r *run) silence(a *core.Action) {
	n := r.world.nodes[a.Node]
	if n == nil {
		return
	}
	why := r.whySilent(n)
	for _, c := range a.Conditions {
		r.note(Line{Do: doCondition, Node: a.Node, Type: c.Type.String(), Status: model.Unknown.String(), Reason: c.Reason, why: why})
	}
	r.world.change(n, func(o *model.Node) {
		for _, c := range a.Conditions {
			heartbeat := o.Conditions[c.Type].Heartbeat
			if o.Conditions[c.Type].Status == model.Absent {
				heartbeat = o.Created
			}
			o.Conditions[c.Type] = model.Condition{Status: model.Unknown, Reason: c.Reason, Heartbeat: heartbeat, Transition: r.world.now}
		}
	})
}

// zone notes a change of a zone: a new leader reports every zone.
func (r *run) zone(a *core.Action) {
	name, state := a.Zone.Place.String(), zoneState{a.Zone.State.String(), a.Zone.Rate}
	told, is := r.told[name]
	r.told[name] = state
	if told == state || !is && state.name == normal {
		return
	}
	r.note(Line{Do: doZone, Zone: &name, State: state.name, Rate: &state.rate, why: r.whyZone(a.Zone)})
}

func (r *run) taint(a *core.Action) {
	n := r.world.nodes[a.Node]
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
	r.world.change(n, func(o *model.Node) {
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
		r.world.setReady(p, false)
	}
}

func (r *run) evict(a *core.Action) {
	if p := r.present(a); p != nil {
		r.note(Line{Do: doEvict, Node: a.Node, Pod: a.Pod.Key(), Why: a.Why.String(), why: r.whyEvicted(a)})
		r.world.remove(a.Pod.Key())
	}
}

func (r *run) cancel(a *core.Action) {
	if p := r.present(a); p != nil {
		r.note(Line{Do: doCancel, Node: a.Node, Pod: a.Pod.Key(), why: r.whyCancelled(a)})
	}
}

func (r *run) clearPod(a *core.Action) {
	if p := r.present(a); p != nil {
		r.note(Line{Do: doClearPod, Node: a.Node, Pod: a.Pod.Key(), why: r.whyCleared(a)})
		r.world.remove(a.Pod.Key())
	}
}

// present returns the pod of an action, or nil if it no longer exists. The write then finds
// nothing, which is no failure.
func (r *run) present(a *core.Action) *pod {
	if p := r.world.pods[a.Pod.Key()]; p != nil && p.object.UID == a.Pod.UID {
		return p
	}
	return nil
}

// ofAgents is the prefix of the taints of agents. A scenario has no agents: such a taint in the
// file was left by a dead agent.
const ofAgents = "plimsoll.dev/"

func (r *run) clearAgent(a *core.Action) {
	n := r.world.nodes[a.Node]
	if n == nil {
		return
	}
	isOfAgents := func(t model.Taint) bool { return strings.HasPrefix(t.Key, ofAgents) }
	for _, t := range n.object.Taints {
		if isOfAgents(t) {
			r.note(Line{Do: doTaint, Node: a.Node, Op: opRemove, Key: t.Key, Effect: t.Effect.String()})
		}
	}
	r.world.change(n, func(o *model.Node) { o.Taints = slices.DeleteFunc(slices.Clone(o.Taints), isOfAgents) })
}
