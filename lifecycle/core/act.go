package core

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Act returns the actions that are due now, in their order; none while another process
// leads. Its cost is that of the changes and the due timers.
func (f *Fleet) Act(now time.Time) []Action {
	f.now = now
	if !f.leading {
		return nil
	}
	f.popTimers()
	reads := f.detect()
	var out []Action
	f.sortTouched()
	for _, node := range f.touched.nodes {
		out = f.evaluate(node, out)
	}
	out = f.updateZones(out)
	f.updateQueues()
	f.sortTouched()
	for _, node := range f.touched.nodes {
		out = f.changeTaints(node, out)
		f.updateEvictingTaints(node)
	}
	out = f.updatePods(out)
	out = f.evict(out)
	for _, node := range f.touched.nodes {
		f.setTimer(node)
	}
	f.touched.clear()
	out = f.deleteEvictedPods(f.agentActions(out))
	out = append(append(out, reads...), f.events...)
	f.events = nil
	return out
}

// touched lists the nodes and pods that the next call of Act evaluates.
type touched struct {
	nodes []*nodeState
	pods  []*pod
}

// clear empties the lists.
func (t *touched) clear() {
	for _, node := range t.nodes {
		node.touched = false
	}
	for _, p := range t.pods {
		p.touched = false
	}
	clear(t.nodes)
	clear(t.pods)
	t.nodes, t.pods = t.nodes[:0], t.pods[:0]
}

// sortTouched sorts the touched nodes by name.
func (f *Fleet) sortTouched() {
	slices.SortFunc(f.touched.nodes, func(a, b *nodeState) int { return cmp.Compare(a.name, b.name) })
}

// popTimers touches the nodes and pods with a due timer.
func (f *Fleet) popTimers() {
	for name, ok := f.nodeTimers.Pop(f.now); ok; name, ok = f.nodeTimers.Pop(f.now) {
		f.touch(f.nodes[name])
	}
	for uid, ok := f.podRetries.Pop(f.now); ok; uid, ok = f.podRetries.Pop(f.now) {
		f.touchPod(f.pods[uid])
	}
}

// Next returns when Act could have actions, if nothing is observed until then: perhaps
// too early, never too late. ok is false if only an observation can lead to one.
func (f *Fleet) Next() (at time.Time, ok bool) {
	if !f.leading {
		return time.Time{}, false
	}
	if len(f.touched.nodes)+len(f.touched.pods)+len(f.events) > 0 || f.takeover != nil {
		return f.now, true
	}
	soonest := func(t time.Time, some bool) {
		if some && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	soonest(f.heartbeats.Next())
	soonest(f.checker.Next())
	soonest(f.zones.Next())
	soonest(f.timers.Next())
	soonest(f.agents.Next())
	soonest(f.nextEvictedPod())
	soonest(f.budgets.next(&f.policy))
	soonest(f.recovery.due())
	_, t, some := f.nodeTimers.Next()
	soonest(t, some)
	_, t, some = f.podRetries.Next()
	soonest(t, some)
	return at, ok
}

// addEvent adds an event to the actions of the next Act; node is nil for one about the
// cluster.
func (f *Fleet) addEvent(node *nodeState, e Event, format string, values ...any) {
	a := Action{Kind: ReportEvent, Event: e, Message: fmt.Sprintf(format, values...), at: f.now}
	if node != nil {
		a.Node, a.Object = node.name, node.object
	}
	f.events = append(f.events, a)
}

// newWrite returns an action of a kind that writes to a node, and starts its write.
func (f *Fleet) newWrite(k Kind, node *nodeState, w *write) Action {
	return Action{Kind: k, Node: node.name, Object: node.object, id: f.start(w), at: f.now}
}

// earliest returns the first of the times that are not zero; zero if all are.
func earliest(moments ...time.Time) (first time.Time) {
	for _, t := range moments {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// notAfter returns t, or now if t is zero or later than now.
func notAfter(now, t time.Time) time.Time {
	if t.IsZero() || t.After(now) {
		return now
	}
	return t
}

// place returns the zone of the node.
func (node *nodeState) place() model.Place { return node.object.Labels.Place() }
