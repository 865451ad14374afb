package core_test

import (
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/agents"
	"plimsoll.dev/plimsoll/lifecycle/confirm"
	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/heartbeat"
	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

var start = time.Unix(1_700_000_000, 0)

const (
	second = time.Second
	minute = time.Minute
)

// taintMode is Kubernetes' policy, with the grace period of its stories.
func taintMode() core.Policy {
	return core.Policy{
		Health:             heartbeat.Policy{Grace: 40 * second, StartupGrace: 60 * second, Renewal: 10 * second},
		Evidence:           confirm.Policy{Outage: 40 * second, StormWindow: 10 * second, StormLongest: 5 * minute},
		Zones:              zones.Policy{Rate: 0.1, SecondaryRate: 0.01, FullRate: -1, LargeZone: 50, Unhealthy: 0.55},
		Agents:             agents.Policy{Grace: 40 * second},
		NoExecute:          true,
		TaintEvictions:     true,
		PodEvictionTimeout: 5 * minute,
	}
}

func legacyMode() core.Policy {
	p := taintMode()
	p.NoExecute, p.TaintEvictions, p.LegacyEvictions = false, false, true
	return p
}

// world is an API server with kubelets around it, in virtual time. The fleet's actions are
// carried out at once, unless its faults delay them.
type world struct {
	tb     testing.TB
	policy core.Policy
	fleet  *core.Fleet
	now    time.Time

	nodes  map[string]*model.Node
	leases map[string]time.Time
	agents map[string]time.Time
	pods   map[string]*model.Pod // by UID
	beats  map[string]*beat

	todo  agenda
	order int
	lines []string
	told  []core.Action
	reign int                     // changes with every failover
	shown map[string]time.Time    // when a node was last shown to the fleet
	heard map[string]time.Time    // when a renewal reached the fleet
	seen  map[string]*model.Node  // as last shown to the fleet
	said  map[string]time.Time    // when a node's conditions were decided to be Unknown
	dying func() time.Duration    // time that a pod takes to end; nil: none
	lossy func() bool             // whether the next renewal is lost; nil: never
	reads func(name string) error // of live reads; nil: they succeed

	// faults of a write: its failure, and the delays until it is carried out, answered and
	// shown. Nil: none.
	faults func(a *core.Action) fault
	// check is called for each decided action, applied right before it is carried out.
	check, applied func(a *core.Action)
	restarted      func() // before the new leader decides anything
	// apart is called with the time before which nothing is guaranteed.
	apart func(from, to time.Time)
}

type fault struct {
	err                  error
	carried, done, shown time.Duration
}

var errFault = errors.New("the API server is in a bad mood")

// beat is the way in which a kubelet renews.
type beat struct {
	lease, status bool
	skew          time.Duration // of its clock
	life          int           // renewals of an earlier one are dropped
}

type event struct {
	at    time.Time
	late  bool // renewals come after all other events of the same instant
	order int
	do    func()
}

type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	if !a[i].at.Equal(a[j].at) {
		return a[i].at.Before(a[j].at)
	}
	if a[i].late != a[j].late {
		return a[j].late
	}
	return a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	*a = (*a)[:last]
	return e
}

func newWorld(tb testing.TB, p core.Policy) *world {
	w := &world{
		tb: tb, policy: p, fleet: core.New(p), now: start,
		nodes: map[string]*model.Node{}, leases: map[string]time.Time{}, agents: map[string]time.Time{},
		pods: map[string]*model.Pod{}, beats: map[string]*beat{},
		shown: map[string]time.Time{}, heard: map[string]time.Time{}, said: map[string]time.Time{}, seen: map[string]*model.Node{},
	}
	w.fleet.Lead(time.Time{}, w.now)
	return w
}

func at(d time.Duration) time.Time { return start.Add(d) }

func (w *world) schedule(t time.Time, late bool, do func()) {
	w.order++
	heap.Push(&w.todo, event{t, late, w.order, do})
}

// at schedules do at a moment of the story.
func (w *world) at(d time.Duration, do func()) { w.schedule(at(d), false, do) }

