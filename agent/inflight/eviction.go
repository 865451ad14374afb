package inflight

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

const (
	// FreeTimeout bounds the wait for memory to be freed after a kill. It equals the
	// kubelet's timeout for the cleanup of an evicted pod.
	FreeTimeout = 30 * time.Second
	// UnmountTimeout bounds the wait for memory once a pod's processes are gone: files of
	// emptyDir volumes in memory and of /dev/shm are charged until they are unmounted,
	// which takes about a second after the pod's status or its end is known.
	UnmountTimeout = 3 * time.Second
	// EscalationTimeout bounds the wait for the pod of an escalated soft eviction.
	EscalationTimeout = 2 * time.Second
)

// Recovered is the reason why a wait ended because its threshold is no longer met.
const Recovered = "recovered"

// Eviction is one pod in eviction: its cause, its state, and the expected effect. It is owned by
// one goroutine.
type Eviction struct {
	Decided           *eviction.Eviction // the decision
	DecidedAt         time.Time
	Signal            signals.Signal // the signal to relieve; unused above a local-storage limit
	AboveStorageLimit bool           // the pod exceeded its local-storage limit: there is no signal to wait for
	AvailableBefore   signals.Amount // the amount of the signal at the decision

	state    State
	verdict  eviction.Verdict // the cause of the eviction
	expected signals.Amount   // measured usage of the pod
	// exitedAt is when the processes were found to have exited. Before that, it is the time of the
	// decision, or that of a failed kill or of the result of a soft eviction with remaining processes.
	exitedAt     time.Time
	deadline     time.Time       // of the wait; zero: no bound
	escalatedAt  time.Time       // zero: not escalated
	finishedAt   time.Time       // when the loop sent SIGKILL itself, or tried to; zero: it has not
	finishFailed bool            // that attempt failed
	killFailed   bool            // no process was sent SIGKILL
	unmountWait  time.Duration   // wait for unmounting, if longer than UnmountTimeout
	rest         <-chan struct{} // closed when the remaining processes are gone; nil: nothing reports it
}

// New returns an eviction decided at the given time.
func New(e *eviction.Eviction, now time.Time) *Eviction {
	return &Eviction{Decided: e, DecidedAt: now, exitedAt: now, deadline: now.Add(FreeTimeout)}
}

// State returns the present state.
func (e *Eviction) State() State { return e.state }

// Expect sets the effect to wait for: the threshold of the verdict, the amount available before,
// and the measured usage of the pod.
func (e *Eviction) Expect(v *eviction.Verdict, before, used signals.Amount) {
	e.verdict, e.Signal, e.AvailableBefore, e.expected = *v, v.Target.Signal, before, used
}

// ExpectNoSignal sets that there is no signal to wait for: the pod was above its own local-storage
// limit.
func (e *Eviction) ExpectNoSignal(v *eviction.Verdict) { e.verdict, e.AboveStorageLimit = *v, true }

// Skip marks an eviction that a disarmed agent did not carry out.
func (e *Eviction) Skip() { e.move(Skip) }

// Terminate begins a soft eviction with its grace period. Without a bound, the API server's
// answer determines its duration.
func (e *Eviction) Terminate(grace time.Duration, bounded bool) {
	e.move(Terminate)
	e.deadline = e.deadline.Add(grace)
	if !bounded {
		e.deadline = time.Time{}
	}
}

// Escalate shortens the grace period of a soft eviction, and reports whether it did. After the
// timeout, the wait for its processes ends.
func (e *Eviction) Escalate(now time.Time) bool {
	if !e.move(Escalate) {
		return false
	}
	e.escalatedAt, e.deadline = now, now.Add(EscalationTimeout)
	return true
}

// NoteFinish records that the loop has sent SIGKILL itself, or has tried to.
func (e *Eviction) NoteFinish(now time.Time, failed bool) {
	e.move(Finish)
	e.finishedAt, e.finishFailed = now, failed
}

// NoteKill records the result of a kill: whether processes remain, and the channel that reports
// their end, if any.
func (e *Eviction) NoteKill(now time.Time, remain bool, rest <-chan struct{}) {
	if remain {
		e.move(Remain)
		e.rest = rest
		return
	}
	e.move(Exit)
	e.exitedAt = now
}

// NoteFailedKill records that no process could be killed, although the API server has recorded the
// eviction: the kubelet may end the pod.
func (e *Eviction) NoteFailedKill(now time.Time) {
	e.NoteKill(now, true, nil)
	e.killFailed, e.exitedAt, e.deadline = true, now, now.Add(FreeTimeout)
}

// AwaitUnmount extends the wait for memory of a pod without processes.
func (e *Eviction) AwaitUnmount(d time.Duration) { e.unmountWait = d }

// Replace continues a soft eviction as a part of a hard one of the same pod. Only one of the two
// is counted, and the wait for the pod's memory goes on.
func (e *Eviction) Replace(by *Eviction, now time.Time) {
	e.NoteKill(by.exitedAt, by.state == Exiting, by.rest)
	e.exitedAt, e.deadline = by.exitedAt, now.Add(FreeTimeout)
}

