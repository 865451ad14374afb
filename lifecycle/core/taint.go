package core

import (
	"slices"

	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/taints"
)

// updateQueues puts touched nodes into the queues of their zones or removes them, and
// grants the tokens that are available.
func (f *Fleet) updateQueues() {
	for _, node := range f.touched.nodes {
		f.requeue(node)
	}
	for names := f.zones.Take(f.now); len(names) > 0; names = f.zones.Take(f.now) {
		for _, name := range names {
			node := f.nodes[name]
			queueTable.move(&node.queue, tokenGranted)
			f.touch(node)
			if f.policy.LegacyEvictions {
				f.evictAllPods(node)
			}
		}
	}
}

// requeue puts a node into its zone's queue if it needs a token and could use one, and
// removes it otherwise.
func (f *Fleet) requeue(node *nodeState) {
	if node.object == nil {
		return
	}
	// While its taints are being written it could not use a token, and one that is saved
	// for later would exceed the rate then.
	if why, _ := f.blockedBy(node); why != NotBlocked || node.taintWrite.underWay() || !f.needsToken(node) {
		if why == AgentAlive && !node.reportedSecondOpinion {
			node.reportedSecondOpinion = true
			f.addEvent(node, SecondOpinion, "Kubelet of node %s is silent, but its Plimsoll agent is alive", node.name)
		}
		f.dequeue(node)
		return
	}
	f.zones.Wait(node.name, node.unreadySince)
	queueTable.move(&node.queue, enqueued)
}

// dequeue removes a node from its zone's queue.
func (f *Fleet) dequeue(node *nodeState) {
	if queueTable.move(&node.queue, dequeued) {
		f.zones.Leave(node.name)
	}
}

// needsToken reports whether a token of its zone is what a node lacks.
func (f *Fleet) needsToken(node *nodeState) bool {
	switch {
	case !node.unready():
		return false
	case f.policy.NoExecute:
		return !node.hasNoExecute()
	}
	return f.policy.LegacyEvictions && f.legacyDue(node)
}

// changeTaints appends the write of a node's taints and labels, if there is one to make
// and it may start.
func (f *Fleet) changeTaints(node *nodeState, out []Action) []Action {
	if node.object == nil || !node.taintWrite.mayStart(f.now) {
		return out
	}
	change := taints.Scheduling(node.view, f.now)
	if why, _ := f.markingBlockedBy(node); why == HeartbeatResumed {
		change.Add = slices.DeleteFunc(change.Add, func(t model.Taint) bool { return t.Key == model.KeyUnreachable })
	}
	labels := taints.Labels(&node.view.Labels)
	execution, spends := f.noExecuteChange(node)
	if change.Empty() && execution.Empty() && len(labels) == 0 {
		return out
	}
	node.restoreTimeAdded(execution.Add)
	a := f.newWrite(Taint, node, &node.taintWrite)
	a.Add = append(change.Add, execution.Add...)
	a.Remove = append(change.Remove, execution.Remove...)
	a.Labels = labels
	node.taintWrite.noExecute, node.taintWrite.spends, a.spends = !execution.Empty(), spends, spends
	node.taintWrite.freshKey = a.freshKey(execution.Add)
	queueTable.move(&node.queue, tokenSpent)
	f.dequeue(node) // until this is written; see requeue
	return append(out, a)
}

// noExecuteChange returns the change of a node's NoExecute taints, and whether that
// spends its token.
func (f *Fleet) noExecuteChange(node *nodeState) (change taints.Change, spends bool) {
	if !f.policy.NoExecute {
		return change, false
	}
	switch want := model.KeyOf(node.ready()); {
	case f.budgets.allDisrupted:
		return taints.Execution(node.view, "", f.now), false
	case node.ready() == model.Absent:
		return change, false
	case node.ready() == model.True:
		return f.untaint(node), false
	case node.hasNoExecute():
		if why, _ := f.markingBlockedBy(node); why == NotBlocked {
			change = taints.Execution(node.view, want, f.now)
		}
		return change, false
	case node.queue == stateTokenGranted:
		return taints.Execution(node.view, want, f.now), true
	}
	return change, false
}

// untaint returns the removal of the NoExecute taints of a ready node, unless the rate
// of recoveries delays it.
func (f *Fleet) untaint(node *nodeState) (change taints.Change) {
	change = taints.Execution(node.view, "", f.now)
	if change.Empty() {
		queueTable.move(&node.queue, untainted)
		return change
	}
	if !f.recovery.limited || node.queue == stateUntaintAllowed {
		return change
	}
	if _, waits := f.recovery.waiting.At(node.name); !waits {
		f.recovery.waiting.Set(node.name, f.now)
	}
	return taints.Change{}
}
