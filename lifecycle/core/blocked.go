package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// Block is the reason why an unready node is not in the queue of its zone.
type Block uint8

// The reasons. NotBlocked is none.
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
	HeartbeatResumed: "its heartbeat resumed; the next status report is awaited",
	Autonomous:       "it is autonomous",
	AgentAlive:       "its kubelet is silent but its agent is alive",
	BackingOff:       "writing its taints failed",
}

// String returns the reason in words, "" for NotBlocked.
func (h Block) String() string { return blockTexts[h] }

// blockedBy returns why a node is not in the queue, and until when; zero if no time
// ends that.
func (f *Fleet) blockedBy(node *nodeState) (why Block, until time.Time) {
	if why, until = f.markingBlockedBy(node); why != NotBlocked {
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

// markingBlockedBy returns why the pods of an unreachable node are not even marked, and until
// when; zero if no time ends that.
func (f *Fleet) markingBlockedBy(node *nodeState) (why Block, until time.Time) {
	if !node.unknownBySilence() {
		return NotBlocked, time.Time{}
	}
	if resumed, until := f.heartbeatResumed(node); resumed {
		return HeartbeatResumed, until
	}
	if until, ever := f.autonomy(node); ever || until.After(f.now) {
		return Autonomous, until
	}
	return NotBlocked, time.Time{}
}

// heartbeatResumed reports whether a heartbeat was received within the grace period of
// an Unknown node: its kubelet is about to report Ready. until is zero if no
// time ends that.
func (f *Fleet) heartbeatResumed(node *nodeState) (resumed bool, until time.Time) {
	switch until = f.graceEnd(node); {
	case !node.unknownBySilence():
		return false, time.Time{}
	case node.health.resumed():
		return true, time.Time{}
	}
	return until.After(f.now), until
}

// secondOpinion reports whether the node's agent is alive, for as long as the policy
// lets it block evictions.
func (f *Fleet) secondOpinion(node *nodeState) (why Block, until time.Time) {
	if f.policy.AgentAliveGrace <= 0 || !node.unknownBySilence() {
		return NotBlocked, time.Time{}
	}
	last := notAfter(f.now, node.view.Conditions[model.Ready].Transition).Add(f.policy.AgentAliveGrace)
	silent, known := f.agents.ExpiresAt(node.name)
	if !known || !silent.After(f.now) || !last.After(f.now) {
		return NotBlocked, time.Time{}
	}
	return AgentAlive, earliest(last, silent)
}

// autonomy returns until when the pods of an unreachable node stay; ever reports that
// they always do.
func (f *Fleet) autonomy(node *nodeState) (until time.Time, ever bool) {
	period := min(node.object.Autonomy, f.policy.MaxAutonomy)
	last, ok := f.heartbeats.Last(node.name)
	if period <= 0 || !ok {
		return time.Time{}, false
	}
	if period == model.Forever {
		return time.Time{}, true
	}
	return last.Add(period), false
}

// paused reports whether evictions of the node's pods wait for the end of a disruption
// of its zone.
func (f *Fleet) paused(node *nodeState) bool {
	if !f.policy.PauseDisrupted {
		return false
	}
	state, _ := f.zones.State(node.place())
	return state != zones.Normal
}
