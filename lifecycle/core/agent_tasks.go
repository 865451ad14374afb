package core

import "plimsoll.dev/plimsoll/lifecycle/agents"

// agentActions appends what the agents of nodes asked for, or left behind.
func (f *Fleet) agentActions(out []Action) []Action {
	for _, t := range f.agents.Act(f.now) {
		a := Action{Kind: CleanUpAgent, Node: t.ClearNode, at: f.now}
		if t.EvictPod != nil {
			a.Kind, a.Node, a.Pod = SoftEvict, t.EvictPod.Node, t.EvictPod
		}
		if node := f.nodes[a.Node]; node != nil {
			a.Object = node.object
		}
		f.lastID++
		a.id = f.lastID
		f.agentTasks[a.id] = t
		out = append(out, a)
	}
	return out
}

func (f *Fleet) finishTask(a *Action, err error) {
	t, is := f.agentTasks[a.id]
	if !is {
		return
	}
	delete(f.agentTasks, a.id)
	f.agents.Finished(t, err, f.now)
	if f.dryRun && err == nil && a.Kind == CleanUpAgent {
		f.simulateCleanup(f.nodes[a.Node], f.now)
	}
}

// taskObsolete reports whether a request of an agent was withdrawn, or a cleanup after
// one is not needed any more.
func (f *Fleet) taskObsolete(a *Action) bool {
	t := f.agentTasks[a.id]
	if t == (agents.Task{}) {
		return true
	}
	alive := f.agents.Alive(a.Node, f.now)
	if a.Kind == CleanUpAgent {
		return alive
	}
	p := f.pods[a.Pod.UID]
	return !alive || p == nil || p.object.Requested == nil || p.object.Deleting
}
