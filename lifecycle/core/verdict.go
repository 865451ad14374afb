package core

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// What is said with conditions that become Unknown.
const (
	neverPosted   = "Kubelet never posted node status."
	stoppedPosted = "Kubelet stopped posting node status."
	agentLives    = " The node's Plimsoll agent is alive: its pods stay for the time being."
)

// weigh finds who fell silent and who of them is dead, and asks for the reads
// that it takes to know.
func (f *Fleet) weigh() (reads []Action) {
	for _, name := range f.health.Silent(f.now) {
		if h := f.hosts[name]; h != nil && h.object != nil {
			f.suspect(h)
		}
	}
	findings := f.evidence.Decide(f.nodes, f.now)
	if !findings.Floor.IsZero() {
		f.health.NotBefore(findings.Floor)
	}
	for _, name := range findings.Dead {
		f.lose(f.hosts[name])
	}
	for _, name := range findings.Read {
		reads = append(reads, Action{Kind: ReadLease, Node: name, at: f.now})
	}
	f.watchBreaker()
	return reads
}

// suspect takes in that a host is silent. It takes no evidence if the API says so
// already: whoever wrote that had it, and what is old news is no storm.
func (f *Fleet) suspect(h *host) {
	h.silent = true
	f.silent[h.name] = h
	if h.bySilence() && !h.heard {
		f.lose(h)
		return
	}
	f.evidence.Suspect(h.name, f.now)
	f.look(h)
}

// lose is the verdict: a silent host is dead.
func (f *Fleet) lose(h *host) {
	h.heard = false
	if !h.lost {
		h.lost, h.fell, h.word = true, f.now, h.object.Conditions[model.Ready]
	}
	f.look(h)
}

// judge brings what is believed of a host up to date, counts it, and returns its
// conditions if they are to be written.
func (f *Fleet) judge(h *host, out []Action) []Action {
	if h.object == nil {
		return out
	}
	h.doubt(f.now)
	if h.lost && h.reprieved() {
		h.lost = false
	}
	h.see()
	f.count(h)
	if h.ready() != model.True || h.bears() {
		f.concerned[h.name] = h
	} else {
		delete(f.concerned, h.name)
	}
	if h.lost && h.silent && h.status.may(f.now) {
		if conditions := f.toSilence(h); len(conditions) > 0 {
			a := f.write(Silence, h, &h.status)
			a.Conditions = conditions
			out = append(out, a)
		}
	}
	return out
}

// reprieved reports whether a host was heard again before anybody was told that
// it was lost. After that it takes a Ready that it writes itself.
func (h *host) reprieved() bool {
	believed := func(b belief) bool { return b.action.Kind == Silence }
	return !h.silent && !h.status.underWay() && !slices.ContainsFunc(h.beliefs, believed) &&
		h.object.Conditions[model.Ready].Status != model.Unknown
}

// toSilence are the conditions that are not Unknown in the API yet.
func (f *Fleet) toSilence(h *host) (conditions []Silenced) {
	for t := range model.Silenced {
		c := &h.object.Conditions[t]
		wrote := func(b belief) bool {
			return slices.ContainsFunc(b.action.Conditions, func(s Silenced) bool { return s.Type == t })
		}
		if c.Status == model.Unknown || slices.ContainsFunc(h.beliefs, wrote) {
			continue
		}
		s := Silenced{t, model.ReasonStatusUnknown, stoppedPosted}
		if c.Status == model.Absent {
			s.Reason, s.Message = model.ReasonStatusNeverUpdated, neverPosted
		}
		if f.policy.SecondOpinion > 0 && f.agents.Alive(h.name, f.now) {
			s.Message += agentLives
		}
		conditions = append(conditions, s)
	}
	return conditions
}

// count says to zones and budgets what the host is, and keeps since when it is
// not ready.
func (f *Fleet) count(h *host) {
	was, is := h.stands, standing{h.ready(), !h.object.Labels.Excluded, true}
	f.zones.Set(h.name, h.place(), is.ready == model.True, is.counted)
	if h.since.IsZero() && h.unready() {
		h.since = f.onset(h)
	}
	if was == is {
		return
	}
	f.budgets.count(was, is)
	h.stands = is
	h.evicted = h.evicted && is.ready == was.ready // else it has a new time to run out
	switch {
	case is.ready == model.True:
		f.recover(h)
		return
	case was.ready == model.True && h.unready():
		f.tell(h, NodeNotReady, "Node %s status is now: NodeNotReady", h.name)
	}
	h.freed = false
	f.recovery.waiting.Remove(h.name)
}

// onset is since when a host is not ready: what the API says of one that is seen
// for the first time, as it was decided then; the end of its grace for one that
// was lost; and now for one that says so itself.
func (f *Fleet) onset(h *host) time.Time {
	r := &h.object.Conditions[model.Ready]
	switch {
	case !h.stands.known && (r.Status == model.False || r.Status == model.Unknown):
		return notAfter(f.now, r.Transition)
	case h.lost:
		return notAfter(f.now, f.death(h))
	}
	return f.now
}

// death is when a host's grace is over, if it is not heard of again.
func (f *Fleet) death(h *host) time.Time {
	last, ok := f.health.Last(h.name)
	if !ok {
		return time.Time{}
	}
	if h.object.Conditions[model.Ready].Status == model.Absent {
		return last.Add(f.policy.Health.StartupGrace)
	}
	return last.Add(f.policy.Health.Grace)
}

// recover ends what was decided about a host's pods because it was not ready.
func (f *Fleet) recover(h *host) {
	h.since, h.evicted, h.opined, h.heard = time.Time{}, false, false, false
	h.unmark()
}
