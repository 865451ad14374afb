package core_test

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Changes outside of the fleet: nodes, kubelets, pods, users.

// node creates a ready node with renewals, and applies the changes to it.
func (h *harness) node(name string, changes ...func(*model.Node)) {
	n := &model.Node{Name: name, UID: name + "@" + h.now.Sub(start).String(), Created: h.now}
	n.Labels.Region, n.Labels.Zone = "r", "z"
	for t := range model.UnknownConditionTypes {
		n.Conditions[t] = model.Condition{Status: model.False, Heartbeat: h.now, Transition: h.now}
	}
	n.Conditions[model.Ready].Status = model.True
	for _, change := range changes {
		change(n)
	}
	h.nodes[name] = n
	h.kubelets[name] = &kubelet{lease: true, status: true}
	h.show(name, 0)
	h.renewLease(name, 0)
	h.schedule(h.now.Add(5*minute), true, func() { h.renewStatus(name, 0) })
}

func in(zone string) func(*model.Node) { return func(n *model.Node) { n.Labels.Zone = zone } }

// neverReporting creates a node that never reports.
func (h *harness) neverReporting(name string, changes ...func(*model.Node)) {
	n := &model.Node{Name: name, UID: name, Created: h.now}
	n.Labels.Region, n.Labels.Zone = "r", "z"
	for _, change := range changes {
		change(n)
	}
	h.nodes[name] = n
	h.kubelets[name] = &kubelet{}
	h.show(name, 0)
}

// change changes a node's object.
func (h *harness) change(name string, do func(*model.Node)) {
	n := *h.nodes[name]
	n.Taints = slices.Clone(n.Taints)
	do(&n)
	h.nodes[name] = &n
	h.show(name, 0)
}

func (h *harness) renewLease(name string, generation int) {
	k := h.kubelets[name]
	if k == nil || k.generation != generation || !k.lease {
		return
	}
	h.leases[name] = h.now.Add(k.skew)
	if h.lossy == nil || !h.lossy() {
		h.renewed[name] = h.now
		h.fleet.Renewed(name, h.leases[name], h.now, h.now)
	}
	h.schedule(h.now.Add(10*second), true, func() { h.renewLease(name, generation) })
}

func (h *harness) renewStatus(name string, generation int) {
	k := h.kubelets[name]
	if k == nil || k.generation != generation || !k.status {
		return
	}
	h.report(name, func(n *model.Node) {})
	h.schedule(h.now.Add(5*minute), true, func() { h.renewStatus(name, generation) })
}

// report makes a node write its status: conditions set to Unknown by the controller become
// known, as far as the node reports them.
func (h *harness) report(name string, change func(*model.Node)) {
	skew := h.kubelets[name].skew
	h.renewed[name] = h.now
	h.change(name, func(n *model.Node) {
		was := n.Conditions
		change(n)
		for t := range model.UnknownConditionTypes {
			c := &n.Conditions[t]
			c.Heartbeat = h.now.Add(skew)
			if c.Status != was[t].Status {
				c.Transition = h.now.Add(skew)
			}
		}
	})
}

// ready makes a node report its condition Ready.
func (h *harness) ready(name string, s model.Status) {
	h.report(name, func(n *model.Node) {
		n.Conditions[model.Ready].Status, n.Conditions[model.Ready].Reason = s, "KubeletReports"
	})
}

func (h *harness) stop(names ...string) {
	for _, name := range names {
		k := h.kubelets[name]
		k.lease, k.status = false, false
		k.generation++
	}
}

// resume makes nodes renew status and lease at once, ready.
func (h *harness) resume(names ...string) {
	for _, name := range names {
		k := h.kubelets[name]
		k.generation++
		k.lease, k.status = true, true
		generation := k.generation
		h.report(name, func(n *model.Node) {
			for t := range model.UnknownConditionTypes {
				n.Conditions[t].Status, n.Conditions[t].Reason = model.False, ""
			}
			n.Conditions[model.Ready].Status = model.True
		})
		h.renewLease(name, generation)
		h.schedule(h.now.Add(5*minute), true, func() { h.renewStatus(name, generation) })
	}
}

// deleteNode removes a node with its lease; its pods stay.
func (h *harness) deleteNode(name string) {
	delete(h.nodes, name)
	delete(h.leases, name)
	delete(h.kubelets, name)
	delete(h.seen, name)
	h.deliver(name, 0, func() { h.fleet.NodeGone(name, h.now) })
	h.fleet.Unleased(name, h.now)
}

func noExecute(key string, added time.Time) model.Taint {
	return model.Taint{Key: key, Effect: model.NoExecute, Added: added}
}

func (h *harness) taint(name, key string) {
	h.change(name, func(n *model.Node) { n.Taints = append(n.Taints, noExecute(key, h.now)) })
}

func (h *harness) untaint(name, key string) {
	h.change(name, func(n *model.Node) {
		n.Taints = slices.DeleteFunc(n.Taints, func(t model.Taint) bool { return t.Is(key, model.NoExecute) })
	})
}

// tolerates returns a toleration of a key for the given seconds; negative is unlimited.
func tolerates(key string, seconds int64) model.Toleration {
	return model.Toleration{Key: key, Operator: model.Exists, Effect: model.NoExecute, Seconds: max(0, seconds), Bounded: seconds >= 0}
}

// defaultTolerations returns those that the API server adds.
func defaultTolerations(seconds int64) []model.Toleration {
	return []model.Toleration{tolerates(model.KeyNotReady, seconds), tolerates(model.KeyUnreachable, seconds)}
}

func (h *harness) pod(name, node string, tolerations ...model.Toleration) *model.Pod {
	return h.podLike(model.Pod{Name: name, Node: node, Tolerations: tolerations, Ready: true})
}

func (h *harness) podLike(p model.Pod) *model.Pod {
	p.Namespace, p.Created = "default", h.now
	if p.UID == "" {
		p.UID = p.Name
	}
	h.pods[p.UID] = &p
	h.showPod(p.UID, 0)
	return &p
}

func (h *harness) showPod(uid string, after time.Duration) {
	p, term := h.pods[uid], h.term
	h.deliver("pod "+uid, after, func() {
		switch {
		case term != h.term:
		case p == nil:
			h.fleet.PodGone(uid, h.now)
		default:
			h.fleet.Pod(p, h.now)
		}
	})
}

// changePod changes an existing pod.
func (h *harness) changePod(uid string, after time.Duration, do func(*model.Pod)) {
	if old := h.pods[uid]; old != nil {
		p := *old
		do(&p)
		h.pods[uid] = &p
		h.showPod(uid, after)
	}
}

func (h *harness) removePod(uid string, after time.Duration) {
	if h.pods[uid] != nil {
		delete(h.pods, uid)
		h.showPod(uid, after)
	}
}

// end ends a deleted pod.
func (h *harness) end(uid string, after time.Duration) {
	if h.terminationTime == nil {
		h.removePod(uid, after)
		return
	}
	h.changePod(uid, after, func(p *model.Pod) { p.Deleting = true })
	h.schedule(h.now.Add(h.terminationTime()), false, func() { h.removePod(uid, after) })
}

func (h *harness) agent(name string) {
	h.agents[name] = h.now
	h.fleet.AgentRenewed(name, h.now, h.now, h.now)
}
