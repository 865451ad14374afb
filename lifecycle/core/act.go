package core

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Act decides what is to be done now, in the order in which it is to be done.
// While another leads that is nothing. It costs what changed and what is due.
func (f *Fleet) Act(now time.Time) []Action {
	f.now = now
	if !f.leading {
		return nil
	}
	f.wake()
	reads := f.weigh()
	var out []Action
	f.order()
	for _, h := range f.touch.hosts {
		out = f.judge(h, out)
	}
	out = f.assess(out)
	f.queue()
	f.order()
	for _, h := range f.touch.hosts {
		out = f.retaint(h, out)
		f.drive(h)
	}
	out = f.care(out)
	out = f.evict(out)
	for _, h := range f.touch.hosts {
		f.setAlarm(h)
	}
	f.touch.clear()
	out = f.clear(f.ask(out))
	out = append(append(out, reads...), f.tells...)
	f.tells = nil
	return out
}

// touched are the hosts and pods that the next Act looks at.
type touched struct {
	hosts []*host
	pods  []*pod
}

// clear forgets them.
func (t *touched) clear() {
	for _, h := range t.hosts {
		h.looking = false
	}
	for _, p := range t.pods {
		p.looking = false
	}
	clear(t.hosts)
	clear(t.pods)
	t.hosts, t.pods = t.hosts[:0], t.pods[:0]
}

// order puts the hosts into the order of their names.
func (f *Fleet) order() {
	slices.SortFunc(f.touch.hosts, func(a, b *host) int { return cmp.Compare(a.name, b.name) })
}

// wake looks at what is due.
func (f *Fleet) wake() {
	for name, ok := f.alarms.Pop(f.now); ok; name, ok = f.alarms.Pop(f.now) {
		f.look(f.hosts[name])
	}
	for uid, ok := f.again.Pop(f.now); ok; uid, ok = f.again.Pop(f.now) {
		f.lookPod(f.pods[uid])
	}
}

// Next is when Act could have something to do, if nothing is observed until then:
// perhaps too early, never too late. ok is false if only an observation can.
func (f *Fleet) Next() (at time.Time, ok bool) {
	if !f.leading {
		return time.Time{}, false
	}
	if len(f.touch.hosts)+len(f.touch.pods)+len(f.tells) > 0 || f.takeover != nil {
		return f.now, true
	}
	soonest := func(t time.Time, some bool) {
		if some && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	soonest(f.health.Next())
	soonest(f.evidence.Next())
	soonest(f.zones.Next())
	soonest(f.timers.Next())
	soonest(f.agents.Next())
	soonest(f.clears())
	soonest(f.budgets.next(&f.policy))
	soonest(f.recovery.due())
	_, t, some := f.alarms.Next()
	soonest(t, some)
	_, t, some = f.again.Next()
	soonest(t, some)
	return at, ok
}

// tell adds to what the next Act tells; of the cluster without a host.
func (f *Fleet) tell(h *host, e Event, format string, values ...any) {
	a := Action{Kind: Tell, Event: e, Message: fmt.Sprintf(format, values...), at: f.now}
	if h != nil {
		a.Node, a.Object = h.name, h.object
	}
	f.tells = append(f.tells, a)
}

// write is an action on a host that writes.
func (f *Fleet) write(k Kind, h *host, w *write) Action {
	return Action{Kind: k, Node: h.name, Object: h.object, id: f.start(w), at: f.now}
}

// earliest is the first of the moments that are not zero; zero if all are.
func earliest(moments ...time.Time) (first time.Time) {
	for _, t := range moments {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// notAfter is t, or now if t is later or was never written down.
func notAfter(now, t time.Time) time.Time {
	if t.IsZero() || t.After(now) {
		return now
	}
	return t
}

// place is the zone that a host is in.
func (h *host) place() model.Place { return h.object.Labels.Place() }
