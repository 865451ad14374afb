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

// Fleet stores all nodes and pods, and the decisions about them. It is not safe for
// concurrent use. See [New].
type Fleet struct {
	policy Policy

	// Observations, also while another process leads.
	heartbeats  *heartbeat.Watch
	agents      *agents.Watch
	evictedPods *podgc.Watch
	nodes       map[string]*nodeState
	nodeCount   int             // nodes with an object
	pods        map[string]*pod // by UID

	// Decisions, of the leader only.
	checker  *confirm.Checker
	zones    *zones.Zones
	timers   *evictions.Timers
	budgets  budgets
	recovery recovery
	takeover *takeover // nil: there is none to make

	leading bool
	now     time.Time // of the latest call

	silentNodes map[string]*nodeState // their heartbeats are missing
	affected    map[string]*nodeState // not ready, or with one of our NoExecute taints

	nodeTimers *timerqueue.Queue[string] // nodes to be evaluated at a time, by name
	podRetries *timerqueue.Queue[string] // pods to be evaluated at a time, by UID
	podWrites  map[string]*podWrites     // under way or to be repeated, by UID
	agentTasks map[uint64]agents.Task    // under way
	dryRun     bool                      // see SetDryRun
	touched    touched

	events     []Action    // to be returned by the next Act
	departures []departure // of one Act
	lastID     uint64      // of writes
}

// New returns a fleet without observations that does not lead.
func New(p Policy) *Fleet {
	f := &Fleet{
		policy:      p,
		checker:     confirm.New(p.Confirmation),
		heartbeats:  heartbeat.New(p.Health),
		agents:      agents.New(p.Agents),
		evictedPods: podgc.New(p.EvictedPodTTL),
		nodes:       map[string]*nodeState{},
		pods:        map[string]*pod{},
		podWrites:   map[string]*podWrites{},
		agentTasks:  map[uint64]agents.Task{},
	}
	f.resetDecisions()
	return f
}

// resetDecisions discards all decisions. Outages that were observed stay.
func (f *Fleet) resetDecisions() {
	f.checker = f.checker.Reset()
	f.zones = zones.New(f.policy.Zones)
	f.timers = evictions.NewTimers()
	f.budgets = budgets{}
	f.recovery = recovery{waiting: timerqueue.New[string]()}
	f.takeover = nil
	f.silentNodes, f.affected = map[string]*nodeState{}, map[string]*nodeState{}
	f.nodeTimers, f.podRetries = timerqueue.New[string](), timerqueue.New[string]()
	f.touched.clear()
	f.events = nil
}

// Node handles a new or changed node. The value is stored, and must not be
// changed afterwards.
func (f *Fleet) Node(n *model.Node, now time.Time) { f.NodeObserved(n, now, now) }

// NodeObserved does the same for a node that was observed before now: a sign of life in it
// counts from that moment.
func (f *Fleet) NodeObserved(n *model.Node, seen, now time.Time) {
	f.now = now
	node := f.ensureNode(n.Name)
	if node.object != nil && node.object.UID != n.UID {
		f.resetNode(node)
	}
	f.heartbeats.Node(n, seen)
	if !node.cleanedAs(n) {
		node.cleaned = nil
		f.agents.Node(n, now)
	}
	first := node.object == nil
	if first {
		f.nodeCount++
	}
	f.observe(node, n)
	if !f.leading {
		return
	}
	if first {
		f.addEvent(node, RegisteredNode, "")
	}
	f.endSilence(node)
	f.touch(node)
}

// NodeGone handles the deletion of a node's object. Its pods stay.
func (f *Fleet) NodeGone(name string, now time.Time) {
	f.now = now
	f.heartbeats.Forget(name)
	f.agents.Forget(name)
	node := f.nodes[name]
	if node == nil || node.object == nil {
		return
	}
	f.resetNode(node)
	f.dropEmpty(node)
}

// Renewed handles a node's lease with this renewTime, changed or not, that was observed
// at a moment before now, or now: the grace period begins then, however late the call
// is. The moments of one node never decrease. The lease may be observed before its
// node. Renewed is O(1), and allocates nothing for a known node without silence.
func (f *Fleet) Renewed(name string, renewTime, seen, now time.Time) {
	f.now = now
	f.heartbeats.Renewed(name, renewTime, seen)
	f.checker.Observed(seen, now)
	if len(f.silentNodes) == 0 {
		return
	}
	if node := f.silentNodes[name]; node != nil {
		f.endSilence(node)
	}
}

// Unleased handles the deletion of a node's lease.
func (f *Fleet) Unleased(name string, now time.Time) {
	f.now = now
	f.heartbeats.Unleased(name, now)
}

// AgentRenewed handles the lease of the node's Plimsoll agent, see [Fleet.Renewed].
func (f *Fleet) AgentRenewed(name string, renewTime, seen, now time.Time) {
	f.now = now
	f.agents.Renewed(name, renewTime, seen)
	if f.policy.AgentAliveGrace > 0 && len(f.silentNodes) > 0 {
		if node := f.silentNodes[name]; node != nil {
			f.touch(node)
		}
	}
}

// AgentUnleased handles the deletion of the lease of the node's Plimsoll agent.
func (f *Fleet) AgentUnleased(name string, now time.Time) {
	f.now = now
	f.agents.Unleased(name, now)
	if node := f.nodes[name]; node != nil && f.leading {
		f.touch(node)
	}
}

// Unreachable handles an API server that does not answer: a list, a watch or the
// election failed.
func (f *Fleet) Unreachable(now time.Time) {
	f.now = now
	f.checker.Unreachable(now)
}

// LeaseRead handles the result of a ReadLease: a zero renewTime without an error means
// that there is no lease.
func (f *Fleet) LeaseRead(name string, renewTime time.Time, err error, now time.Time) {
	f.now = now
	if err != nil {
		f.checker.Answered(name, confirm.Failed, now)
		return
	}
	if !renewTime.IsZero() {
		f.heartbeats.Renewed(name, renewTime, now)
	}
	if f.heartbeats.IsExpired(name) {
		f.checker.Answered(name, confirm.Unrenewed, now)
		return
	}
	f.checker.Answered(name, confirm.Renewed, now)
	if node := f.silentNodes[name]; node != nil {
		f.endSilence(node)
	}
}

// endSilence handles a sign of life of a silent node.
func (f *Fleet) endSilence(node *nodeState) {
	if !node.health.silent() || f.heartbeats.IsExpired(node.name) {
		return
	}
	healthTable.move(&node.health, heartbeatReceived)
	delete(f.silentNodes, node.name)
	f.checker.Clear(node.name)
	f.touch(node)
}
