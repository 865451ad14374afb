package core

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Messages of conditions that become Unknown.
const (
	neverPosted   = "Kubelet never posted node status."
	stoppedPosted = "Kubelet stopped posting node status."
	agentLives    = " The node's Plimsoll agent is alive: its pods stay for the time being."
)

// detect marks nodes with missing heartbeats as suspected and handles confirmed losses.
// It returns the reads of leases that confirmations take.
func (f *Fleet) detect() (reads []Action) {
	for _, name := range f.heartbeats.Expired(f.now) {
		if node := f.nodes[name]; node != nil && node.object != nil {
			f.suspect(node)
		}
	}
	findings := f.checker.Decide(f.nodeCount, f.now)
	if !findings.NotBefore.IsZero() {
		f.heartbeats.NotBefore(findings.NotBefore)
	}
	for _, name := range findings.Lost {
		f.declareLost(f.nodes[name])
	}
	for _, name := range findings.Read {
		reads = append(reads, Action{Kind: ReadLease, Node: name, at: f.now})
	}
	f.reportBreaker()
	return reads
}

// suspect handles missing heartbeats of a node. The loss needs no check if the API shows it already:
// its writer has confirmed it, and it does not count for a mass failure.
func (f *Fleet) suspect(node *nodeState) {
	healthTable.move(&node.health, heartbeatsMissed)
	f.silentNodes[node.name] = node
	if node.unknownBySilence() && !node.health.resumed() {
		f.declareLost(node)
		return
	}
	f.checker.Add(node.name, f.now)
	f.touch(node)
}

// declareLost handles the confirmed loss of a node.
func (f *Fleet) declareLost(node *nodeState) {
	if wasLost := node.health.lost(); healthTable.move(&node.health, lossConfirmed) && !wasLost {
		node.lostAt, node.lastReport = f.now, node.object.Conditions[model.Ready]
	}
	f.touch(node)
}

// evaluate updates the view of a node and its counts, and appends the write of its
// conditions if one is due.
func (f *Fleet) evaluate(node *nodeState, out []Action) []Action {
	if node.object == nil {
		return out
	}
	node.dropOutdatedWrites(f.now)
	if node.health == stateRecovering && node.lossUnpublished() {
		healthTable.move(&node.health, lossWithdrawn)
	}
	node.refreshView()
	f.countNode(node)
	if node.ready() != model.True || node.hasNoExecute() {
		f.affected[node.name] = node
	} else {
		delete(f.affected, node.name)
	}
	if node.health.lost() && node.health.silent() && node.statusWrite.mayStart(f.now) {
		if conditions := f.unknownConditions(node); len(conditions) > 0 {
			a := f.newWrite(MarkUnknown, node, &node.statusWrite)
			a.Conditions = conditions
			out = append(out, a)
		}
	}
	return out
}

// lossUnpublished reports whether nothing of a loss was written, so that a heartbeat is
// enough to withdraw it. After a write only a Ready of the node itself ends it.
func (node *nodeState) lossUnpublished() bool {
	marksUnknown := func(b pendingWrite) bool { return b.action.Kind == MarkUnknown }
	return !node.statusWrite.underWay() && !slices.ContainsFunc(node.pendingWrites, marksUnknown) &&
		node.object.Conditions[model.Ready].Status != model.Unknown
}

// unknownConditions returns the conditions that the API does not show as Unknown yet.
func (f *Fleet) unknownConditions(node *nodeState) (conditions []UnknownCondition) {
	for t := range model.UnknownConditionTypes {
		c := &node.object.Conditions[t]
		wrote := func(b pendingWrite) bool {
			return slices.ContainsFunc(b.action.Conditions, func(s UnknownCondition) bool { return s.Type == t })
		}
		if c.Status == model.Unknown || slices.ContainsFunc(node.pendingWrites, wrote) {
			continue
		}
		s := UnknownCondition{t, model.ReasonStatusUnknown, stoppedPosted}
		if c.Status == model.Absent {
			s.Reason, s.Message = model.ReasonStatusNeverUpdated, neverPosted
		}
		if f.policy.AgentAliveGrace > 0 && f.agents.Alive(node.name, f.now) {
			s.Message += agentLives
		}
		conditions = append(conditions, s)
	}
	return conditions
}

// countNode updates the counts of the node's zone and of the cluster, and since when
// the node is unready.
func (f *Fleet) countNode(node *nodeState) {
	was, is := node.counts, membership{node.ready(), !node.object.Labels.Excluded, true}
	f.zones.Set(node.name, node.place(), is.ready == model.True, is.counted)
	if node.unreadySince.IsZero() && node.unready() {
		node.unreadySince = f.unreadyStart(node)
	}
	if was == is {
		return
	}
	f.budgets.count(was, is)
	node.counts = is
	if is.ready != was.ready {
		queueTable.move(&node.queue, readinessChanged)
	}
	switch {
	case is.ready == model.True:
		f.recovered(node)
		return
	case was.ready == model.True && node.unready():
		f.addEvent(node, NodeNotReady, "Node %s status is now: NodeNotReady", node.name)
	}
	f.recovery.waiting.Remove(node.name)
}

// unreadyStart returns since when a node is unready: as the API shows it for one that
// is seen for the first time; the end of its grace period for a lost one; else now.
func (f *Fleet) unreadyStart(node *nodeState) time.Time {
	r := &node.object.Conditions[model.Ready]
	switch {
	case !node.counts.known && (r.Status == model.False || r.Status == model.Unknown):
		return notAfter(f.now, r.Transition)
	case node.health.lost():
		return notAfter(f.now, f.graceEnd(node))
	}
	return f.now
}

// graceEnd returns when a node's grace period ends without a further heartbeat.
func (f *Fleet) graceEnd(node *nodeState) time.Time {
	last, ok := f.heartbeats.Last(node.name)
	if !ok {
		return time.Time{}
	}
	if node.object.Conditions[model.Ready].Status == model.Absent {
		return last.Add(f.policy.Health.StartupGrace)
	}
	return last.Add(f.policy.Health.Grace)
}

// recovered resets what was decided about a node because it was unready.
func (f *Fleet) recovered(node *nodeState) {
	node.unreadySince, node.reportedSecondOpinion = time.Time{}, false
	healthTable.move(&node.health, readyAgain)
	node.resetMarks()
}
