package core_test

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Events in a world outside of the fleet: nodes, kubelets, pods, users.

// node creates a ready node with renewals, and applies the changes to it.
func (w *world) node(name string, changes ...func(*model.Node)) {
	n := &model.Node{Name: name, UID: name + "@" + w.now.Sub(start).String(), Created: w.now}
	n.Labels.Region, n.Labels.Zone = "r", "z"
	for t := range model.Silenced {
		n.Conditions[t] = model.Condition{Status: model.False, Heartbeat: w.now, Transition: w.now}
	}
	n.Conditions[model.Ready].Status = model.True
	for _, change := range changes {
		change(n)
	}
	w.nodes[name] = n
	w.beats[name] = &beat{lease: true, status: true}
	w.show(name, 0)
	w.renewLease(name, 0)
	w.schedule(w.now.Add(5*minute), true, func() { w.renewStatus(name, 0) })
}

func in(zone string) func(*model.Node) { return func(n *model.Node) { n.Labels.Zone = zone } }

// silentFromBirth creates a node that never reports.
func (w *world) silentFromBirth(name string, changes ...func(*model.Node)) {
	n := &model.Node{Name: name, UID: name, Created: w.now}
	n.Labels.Region, n.Labels.Zone = "r", "z"
	for _, change := range changes {
		change(n)
	}
	w.nodes[name] = n
	w.beats[name] = &beat{}
	w.show(name, 0)
}

// change changes a node's object.
func (w *world) change(name string, do func(*model.Node)) {
	n := *w.nodes[name]
	n.Taints = slices.Clone(n.Taints)
	do(&n)
	w.nodes[name] = &n
	w.show(name, 0)
}

func (w *world) renewLease(name string, life int) {
	b := w.beats[name]
	if b == nil || b.life != life || !b.lease {
		return
	}
	w.leases[name] = w.now.Add(b.skew)
	if w.lossy == nil || !w.lossy() {
		w.heard[name] = w.now
		w.fleet.Renewed(name, w.leases[name], w.now, w.now)
	}
	w.schedule(w.now.Add(10*second), true, func() { w.renewLease(name, life) })
}

func (w *world) renewStatus(name string, life int) {
	b := w.beats[name]
	if b == nil || b.life != life || !b.status {
		return
	}
	w.report(name, func(n *model.Node) {})
	w.schedule(w.now.Add(5*minute), true, func() { w.renewStatus(name, life) })
}

// report makes a node write its status: conditions set to Unknown by the controller become
// known, as far as the node reports them.
func (w *world) report(name string, say func(*model.Node)) {
	skew := w.beats[name].skew
	w.heard[name] = w.now
	w.change(name, func(n *model.Node) {
		was := n.Conditions
		say(n)
		for t := range model.Silenced {
			c := &n.Conditions[t]
			c.Heartbeat = w.now.Add(skew)
			if c.Status != was[t].Status {
				c.Transition = w.now.Add(skew)
			}
		}
	})
}

// ready makes a node report this Ready.
func (w *world) ready(name string, s model.Status) {
	w.report(name, func(n *model.Node) {
		n.Conditions[model.Ready].Status, n.Conditions[model.Ready].Reason = s, "KubeletSays"
	})
}

func (w *world) stop(names ...string) {
	for _, name := range names {
		b := w.beats[name]
		b.lease, b.status = false, false
		b.life++
	}
}

// resume makes nodes renew status and lease at once, ready.
func (w *world) resume(names ...string) {
	for _, name := range names {
		b := w.beats[name]
		b.life++
		b.lease, b.status = true, true
		life := b.life
		w.report(name, func(n *model.Node) {
			for t := range model.Silenced {
				n.Conditions[t].Status, n.Conditions[t].Reason = model.False, ""
			}
			n.Conditions[model.Ready].Status = model.True
		})
		w.renewLease(name, life)
		w.schedule(w.now.Add(5*minute), true, func() { w.renewStatus(name, life) })
	}
}

// deleteNode removes a node with its lease; its pods stay.
func (w *world) deleteNode(name string) {
	delete(w.nodes, name)
	delete(w.leases, name)
	delete(w.beats, name)
	delete(w.seen, name)
	w.deliver(name, 0, func() { w.fleet.NodeGone(name, w.now) })
	w.fleet.Unleased(name, w.now)
}

func noExecute(key string, added time.Time) model.Taint {
	return model.Taint{Key: key, Effect: model.NoExecute, Added: added}
}

func (w *world) taint(name, key string) {
	w.change(name, func(n *model.Node) { n.Taints = append(n.Taints, noExecute(key, w.now)) })
}

func (w *world) untaint(name, key string) {
	w.change(name, func(n *model.Node) {
		n.Taints = slices.DeleteFunc(n.Taints, func(t model.Taint) bool { return t.Is(key, model.NoExecute) })
	})
}

// bears tolerates a key for the given seconds; negative is unlimited.
func bears(key string, seconds int64) model.Toleration {
	return model.Toleration{Key: key, Operator: model.Exists, Effect: model.NoExecute, Seconds: max(0, seconds), Bounded: seconds >= 0}
}

// usual returns the API server's default tolerations.
func usual(seconds int64) []model.Toleration {
	return []model.Toleration{bears(model.KeyNotReady, seconds), bears(model.KeyUnreachable, seconds)}
}

func (w *world) pod(name, node string, tolerations ...model.Toleration) *model.Pod {
	return w.podLike(model.Pod{Name: name, Node: node, Tolerations: tolerations, Ready: true})
}

func (w *world) podLike(p model.Pod) *model.Pod {
	p.Namespace, p.Created = "default", w.now
	if p.UID == "" {
		p.UID = p.Name
	}
	w.pods[p.UID] = &p
	w.showPod(p.UID, 0)
	return &p
}

func (w *world) showPod(uid string, after time.Duration) {
	p, reign := w.pods[uid], w.reign
	w.deliver("pod "+uid, after, func() {
		switch {
		case reign != w.reign:
		case p == nil:
			w.fleet.PodGone(uid, w.now)
		default:
			w.fleet.Pod(p, w.now)
		}
	})
}

// changePod changes an existing pod.
func (w *world) changePod(uid string, after time.Duration, do func(*model.Pod)) {
	if old := w.pods[uid]; old != nil {
		p := *old
		do(&p)
		w.pods[uid] = &p
		w.showPod(uid, after)
	}
}

func (w *world) removePod(uid string, after time.Duration) {
	if w.pods[uid] != nil {
		delete(w.pods, uid)
		w.showPod(uid, after)
	}
}

// end ends a deleted pod.
func (w *world) end(uid string, after time.Duration) {
	if w.dying == nil {
		w.removePod(uid, after)
		return
	}
	w.changePod(uid, after, func(p *model.Pod) { p.Deleting = true })
	w.schedule(w.now.Add(w.dying()), false, func() { w.removePod(uid, after) })
}

func (w *world) agent(name string) {
	w.agents[name] = w.now
	w.fleet.AgentRenewed(name, w.now, w.now, w.now)
}
