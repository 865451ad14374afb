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

// taintMode is Kubernetes' default policy, with a grace period of 40 s.
func taintMode() core.Policy {
	return core.Policy{
		Health:             heartbeat.Policy{Grace: 40 * second, StartupGrace: 60 * second, Renewal: 10 * second},
		Confirmation:       confirm.Policy{Outage: 40 * second, MassFailureWindow: 10 * second, MassFailureMaxDuration: 5 * minute},
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

// harness is an API server with kubelets, in virtual time. The fleet's actions are carried out
// at once, unless its faults delay them.
type harness struct {
	tb     testing.TB
	policy core.Policy
	fleet  *core.Fleet
	now    time.Time
	dryRun bool // see startDryRun

	nodes    map[string]*model.Node
	leases   map[string]time.Time
	agents   map[string]time.Time
	pods     map[string]*model.Pod // by UID
	kubelets map[string]*kubelet

	todo            agenda
	order           int
	lines           []string
	events          []core.Action
	term            int                     // changes with every failover
	shown           map[string]time.Time    // when a node was last shown to the fleet
	renewed         map[string]time.Time    // when a renewal reached the fleet
	seen            map[string]*model.Node  // as last shown to the fleet
	markedUnknown   map[string]time.Time    // when a node's conditions were decided to be Unknown
	terminationTime func() time.Duration    // time that a pod takes to end; nil: none
	lossy           func() bool             // whether the next renewal is lost; nil: never
	readError       func(name string) error // of live reads; nil: they succeed

	// faults of a write: its failure, and the delays until it is carried out, answered and
	// shown. Nil: none.
	faults func(a *core.Action) fault
	// check is called for each decided action, applied right before it is carried out.
	check, applied func(a *core.Action)
	restarted      func() // before the new leader decides anything
	// beforeAdvance is called before time advances to the next event.
	beforeAdvance func(from, to time.Time)
}

type fault struct {
	err                  error
	carried, done, shown time.Duration
}

var errFault = errors.New("injected fault")

// kubelet is the state of a node's kubelet.
type kubelet struct {
	lease, status bool
	skew          time.Duration // of its clock
	generation    int           // renewals of an earlier generation are dropped
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

func newHarness(tb testing.TB, p core.Policy) *harness {
	h := &harness{
		tb: tb, policy: p, fleet: core.New(p), now: start,
		nodes: map[string]*model.Node{}, leases: map[string]time.Time{}, agents: map[string]time.Time{},
		pods: map[string]*model.Pod{}, kubelets: map[string]*kubelet{},
		shown: map[string]time.Time{}, renewed: map[string]time.Time{}, markedUnknown: map[string]time.Time{}, seen: map[string]*model.Node{},
	}
	h.fleet.Lead(time.Time{}, h.now)
	return h
}

func at(d time.Duration) time.Time { return start.Add(d) }

func (h *harness) schedule(t time.Time, late bool, do func()) {
	h.order++
	heap.Push(&h.todo, event{t, late, h.order, do})
}

// at schedules do at a time since the start.
func (h *harness) at(d time.Duration, do func()) { h.schedule(at(d), false, do) }

// run advances to a time since the start, exclusive.
func (h *harness) run(d time.Duration) {
	until := at(d)
	h.settle()
	for idle := 0; ; {
		next, ok := h.fleet.Next()
		if len(h.todo) > 0 && (!ok || h.todo[0].at.Before(next)) {
			next, ok = h.todo[0].at, true
		}
		if !ok || !next.Before(until) {
			h.pass(until)
			return
		}
		if idle++; next.After(h.now) || len(h.todo) > 0 && !h.todo[0].at.After(h.now) {
			idle = 0
		}
		if idle > 100 {
			h.tb.Fatalf("%v: Act returns no actions, but Next returns %v: an endless loop", h.now.Sub(start), next.Sub(start))
		}
		h.pass(next)
		for len(h.todo) > 0 && !h.todo[0].at.After(h.now) {
			heap.Pop(&h.todo).(event).do()
		}
		h.settle()
	}
}

func (h *harness) pass(to time.Time) {
	if h.beforeAdvance != nil && h.now.Before(to) {
		h.beforeAdvance(h.now, to)
	}
	if to.After(h.now) {
		h.now = to
	}
}

// settle carries out all due actions.
func (h *harness) settle() {
	for range 1000 {
		actions := h.fleet.Act(h.now)
		if len(actions) == 0 {
			if next, ok := h.fleet.Next(); ok && !next.After(h.now) && len(h.todo) == 0 {
				h.tb.Fatalf("%v: Act returns no actions, but Next returns %v: an endless loop", h.now.Sub(start), next.Sub(start))
			}
			return
		}
		for i := range actions {
			h.execute(&actions[i])
		}
	}
	h.tb.Fatalf("%v: Act returns actions endlessly: %v", h.now.Sub(start), h.lines[max(0, len(h.lines)-10):])
}

// carryOut carries out an action of the fleet.
func (h *harness) execute(a *core.Action) {
	if h.check != nil {
		h.check(a)
	}
	h.record(a)
	switch {
	case a.Kind == core.ReadLease:
		var err error
		if h.readError != nil {
			err = h.readError(a.Node)
		}
		h.fleet.LeaseRead(a.Node, h.leases[a.Node], err, h.now)
	case a.Kind.Writes():
		h.write(a)
	}
}

func (h *harness) write(a *core.Action) {
	if h.dryRun {
		h.simulate(a)
		return
	}
	if h.faults == nil {
		h.apply(a, 0)
		h.fleet.Finished(a, nil, h.now)
		return
	}
	f, term := h.faults(a), h.term
	h.schedule(h.now.Add(f.carried), false, func() {
		switch {
		case term != h.term: // the leader stopped before the write
		case h.fleet.Obsolete(a, h.now):
			h.fleet.Finished(a, core.ErrObsolete, h.now)
			return
		case f.err == nil:
			h.apply(a, f.shown)
		}
		h.schedule(h.now.Add(f.done), false, func() {
			if term == h.term {
				h.fleet.Finished(a, f.err, h.now)
			}
		})
	})
}

// apply applies the action to the API's objects and shows them after a while.
func (h *harness) apply(a *core.Action, after time.Duration) {
	if h.applied != nil {
		h.applied(a)
	}
	switch a.Kind {
	case core.MarkUnknown, core.Taint, core.CleanUpAgent:
		n, ok := h.nodes[a.Node]
		if !ok {
			return
		}
		h.nodes[a.Node] = written(n, a, h.now)
		h.show(a.Node, after)
	case core.MarkNotReady:
		h.changePod(a.Pod.UID, after, func(p *model.Pod) { p.Ready = false })
	case core.Evict, core.SoftEvict:
		h.end(a.Pod.UID, after)
	case core.DeleteEvictedPod:
		h.removePod(a.Pod.UID, after) // an ended pod disappears at once
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
func (h *harness) show(name string, after time.Duration) {
	n, term := h.nodes[name], h.term
	h.deliver(name, after, func() {
		if term == h.term {
			h.seen[name] = n
			h.fleet.Node(n, h.now)
		}
	})
}

func (h *harness) deliver(key string, after time.Duration, do func()) {
	when := h.now.Add(after)
	if before := h.shown[key]; before.After(when) {
		when = before
	}
	h.shown[key] = when
	if !when.After(h.now) {
		do()
		return
	}
	h.schedule(when, false, do)
}

// record records a decision in the notation of a dry run.
func (h *harness) record(a *core.Action) {
	line := func(format string, args ...any) {
		text := strings.ReplaceAll(fmt.Sprintf(format, args...), "node.kubernetes.io/", "")
		h.lines = append(h.lines, fmt.Sprintf("%v %s", h.now.Sub(start).Seconds(), text))
	}
	switch a.Kind {
	case core.MarkUnknown:
		h.markedUnknown[a.Node] = h.now
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
		h.events = append(h.events, *a)
		line("event %s %v", a.Node, a.Event)
	case core.ReadLease, core.CleanUpAgent:
		line("%v %s", a.Kind, a.Node)
	default:
		line("%v %s %s", a.Kind, a.Node, a.Pod.Name)
	}
}

// of returns the lines of these kinds.
func (h *harness) of(kinds ...string) (lines []string) {
	for _, l := range h.lines {
		if slices.Contains(kinds, strings.Fields(l)[1]) {
			lines = append(lines, l)
		}
	}
	return lines
}

// expect compares the lines of these kinds, separated by blanks.
func (h *harness) expect(kinds string, want ...string) {
	h.tb.Helper()
	if got := h.of(strings.Fields(kinds)...); !slices.Equal(got, want) {
		h.tb.Errorf("%s: got\n\t%s\nwant\n\t%s", kinds, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// restart replaces the fleet by a new one, which receives the API's objects in no particular
// order.
func (h *harness) restart() {
	h.term++
	h.fleet = core.New(h.policy)
	clear(h.shown)
	for name, n := range h.nodes {
		h.seen[name] = n
		h.fleet.Node(n, h.now)
	}
	for name, at := range h.leases {
		h.fleet.Renewed(name, at, h.now, h.now)
	}
	for name, at := range h.agents {
		h.fleet.AgentRenewed(name, at, h.now, h.now)
	}
	for _, p := range h.pods {
		h.fleet.Pod(p, h.now)
	}
	if h.restarted != nil {
		h.restarted()
	}
	h.fleet.Lead(h.now, h.now)
}
