package core

import "plimsoll.dev/plimsoll/lifecycle/agents"

// ask returns what is to be done for the agents on the nodes.
func (f *Fleet) ask(out []Action) []Action {
	for _, t := range f.agents.Act(f.now) {
		a := Action{Kind: ClearAgent, Node: t.ClearNode, at: f.now}
		if t.EvictPod != nil {
			a.Kind, a.Node, a.Pod = SoftEvict, t.EvictPod.Node, t.EvictPod
		}
		if h := f.hosts[a.Node]; h != nil {
			a.Object = h.object
		}
		f.lastID++
		a.id = f.lastID
		f.tasks[a.id] = t
		out = append(out, a)
	}
	return out
}

func (f *Fleet) finishTask(a *Action, err error) {
	t, is := f.tasks[a.id]
	if !is {
		return
	}
	delete(f.tasks, a.id)
	f.agents.Finished(t, err, f.now)
}

// unasked reports whether what an agent asked for, or left, need not be done any
// more.
func (f *Fleet) unasked(a *Action) bool {
	t := f.tasks[a.id]
	if t == (agents.Task{}) {
		return true
	}
	alive := f.agents.Alive(a.Node, f.now)
	if a.Kind == ClearAgent {
		return alive
	}
	p := f.pods[a.Pod.UID]
	return !alive || p == nil || p.facts.Asked == nil || p.facts.Deleting
}
