package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// A Block is why a node that died does not stand in its zone's queue.
type Block uint8

// The holds. NotHeld is none.
const (
	NotBlocked Block = iota
	AllDisrupted
	TooManyUnready
	HeartbeatResumed
	Autonomous
	AgentAlive
	BackingOff
	blocks
)

var blockTexts = [blocks]string{
	NotBlocked:       "",
	AllDisrupted:     "every zone is fully disrupted",
	TooManyUnready:   "more nodes are unready than is allowed",
	HeartbeatResumed: "it was heard again and is about to report how it fares",
	Autonomous:       "it is autonomous",
	AgentAlive:       "its kubelet is silent but its agent is alive",
	BackingOff:       "writing its taints failed",
}

// String says it for people, "" for NotHeld.
func (h Block) String() string { return blockTexts[h] }

// blockedBy says why a host does not stand in the queue, and until when that is so; a
// zero time if that is up to others.
func (f *Fleet) blockedBy(node *nodeState) (why Block, until time.Time) {
	if why, until = f.sparedBy(node); why != NotBlocked {
		return why, until
	}
	switch {
	case f.budgets.allDisrupted:
		return AllDisrupted, time.Time{}
	case f.budgets.exceeded:
		return TooManyUnready, time.Time{}
	case !node.taintWrite.underWay() && node.taintWrite.notBefore.After(f.now):
		return BackingOff, node.taintWrite.notBefore
	}
	return f.secondOpinion(node)
}

// sparedBy says why nothing happens to the pods of a host that is not heard of:
// they are not even marked.
func (f *Fleet) sparedBy(node *nodeState) (why Block, until time.Time) {
	if !node.unknownBySilence() {
		return NotBlocked, time.Time{}
	}
	if heard, until := f.heartbeatResumed(node); heard {
		return HeartbeatResumed, until
	}
	if until, ever := f.autonomy(node); ever || until.After(f.now) {
		return Autonomous, until
	}
	return NotBlocked, time.Time{}
}

// heartbeatResumed reports whether a host whose Ready is Unknown was heard within its
// grace: it is about to write it itself. Until when is zero if that is up to it.
func (f *Fleet) heartbeatResumed(node *nodeState) (heard bool, until time.Time) {
	switch until = f.graceEnd(node); {
	case !node.unknownBySilence():
		return false, time.Time{}
	case node.health.resumed():
		return true, time.Time{}
	}
	return until.After(f.now), until
}

// secondOpinion asks the host's agent.
func (f *Fleet) secondOpinion(node *nodeState) (why Block, until time.Time) {
	if f.policy.SecondOpinion <= 0 || !node.unknownBySilence() {
		return NotBlocked, time.Time{}
	}
	last := notAfter(f.now, node.view.Conditions[model.Ready].Transition).Add(f.policy.SecondOpinion)
	silent, heard := f.agents.SilentAt(node.name)
	if !heard || !silent.After(f.now) || !last.After(f.now) {
		return NotBlocked, time.Time{}
	}
	return AgentAlive, earliest(last, silent)
}

// autonomy is until when a host's pods stay though it is not heard of; ever says
// that they always do.
func (f *Fleet) autonomy(node *nodeState) (until time.Time, ever bool) {
	lasts := min(node.object.Autonomy, f.policy.AutonomyLongest)
	last, ok := f.heartbeats.Last(node.name)
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
func (f *Fleet) paused(node *nodeState) bool {
	if !f.policy.PauseDisrupted {
		return false
	}
	state, _ := f.zones.State(node.place())
	return state != zones.Normal
}