// NoteSoftResult records the result of a soft eviction that has ended its pod. A deadline is kept.
// A withdrawn or failed one has no further state: it is removed from the [Set] instead.
func (e *Eviction) NoteSoftResult(now time.Time, remain bool) {
	if e.deadline.IsZero() {
		e.deadline = now.Add(FreeTimeout)
	}
	e.NoteKill(now, remain, nil)
	e.exitedAt = now
}

// PollExit records the exit of the remaining processes, if it has been reported.
func (e *Eviction) PollExit(now time.Time) {
	select {
	case <-e.rest:
		e.NoteKill(now, false, nil)
		e.rest = nil
	default:
	}
}

// Deadline returns the latest end of the wait, or zero without a bound.
func (e *Eviction) Deadline() time.Time { return e.deadline }

// Reason explains why no other pod is chosen meanwhile.
func (e *Eviction) Reason() string {
	return "memory or disk space of " + e.Decided.Pod.Key() + " is still being freed"
}

// Holds reports whether the eviction blocks action for a threshold: one of the same condition,
// and every soft one, since only one soft eviction runs at a time. A nil threshold stands for
// local-storage limits. They wait for disk space that is being freed, but not for a pod in its
// grace period, which a PodDisruptionBudget may refuse to evict indefinitely.
func (e *Eviction) Holds(t *eviction.Threshold) bool {
	switch {
	case t == nil:
		return e.AboveStorageLimit || e.OfDisk() && !e.state.Soft()
	case e.AboveStorageLimit:
		return t.Signal.Definition().Condition == signals.DiskPressure
	}
	return t.Signal.Definition().Condition == e.Signal.Definition().Condition || !e.Decided.Hard && !t.Hard()
}

// OfDisk reports whether the eviction frees disk space. Space is freed when layers, logs and
// volumes are removed, well after the processes have exited.
func (e *Eviction) OfDisk() bool {
	return !e.AboveStorageLimit && e.Signal.Definition().Condition == signals.DiskPressure
}

// Hangs reports whether an escalated soft eviction takes longer than a kill would, because of the
// API server or of busy processors. A check with imminent exhaustion does not wait for it.
func (e *Eviction) Hangs(now time.Time) bool {
	return (e.state == Escalated || e.state == Finishing) && now.Sub(e.escalatedAt) >= eviction.ReactionTime
}

// FinishDue reports whether the loop has not tried yet to send SIGKILL itself.
func (e *Eviction) FinishDue() bool { return e.finishedAt.IsZero() }

// AwaitsFinish reports whether to wait for the effect of the loop's SIGKILL, until a rate can be
// measured again.
func (e *Eviction) AwaitsFinish(now time.Time) bool {
	if e.finishedAt.Equal(now) {
		return !e.finishFailed
	}
	return now.Sub(e.finishedAt) < eviction.ReactionTime
}

// Unmounting reports whether memory may still be freed after the exit of the processes. It is
// called for evictions without remaining processes.
func (e *Eviction) Unmounting(now time.Time) bool {
	return !e.AboveStorageLimit && e.Signal.OfMemory() && e.expected > 0 && now.Sub(e.exitedAt) < max(e.unmountWait, UnmountTimeout)
}

// EndReason returns why the wait has ended, and an empty string if it has not. Memory that would be
// exhausted within the horizon ends it early.
func (e *Eviction) EndReason(m *eviction.Machine, s *signals.Snapshot, horizon time.Duration) string {
	o, late := &s.Node[e.Signal], !e.deadline.IsZero() && !s.At.Before(e.deadline)
	switch {
	case e.state.Soft() && !late:
		return ""
	case e.state.Soft():
		return "not ended in time"
	case !e.AboveStorageLimit && !m.StillMet(&e.verdict, &s.Node):
		return Recovered
	case e.state == DryRun && !late:
		return ""
	case e.state == DryRun:
		return "disarmed"
	case e.state != Exiting && !e.OfDisk() && !e.Unmounting(s.At):
		return "ended"
	case late:
		return "not freed in time"
	case e.expected > 0 && o.Known && o.Available-e.AvailableBefore >= e.expected/2:
		return "freed"
	case e.pressed(s, horizon):
		return "no time left to wait"
	}
	return ""
}

// Unneeded reports whether a soft eviction has become unnecessary: its threshold is no
// longer met.
func (e *Eviction) Unneeded(m *eviction.Machine, s *signals.Snapshot) bool {
	return e.state.Soft() && !m.StillMet(&e.verdict, &s.Node)
}

// pressed reports whether memory leaves no time to wait: it would be exhausted within the horizon
// or, unless killed processes are about to free it, is exhausted. This applies to the memory of the node and to
// allocatable memory alike, whichever of them the eviction frees.
func (e *Eviction) pressed(s *signals.Snapshot, horizon time.Duration) bool {
	if s.At.Sub(e.exitedAt) < eviction.ReactionTime {
		return false
	}
	for sig := range signals.All {
		o := &s.Node[sig]
		if sig != e.Signal && !(sig.OfMemory() && e.Signal.OfMemory()) {
			continue
		}
		if s.Rates[sig].Within(o.Headroom(), horizon) || (e.state != Exiting || e.killFailed) && sig.OfMemory() && o.Known && o.Headroom() <= 0 {
			return true
		}
	}
	return false
}
