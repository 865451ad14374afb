package lifecycle

import (
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/convert"
	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// rehearsal applies decisions to a simulated cluster: the API objects with all writes applied
// that were not made. A chain of decisions thus continues as it would, and each is reported once.
//
// Later observations take precedence: a condition written by the node since, an existing taint, a
// deleted node or pod.
type rehearsal struct {
	on     bool
	nodes  map[string]*imagined
	hidden map[string]*model.Pod // pods with a simulated deletion, by UID
}

// imagined is the simulated difference of a node.
type imagined struct {
	uid        string
	was        [model.ConditionTypes]model.Condition // the node's own conditions when it was marked Unknown
	conditions [model.ConditionTypes]model.Condition // Absent: unchanged
	added      []model.Taint
	removed    []model.Taint // in their original form
	labels     map[string]string
	cleared    []string // condition types of its agent
}

func newRehearsal() *rehearsal {
	return &rehearsal{nodes: map[string]*imagined{}, hidden: map[string]*model.Pod{}}
}

// play simulates an action, and passes its result to the fleet.
func (r *rehearsal) play(c *Controller, a *core.Action, now time.Time) {
	c.fleet.Finished(a, nil, now)
	switch a.Kind {
	case core.Evict, core.SoftEvict, core.DeleteEvictedPod:
		r.hidden[a.Pod.UID] = a.Pod
		c.fleet.PodGone(a.Pod.UID, now)
	case core.MarkUnknown, core.Taint, core.CleanUpAgent:
		if s := c.nodes[a.Node]; s != nil {
			r.imagine(s.node, a, now)
			c.fleet.Node(r.node(s.node), now)
		}
	}
}

// pod reports whether the pod exists in the simulation.
func (r *rehearsal) pod(p *model.Pod) bool {
	if _, is := r.hidden[p.UID]; !is {
		return true
	}
	r.hidden[p.UID] = p
	return false
}

func (r *rehearsal) podGone(uid string) { delete(r.hidden, uid) }

func (r *rehearsal) nodeGone(name string) { delete(r.nodes, name) }

// end passes the observed objects to the fleet again.
func (r *rehearsal) end(c *Controller, now time.Time) {
	for name := range r.nodes {
		if s := c.nodes[name]; s != nil {
			c.fleet.Node(s.node, now)
		}
	}
	for _, p := range r.hidden {
		c.fleet.Pod(p, now)
	}
	*r = *newRehearsal()
}

// imagine adds the effect of an action on a node.
func (r *rehearsal) imagine(n *model.Node, a *core.Action, now time.Time) {
	i := r.nodes[n.Name]
	if i == nil || i.uid != n.UID {
		i = &imagined{uid: n.UID, labels: map[string]string{}}
		r.nodes[n.Name] = i
	}
	for _, s := range a.Conditions {
		i.was[s.Type] = n.Conditions[s.Type]
		i.conditions[s.Type] = model.Condition{
			Status: model.Unknown, Reason: s.Reason, Heartbeat: n.Conditions[s.Type].Heartbeat, Transition: now,
		}
	}
	for _, t := range a.Remove {
		i.remove(n, &t)
	}
	i.added = append(i.added, a.Add...)
	for _, l := range a.Labels {
		i.labels[l.Key] = l.Value
	}
	if a.Kind == core.CleanUpAgent {
		i.cleared = n.Pressures
		for t := range n.Taints {
			if strings.HasPrefix(n.Taints[t].Key, ours) {
				i.remove(n, &n.Taints[t])
			}
		}
	}
}

func (i *imagined) remove(n *model.Node, t *model.Taint) {
	i.added = slices.DeleteFunc(i.added, func(a model.Taint) bool { return a.Is(t.Key, t.Effect) })
	for k := range n.Taints {
		if n.Taints[k].Is(t.Key, t.Effect) {
			i.removed = append(i.removed, n.Taints[k])
		}
	}
}

// node returns the node with the simulated changes.
func (r *rehearsal) node(n *model.Node) *model.Node {
	i := r.nodes[n.Name]
	if i == nil {
		return n
	}
	if i.uid != n.UID {
		delete(r.nodes, n.Name)
		return n
	}
	m := *n
	i.conceive(&m)
	i.retaint(&m)
	i.relabel(&m.Labels)
	if i.cleared = since(i.cleared, n.Pressures); i.cleared != nil {
		m.Pressures = nil
	}
	return &m
}

// since keeps the cleared conditions until the node's agent changes them.
func since(cleared, now []string) []string {
	if slices.Equal(cleared, now) {
		return cleared
	}
	return nil
}

// conceive applies simulated conditions, until the node reports others.
func (i *imagined) conceive(n *model.Node) {
	for t := range i.conditions {
		was, is := &i.was[t], &n.Conditions[t]
		switch {
		case i.conditions[t].Status == model.Absent:
		case was.Status == is.Status && was.Heartbeat.Equal(is.Heartbeat) && was.Transition.Equal(is.Transition):
			*is = i.conditions[t]
		default:
			i.conditions[t] = model.Condition{}
		}
	}
}

// retaint applies simulated changes of taints, until the node itself has them.
func (i *imagined) retaint(n *model.Node) {
	same := func(a model.Taint) func(model.Taint) bool {
		return func(b model.Taint) bool { return b.Is(a.Key, a.Effect) && b.Added.Equal(a.Added) }
	}
	i.removed = slices.DeleteFunc(i.removed, func(t model.Taint) bool { return !slices.ContainsFunc(n.Taints, same(t)) })
	left := slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool { return slices.ContainsFunc(i.removed, same(t)) })
	i.added = slices.DeleteFunc(i.added, func(a model.Taint) bool {
		return slices.ContainsFunc(left, func(t model.Taint) bool { return t.Is(a.Key, a.Effect) })
	})
	n.Taints = append(left, i.added...)
}

// relabel sets simulated labels, unless the node has them.
func (i *imagined) relabel(l *model.Labels) {
	for key, label := range map[string]*model.Label{convert.LabelOldOS: &l.OldOS, convert.LabelOldArch: &l.OldArch} {
		if value, is := i.labels[key]; is {
			*label = model.Label{Value: value, Is: true}
		}
	}
}
