package core

import (
	"slices"

	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/taints"
)

// queue says who waits for a turn in its zone, and takes those whose turn it is.
func (f *Fleet) queue() {
	for _, h := range f.touch.hosts {
		f.lineUp(h)
	}
	for names := f.zones.Take(f.now); len(names) > 0; names = f.zones.Take(f.now) {
		for _, name := range names {
			h := f.hosts[name]
			h.waiting, h.turn = false, true
			f.look(h)
			if f.policy.LegacyEvictions {
				f.emptyOut(h)
			}
		}
	}
}

// lineUp puts a host into its zone's queue, or takes it out, by whether it has
// anything to wait for.
func (f *Fleet) lineUp(h *host) {
	if h.object == nil {
		return
	}
	// While its taints are being written it could not use a token, and who keeps one
	// for later exceeds the rate then.
	if why, _ := f.hold(h); why != NotHeld || h.spec.underWay() || !f.wantsTurn(h) {
		if why == AgentAlive && !h.opined {
			h.opined = true
			f.tell(h, SecondOpinion, "Kubelet of node %s is silent, but its Plimsoll agent is alive", h.name)
		}
		f.withdraw(h)
		return
	}
	f.zones.Wait(h.name, h.since)
	h.waiting = true
}

// withdraw takes a host out of the queue.
func (f *Fleet) withdraw(h *host) {
	if h.waiting {
		f.zones.Leave(h.name)
	}
	h.waiting = false
}

// wantsTurn reports whether a token of its zone is what a host lacks.
func (f *Fleet) wantsTurn(h *host) bool {
	switch {
	case !h.unready():
		return false
	case f.policy.NoExecute:
		return !h.bears()
	}
	return f.policy.LegacyEvictions && f.ripe(h)
}

// retaint returns what is to change of a host's taints and labels, if that can be
// written now.
func (f *Fleet) retaint(h *host, out []Action) []Action {
	if h.object == nil || !h.spec.may(f.now) {
		return out
	}
	change := taints.Scheduling(h.view, f.now)
	if why, _ := f.spared(h); why == HeardAgain {
		change.Add = slices.DeleteFunc(change.Add, func(t model.Taint) bool { return t.Key == model.KeyUnreachable })
	}
	labels := taints.Labels(&h.view.Labels)
	execution, spends := f.execution(h)
	if change.Empty() && execution.Empty() && len(labels) == 0 {
		return out
	}
	h.stamp(execution.Add)
	a := f.write(Taint, h, &h.spec)
	a.Add = append(change.Add, execution.Add...)
	a.Remove = append(change.Remove, execution.Remove...)
	a.Labels = labels
	h.spec.execution, h.spec.spends, a.spends = !execution.Empty(), spends, spends
	h.spec.fresh = a.freshKey(execution.Add)
	h.turn = false
	f.withdraw(h) // until this is written; see lineUp
	return append(out, a)
}

// execution is how a host's NoExecute taints are to change now, and whether that
// spends its token.
func (f *Fleet) execution(h *host) (change taints.Change, spends bool) {
	if !f.policy.NoExecute {
		return change, false
	}
	switch want := model.KeyOf(h.ready()); {
	case f.budgets.full:
		return taints.Execution(h.view, "", f.now), false
	case h.ready() == model.Absent:
		return change, false
	case h.ready() == model.True:
		return f.untaint(h), false
	case h.bears():
		if why, _ := f.spared(h); why == NotHeld {
			change = taints.Execution(h.view, want, f.now)
		}
		return change, false
	case h.turn:
		return taints.Execution(h.view, want, f.now), true
	}
	return change, false
}

// untaint removes the NoExecute taints of a host that recovered, if it need not
// wait for others to do so first.
func (f *Fleet) untaint(h *host) (change taints.Change) {
	change = taints.Execution(h.view, "", f.now)
	if change.Empty() {
		h.freed = false
		return change
	}
	if !f.recovery.spreading || h.freed {
		return change
	}
	if _, waits := f.recovery.waiting.At(h.name); !waits {
		f.recovery.waiting.Set(h.name, f.now)
	}
	return taints.Change{}
}