// run advances time to that moment, exclusive.
func (w *world) run(d time.Duration) {
	until := at(d)
	w.settle()
	for idle := 0; ; {
		next, ok := w.fleet.Next()
		if len(w.todo) > 0 && (!ok || w.todo[0].at.Before(next)) {
			next, ok = w.todo[0].at, true
		}
		if !ok || !next.Before(until) {
			w.pass(until)
			return
		}
		if idle++; next.After(w.now) || len(w.todo) > 0 && !w.todo[0].at.After(w.now) {
			idle = 0
		}
		if idle > 100 {
			w.tb.Fatalf("%v: nothing to do, and yet Next says %v: a loop that never rests", w.now.Sub(start), next.Sub(start))
		}
		w.pass(next)
		for len(w.todo) > 0 && !w.todo[0].at.After(w.now) {
			heap.Pop(&w.todo).(event).do()
		}
		w.settle()
	}
}

func (w *world) pass(to time.Time) {
	if w.apart != nil && w.now.Before(to) {
		w.apart(w.now, to)
	}
	if to.After(w.now) {
		w.now = to
	}
}

// settle carries out all due actions.
func (w *world) settle() {
	for range 1000 {
		actions := w.fleet.Act(w.now)
		if len(actions) == 0 {
			if next, ok := w.fleet.Next(); ok && !next.After(w.now) && len(w.todo) == 0 {
				w.tb.Fatalf("%v: nothing to do, and yet Next says %v: a loop that never rests", w.now.Sub(start), next.Sub(start))
			}
			return
		}
		for i := range actions {
			w.carryOut(&actions[i])
		}
	}
	w.tb.Fatalf("%v: there is no end to what is to be done: %v", w.now.Sub(start), w.lines[max(0, len(w.lines)-10):])
}

// carryOut carries out an action of the fleet.
func (w *world) carryOut(a *core.Action) {
	if w.check != nil {
		w.check(a)
	}
	w.record(a)
	switch {
	case a.Kind == core.ReadLease:
		var err error
		if w.reads != nil {
			err = w.reads(a.Node)
		}
		w.fleet.LeaseRead(a.Node, w.leases[a.Node], err, w.now)
	case a.Kind.Writes():
		w.write(a)
	}
}

func (w *world) write(a *core.Action) {
	if w.faults == nil {
		w.apply(a, 0)
		w.fleet.Finished(a, nil, w.now)
		return
	}
	f, reign := w.faults(a), w.reign
	w.schedule(w.now.Add(f.carried), false, func() {
		switch {
		case reign != w.reign: // the leader is dead, and the write with it
		case w.fleet.Obsolete(a, w.now):
			w.fleet.Finished(a, core.ErrObsolete, w.now)
			return
		case f.err == nil:
			w.apply(a, f.shown)
		}
		w.schedule(w.now.Add(f.done), false, func() {
			if reign == w.reign {
				w.fleet.Finished(a, f.err, w.now)
			}
		})
	})
}

// apply applies the action to the API's objects and shows them after a while.
func (w *world) apply(a *core.Action, after time.Duration) {
	if w.applied != nil {
		w.applied(a)
	}
	switch a.Kind {
	case core.MarkUnknown, core.Taint, core.CleanUpAgent:
		n, ok := w.nodes[a.Node]
		if !ok {
			return
		}
		w.nodes[a.Node] = written(n, a, w.now)
		w.show(a.Node, after)
	case core.MarkNotReady:
		w.changePod(a.Pod.UID, after, func(p *model.Pod) { p.Ready = false })
	case core.Evict, core.SoftEvict:
		w.end(a.Pod.UID, after)
	case core.DeleteEvictedPod:
		w.removePod(a.Pod.UID, after) // an ended pod takes no time for it
	}
}

