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
	heartbeats  *heartbeat.Watch
	agents      *agents.Watch
	evictedPods *podgc.Watch
	nodes       map[string]*nodeState
	nodeCount   int             // hosts with an object
	pods        map[string]*pod // by UID

	// What is decided, by the leader only.
	checker  *confirm.Checker
	zones    *zones.Zones
	timers   *evictions.Timers
	budgets  budgets
	recovery recovery
	takeover *takeover // nil: it is over

	leading bool
	now     time.Time // of the latest call

	silentNodes map[string]*nodeState // health says so
	affected    map[string]*nodeState // not ready, or with one of our NoExecute taints

	nodeTimers *timerqueue.Queue[string] // hosts to be looked at again, by name
	podRetries *timerqueue.Queue[string] // pods to be looked at again, by UID
	podWrites  map[string]*podWrites     // writes to pods under way or to be repeated, by UID
	agentTasks map[uint64]agents.Task    // under way
	touched    touched

	events     []Action    // to be returned by the next Act
	departures []departure // of one Act
	lastID     uint64      // of writes
}

// New makes a fleet that has seen nothing and does not lead.
func New(p Policy) *Fleet {
	f := &Fleet{
		policy:      p,
		checker:     confirm.New(p.Evidence),
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

// resetDecisions forgets all decisions, and no outage.
func (f *Fleet) resetDecisions() {
	f.checker = f.checker.Anew()
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

// Node takes in a node that was seen for the first time or changed. The value is
// kept, and must not be changed afterwards.
func (f *Fleet) Node(n *model.Node, now time.Time) { f.NodeSeen(n, now, now) }

// NodeSeen does the same for a node that was seen at a moment before now, which is
// when it was heard if this is a sign of life.
func (f *Fleet) NodeSeen(n *model.Node, seen, now time.Time) {
	f.now = now
	node := f.ensureNode(n.Name)
	if node.object != nil && node.object.UID != n.UID {
		f.resetNode(node)
	}
	f.heartbeats.See(n, seen)
	f.agents.See(n, now)
	first := node.object == nil
	if first {
		f.nodeCount++
	}
	node.observe(n, now)
	if !f.leading {
		return
	}
	if first {
		f.addEvent(node, RegisteredNode, "")
	}
	f.endSilence(node)
	f.touch(node)
}

// NodeGone takes in that a node's object was deleted. Its pods are still there.
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

// Renewed takes in a node's lease with this renewTime, whether it changed or not,
// that was seen at a moment before now, or now: the node is silent a grace after
// that, however late this is called. Of one node's moments none is earlier than the
// one before. It may come before its node. It is O(1), and allocates nothing for a
// node that is known and not silent.
func (f *Fleet) Renewed(name string, renewTime, seen, now time.Time) {
	f.now = now
	f.heartbeats.Renewed(name, renewTime, seen)
	f.checker.Heard(seen, now)
	if len(f.silentNodes) == 0 {
		return
	}
	if node := f.silentNodes[name]; node != nil {
		f.endSilence(node)
	}
}

// Unleased takes in that a node's lease was deleted.
func (f *Fleet) Unleased(name string, now time.Time) {
	f.now = now
	f.heartbeats.Unleased(name, now)
}

// AgentRenewed takes in the lease of the node's Plimsoll agent, see [Fleet.Renewed].
func (f *Fleet) AgentRenewed(name string, renewTime, seen, now time.Time) {
	f.now = now
	f.agents.Renewed(name, renewTime, seen)
	if f.policy.SecondOpinion > 0 && len(f.silentNodes) > 0 {
		if node := f.silentNodes[name]; node != nil {
			f.touch(node)
		}
	}
}

// AgentUnleased takes in that the lease of the node's Plimsoll agent was deleted.
func (f *Fleet) AgentUnleased(name string, now time.Time) {
	f.now = now
	f.agents.Unleased(name, now)
	if node := f.nodes[name]; node != nil && f.leading {
		f.touch(node)
	}
}

// Unreachable takes in that the API server does not answer: a list, a watch or
// the election failed.
func (f *Fleet) Unreachable(now time.Time) {
	f.now = now
	f.checker.Unreachable(now)
}

// LeaseRead takes in what a live read of a node's lease came to, which a
// ReadLease asked for: a zero renewTime without an error says that there is none.
func (f *Fleet) LeaseRead(name string, renewTime time.Time, err error, now time.Time) {
	f.now = now
	if err != nil {
		f.checker.Answered(name, confirm.Failed, now)
		return
	}
	if !renewTime.IsZero() {
		f.heartbeats.Renewed(name, renewTime, now)
	}
	if f.heartbeats.IsSilent(name) {
		f.checker.Answered(name, confirm.Unrenewed, now)
		return
	}
	f.checker.Answered(name, confirm.Renewed, now)
	if node := f.silentNodes[name]; node != nil {
		f.endSilence(node)
	}
}

// endSilence ends the silence of a host that was heard.
func (f *Fleet) endSilence(node *nodeState) {
	if !node.health.silent() || f.heartbeats.IsSilent(node.name) {
		return
	}
	healthTable.move(&node.health, heartbeatReceived)
	delete(f.silentNodes, node.name)
	f.checker.Clear(node.name)
	f.touch(node)
}
