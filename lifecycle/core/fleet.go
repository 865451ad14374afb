package core

import (
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
	"plimsoll.dev/plimsoll/lifecycle/agents"
	"plimsoll.dev/plimsoll/lifecycle/confirm"
	"plimsoll.dev/plimsoll/lifecycle/evictions"
	"plimsoll.dev/plimsoll/lifecycle/heartbeat"
	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/podgc"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// A Fleet is all nodes and pods, and what was decided about them. It is not safe
// for concurrent use. See [New].
type Fleet struct {
	policy Policy

	// What is observed, whoever leads.
	health  *heartbeat.Watch
	agents  *agents.Watch
	remains *podgc.Watch
	hosts   map[string]*host
	nodes   int             // hosts with an object
	pods    map[string]*pod // by UID

	// What is decided, by the leader only.
	evidence *confirm.Judge
	zones    *zones.Zones
	timers   *evictions.Timers
	budgets  budgets
	recovery recovery
	takeover *takeover // nil: it is over

	leading bool
	now     time.Time // of the latest call

	silent    map[string]*host // health says so
	concerned map[string]*host // not ready, or with one of our NoExecute taints

	alarms *timerqueue.Queue[string] // hosts to be looked at again, by name
	again  *timerqueue.Queue[string] // pods to be looked at again, by UID
	hands  map[string]*hands         // writes to pods under way or to be repeated, by UID
	tasks  map[uint64]agents.Task    // under way
	touch  touched

	tells   []Action    // to be returned by the next Act
	leaving []departure // of one Act
	lastID  uint64      // of writes
}

// New makes a fleet that has seen nothing and does not lead.
func New(p Policy) *Fleet {
	f := &Fleet{
		policy:   p,
		evidence: confirm.New(p.Evidence),
		health:   heartbeat.New(p.Health),
		agents:   agents.New(p.Agents),
		remains:  podgc.New(p.EvictedPodTTL),
		hosts:    map[string]*host{},
		pods:     map[string]*pod{},
		hands:    map[string]*hands{},
		tasks:    map[uint64]agents.Task{},
	}
	f.begin()
	return f
}

// begin forgets all decisions, and no outage.
func (f *Fleet) begin() {
	f.evidence = f.evidence.Anew()
	f.zones = zones.New(f.policy.Zones)
	f.timers = evictions.NewTimers()
	f.budgets = budgets{}
	f.recovery = recovery{waiting: timerqueue.New[string]()}
	f.takeover = nil
	f.silent, f.concerned = map[string]*host{}, map[string]*host{}
	f.alarms, f.again = timerqueue.New[string](), timerqueue.New[string]()
	f.touch.clear()
	f.tells = nil
}

// Node takes in a node that was seen for the first time or changed. The value is
// kept, and must not be changed afterwards.
func (f *Fleet) Node(n *model.Node, now time.Time) { f.NodeSeen(n, now, now) }

// NodeSeen does the same for a node that was seen at a moment before now, which is
// when it was heard if this is a sign of life.
func (f *Fleet) NodeSeen(n *model.Node, seen, now time.Time) {
	f.now = now
	h := f.host(n.Name)
	if h.object != nil && h.object.UID != n.UID {
		f.leave(h)
	}
	f.health.See(n, seen)
	f.agents.See(n, now)
	first := h.object == nil
	if first {
		f.nodes++
	}
	h.observe(n, now)
	if !f.leading {
		return
	}
	if first {
		f.tell(h, RegisteredNode, "")
	}
	f.listen(h)
	f.look(h)
}

// NodeGone takes in that a node's object was deleted. Its pods are still there.
func (f *Fleet) NodeGone(name string, now time.Time) {
	f.now = now
	f.health.Forget(name)
	f.agents.Forget(name)
	h := f.hosts[name]
	if h == nil || h.object == nil {
		return
	}
	f.leave(h)
	f.release(h)
}

// Renewed takes in a node's lease with this renewTime, whether it changed or not,
// that was seen at a moment before now, or now: the node is silent a grace after
// that, however late this is called. Of one node's moments none is earlier than the
// one before. It may come before its node. It is O(1), and allocates nothing for a
// node that is known and not silent.
func (f *Fleet) Renewed(name string, renewTime, seen, now time.Time) {
	f.now = now
	f.health.Renewed(name, renewTime, seen)
	f.evidence.Heard(seen, now)
	if len(f.silent) == 0 {
		return
	}
	if h := f.silent[name]; h != nil {
		f.listen(h)
	}
}

// Unleased takes in that a node's lease was deleted.
func (f *Fleet) Unleased(name string, now time.Time) {
	f.now = now
	f.health.Unleased(name, now)
}

// AgentRenewed takes in the lease of the node's Plimsoll agent, see [Fleet.Renewed].
func (f *Fleet) AgentRenewed(name string, renewTime, seen, now time.Time) {
	f.now = now
	f.agents.Renewed(name, renewTime, seen)
	if f.policy.SecondOpinion > 0 && len(f.silent) > 0 {
		if h := f.silent[name]; h != nil {
			f.look(h)
		}
	}
}

// AgentUnleased takes in that the lease of the node's Plimsoll agent was deleted.
func (f *Fleet) AgentUnleased(name string, now time.Time) {
	f.now = now
	f.agents.Unleased(name, now)
	if h := f.hosts[name]; h != nil && f.leading {
		f.look(h)
	}
}

// Unreachable takes in that the API server does not answer: a list, a watch or
// the election failed.
func (f *Fleet) Unreachable(now time.Time) {
	f.now = now
	f.evidence.Unreachable(now)
}

// LeaseRead takes in what a live read of a node's lease came to, which a
// ReadLease asked for: a zero renewTime without an error says that there is none.
func (f *Fleet) LeaseRead(name string, renewTime time.Time, err error, now time.Time) {
	f.now = now
	if err != nil {
		f.evidence.Answered(name, confirm.Failed, now)
		return
	}
	if !renewTime.IsZero() {
		f.health.Renewed(name, renewTime, now)
	}
	if f.health.IsSilent(name) {
		f.evidence.Answered(name, confirm.Unrenewed, now)
		return
	}
	f.evidence.Answered(name, confirm.Renewed, now)
	if h := f.silent[name]; h != nil {
		f.listen(h)
	}
}

// listen ends the silence of a host that was heard.
func (f *Fleet) listen(h *host) {
	if !h.silent || f.health.IsSilent(h.name) {
		return
	}
	h.silent, h.heard = false, true
	delete(f.silent, h.name)
	f.evidence.Clear(h.name)
	f.look(h)
}
