package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// A Hold is why a node that died does not stand in its zone's queue.
type Hold uint8

// The holds. NotHeld is none.
const (
	NotHeld Hold = iota
	AllDisrupted
	TooManyUnready
	HeardAgain
	Autonomous
	AgentAlive
	BackingOff
	holds
)

var holdTexts = [holds]string{
	NotHeld:        "",
	AllDisrupted:   "every zone is fully disrupted",
	TooManyUnready: "more nodes are unready than is allowed",
	HeardAgain:     "it was heard again and is about to report how it fares",
	Autonomous:     "it is autonomous",
	AgentAlive:     "its kubelet is silent but its agent is alive",
	BackingOff:     "writing its taints failed",
}

// String says it for people, "" for NotHeld.
func (h Hold) String() string { return holdTexts[h] }

// hold says why a host does not stand in the queue, and until when that is so; a
// zero time if that is up to others.
func (f *Fleet) hold(h *host) (why Hold, until time.Time) {
	if why, until = f.spared(h); why != NotHeld {
		return why, until
	}
	switch {
	case f.budgets.full:
		return AllDisrupted, time.Time{}
	case f.budgets.strained:
		return TooManyUnready, time.Time{}
	case !h.spec.underWay() && h.spec.from.After(f.now):
		return BackingOff, h.spec.from
	}
	return f.opinion(h)
}

// spared says why nothing happens to the pods of a host that is not heard of:
// they are not even marked.
func (f *Fleet) spared(h *host) (why Hold, until time.Time) {
	if !h.bySilence() {
		return NotHeld, time.Time{}
	}
	if heard, until := f.revived(h); heard {
		return HeardAgain, until
	}
	if until, ever := f.autonomy(h); ever || until.After(f.now) {
		return Autonomous, until
	}
	return NotHeld, time.Time{}
}

// revived reports whether a host whose Ready is Unknown was heard within its
// grace: it is about to write it itself. Until when is zero if that is up to it.
func (f *Fleet) revived(h *host) (heard bool, until time.Time) {
	switch until = f.death(h); {
	case !h.bySilence():
		return false, time.Time{}
	case h.heard:
		return true, time.Time{}
	}
	return until.After(f.now), until
}

// opinion asks the host's agent.
func (f *Fleet) opinion(h *host) (why Hold, until time.Time) {
	if f.policy.SecondOpinion <= 0 || !h.bySilence() {
		return NotHeld, time.Time{}
	}
	last := notAfter(f.now, h.view.Conditions[model.Ready].Transition).Add(f.policy.SecondOpinion)
	silent, heard := f.agents.SilentAt(h.name)
	if !heard || !silent.After(f.now) || !last.After(f.now) {
		return NotHeld, time.Time{}
	}
	return AgentAlive, earliest(last, silent)
}

// autonomy is until when a host's pods stay though it is not heard of; ever says
// that they always do.
func (f *Fleet) autonomy(h *host) (until time.Time, ever bool) {
	lasts := min(h.object.Autonomy, f.policy.AutonomyLongest)
	last, ok := f.health.Last(h.name)
	if lasts <= 0 || !ok {
		return time.Time{}, false
	}
	if lasts == model.Forever {
		return time.Time{}, true
	}
	return last.Add(lasts), false
}

// paused reports whether the host's zone is disrupted, and evictions wait for
// that to end.
func (f *Fleet) paused(h *host) bool {
	if !f.policy.PauseDisrupted {
		return false
	}
	state, _ := f.zones.State(h.place())
	return state != zones.Normal
}
