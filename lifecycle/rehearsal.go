package lifecycle

import (
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/convert"
	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A rehearsal does what is decided to a world of its own: the one that the API
// server tells of, with everything done that would have been written. So a chain
// of decisions goes on as it would, and each is told once.
//
// What the world itself says later counts more: a condition that its node has
// written since, a taint that is there, a node or pod that is gone.
type rehearsal struct {
	on     bool
	nodes  map[string]*imagined
	hidden map[string]*model.Pod // pods that would have been deleted, by UID
}

// imagined is what would be different about a node.
type imagined struct {
	uid        string
	was        [model.ConditionTypes]model.Condition // what the node said when it was silenced
	conditions [model.ConditionTypes]model.Condition // Absent: nothing is imagined
	added      []model.Taint
	removed    []model.Taint // as they were
	labels     map[string]string
	cleared    []string // conditions of its agent
}

func newRehearsal() *rehearsal {
	return &rehearsal{nodes: map[string]*imagined{}, hidden: map[string]*model.Pod{}}
}

// play does an action, and tells the fleet what it led to.
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

// pod reports whether the pod is there.
func (r *rehearsal) pod(p *model.Pod) bool {
	if _, is := r.hidden[p.UID]; !is {
		return true
	}
	r.hidden[p.UID] = p
	return false
}

func (r *rehearsal) podGone(uid string) { delete(r.hidden, uid) }

func (r *rehearsal) nodeGone(name string) { delete(r.nodes, name) }

// end gives the fleet the world back as it is.
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

// imagine adds what an action does to a node.
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

// node is the node as it would be by now.
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

// since keeps what was cleared until the node's agent says something else.
func since(cleared, now []string) []string {
	if slices.Equal(cleared, now) {
		return cleared
	}
	return nil
}

// conceive puts imagined conditions in, as long as the node says what it said then.
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

// retaint takes imagined taints in and out, until the node itself is so.
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

// relabel puts imagined labels in, where the node has not got them.
func (i *imagined) relabel(l *model.Labels) {
	for key, label := range map[string]*model.Label{convert.LabelOldOS: &l.OldOS, convert.LabelOldArch: &l.OldArch} {
		if value, is := i.labels[key]; is {
			*label = model.Label{Value: value, Is: true}
		}
	}
}