// written returns the node after the action.
func written(n *model.Node, a *core.Action, now time.Time) *model.Node {
	is := *n
	is.Taints = slices.Clone(n.Taints)
	for _, s := range a.Conditions {
		c := &is.Conditions[s.Type]
		if c.Status == model.Absent {
			c.Heartbeat = n.Created
		}
		c.Status, c.Transition, c.Reason = model.Unknown, now, s.Reason
	}
	for _, r := range a.Remove {
		is.Taints = slices.DeleteFunc(is.Taints, func(t model.Taint) bool { return t.Is(r.Key, r.Effect) })
	}
	is.Taints = append(is.Taints, a.Add...)
	for _, l := range a.Labels {
		if label := (model.Label{Value: l.Value, Is: true}); strings.HasSuffix(l.Key, "os") {
			is.Labels.OldOS = label
		} else {
			is.Labels.OldArch = label
		}
	}
	if a.Kind == core.CleanUpAgent {
		is.Pressures = nil
	}
	return &is
}

// show delivers the current state of a node to the fleet, in the order of its changes.
func (w *world) show(name string, after time.Duration) {
	n, reign := w.nodes[name], w.reign
	w.deliver(name, after, func() {
		if reign == w.reign {
			w.seen[name] = n
			w.fleet.Node(n, w.now)
		}
	})
}

func (w *world) deliver(key string, after time.Duration, do func()) {
	when := w.now.Add(after)
	if before := w.shown[key]; before.After(when) {
		when = before
	}
	w.shown[key] = when
	if !when.After(w.now) {
		do()
		return
	}
	w.schedule(when, false, do)
}

// record records a decision in the notation of a rehearsal.
func (w *world) record(a *core.Action) {
	line := func(format string, args ...any) {
		text := strings.ReplaceAll(fmt.Sprintf(format, args...), "node.kubernetes.io/", "")
		w.lines = append(w.lines, fmt.Sprintf("%v %s", w.now.Sub(start).Seconds(), text))
	}
	switch a.Kind {
	case core.MarkUnknown:
		w.said[a.Node] = w.now
		for _, c := range a.Conditions {
			line("condition %s %v %s", a.Node, c.Type, c.Reason)
		}
	case core.Taint:
		for _, t := range a.Add {
			line("taint %s +%s:%v", a.Node, t.Key, t.Effect)
		}
		for _, t := range a.Remove {
			line("taint %s -%s:%v", a.Node, t.Key, t.Effect)
		}
		for _, l := range a.Labels {
			line("label %s %s=%s", a.Node, l.Key, l.Value)
		}
	case core.MarkNotReady:
		line("pod-not-ready %s %s", a.Node, a.Pod.Name)
	case core.Evict:
		line("evict %s %s %v", a.Node, a.Pod.Name, a.Why)
	case core.Zone:
		line("zone %v %v %v", a.Zone.Place, a.Zone.State, a.Zone.Rate)
	case core.ReportEvent:
		w.told = append(w.told, *a)
		line("event %s %v", a.Node, a.Event)
	case core.ReadLease, core.CleanUpAgent:
		line("%v %s", a.Kind, a.Node)
	default:
		line("%v %s %s", a.Kind, a.Node, a.Pod.Name)
	}
}

// of returns the lines of these kinds.
func (w *world) of(kinds ...string) (lines []string) {
	for _, l := range w.lines {
		if slices.Contains(kinds, strings.Fields(l)[1]) {
			lines = append(lines, l)
		}
	}
	return lines
}

// expect compares the lines of these kinds, separated by blanks.
func (w *world) expect(kinds string, want ...string) {
	w.tb.Helper()
	if got := w.of(strings.Fields(kinds)...); !slices.Equal(got, want) {
		w.tb.Errorf("%s:\n\t%s\ninstead of\n\t%s", kinds, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// restart replaces the fleet by a new one, which receives the API's objects in no particular
// order.
func (w *world) restart() {
	w.reign++
	w.fleet = core.New(w.policy)
	clear(w.shown)
	for name, n := range w.nodes {
		w.seen[name] = n
		w.fleet.Node(n, w.now)
	}
	for name, at := range w.leases {
		w.fleet.Renewed(name, at, w.now, w.now)
	}
	for name, at := range w.agents {
		w.fleet.AgentRenewed(name, at, w.now, w.now)
	}
	for _, p := range w.pods {
		w.fleet.Pod(p, w.now)
	}
	if w.restarted != nil {
		w.restarted()
	}
	w.fleet.Lead(w.now, w.now)
}
