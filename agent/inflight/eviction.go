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

// An Eviction is one pod on its way out: what it was evicted for, and what is waited
// for. It is owned by one goroutine.
type Eviction struct {
	Of     *eviction.Eviction
	Signal signals.Signal // that it frees; of no meaning for one above a local-storage limit
	Limit  bool           // for a local-storage limit: no signal is waited for
	Before signals.Amount // available when the eviction was decided
	Since  time.Time      // when it was decided

	state    State
	verdict  eviction.Verdict // what the eviction was for
	expected signals.Amount   // what the pod was measured to use
	gone     time.Time        // when its processes were found to be gone
	deadline time.Time        // zero: no bound
	unmount  time.Duration    // the wait for unmounting, where it is longer than UnmountTimeout
	rest     <-chan struct{}  // closed when the remaining processes are gone; nil: nothing reports it
	finish   finish
}

// A finish is a SIGKILL that the loop has sent itself.
type finish struct {
	at     time.Time
	failed bool
}

// New returns an eviction that was decided at a time.
func New(e *eviction.Eviction, now time.Time) *Eviction {
	return &Eviction{Of: e, Since: now, gone: now, deadline: now.Add(FreeTimeout)}
}

// State returns where the eviction stands.
func (e *Eviction) State() State { return e.state }

// move applies an event and reports whether it changed the state.
func (e *Eviction) move(event Event) bool {
	to, ok := e.state.Next(event)
	if ok {
		e.state = to
	}
	return ok
}

// Expect sets what is waited for: the threshold of the verdict, by what was available
// and what the pod was measured to use then.
func (e *Eviction) Expect(v *eviction.Verdict, before, used signals.Amount) {
	e.verdict, e.Signal, e.Before, e.expected = *v, v.Target.Signal, before, used
}

// ExpectLimit sets that no signal is waited for: the pod was above a limit of its own.
func (e *Eviction) ExpectLimit(v *eviction.Verdict) { e.verdict, e.Limit = *v, true }

// Skip marks an eviction that a disarmed agent did not carry out.
func (e *Eviction) Skip() { e.move(Skip) }

// Terminate begins a soft eviction with its grace period. Without a bound it takes as
// long as the API server's answer says.
func (e *Eviction) Terminate(grace time.Duration, bounded bool) {
	e.move(Terminate)
	e.deadline = e.deadline.Add(grace)
	if !bounded {
		e.deadline = time.Time{}
	}
}

// Escalate cuts the grace period of a soft eviction short, and reports whether it did.
// What is not gone by the timeout is no longer waited for.
func (e *Eviction) Escalate(now time.Time) bool {
	if !e.move(Escalate) {
		return false
	}
	e.deadline = now.Add(EscalationTimeout)
	return true
}

// Finished notes that the loop has sent SIGKILL itself, or failed to.
func (e *Eviction) Finished(now time.Time, failed bool) {
	e.move(Finish)
	e.finish = finish{now, failed}
}

// Exits notes the result of a kill at a time: processes that remain, of which rest
// reports the end, or none.
func (e *Eviction) Exits(now time.Time, remain bool, rest <-chan struct{}) {
	if remain {
		e.move(Remain)
		e.rest = rest
		return
	}
	e.move(Exit)
	e.gone = now
}

// AwaitUnmount extends the wait for memory of a pod without processes.
func (e *Eviction) AwaitUnmount(d time.Duration) { e.unmount = d }

// Replace continues a soft eviction as a part of a hard one of the same pod: one of the
// two is counted, and what the pod holds is still waited for.
func (e *Eviction) Replace(by *Eviction, now time.Time) {
	e.Exits(by.gone, by.state == Exiting, by.rest)
	e.gone, e.deadline = by.gone, now.Add(FreeTimeout)
}

// EndSoft notes that the result of a soft eviction is known. A deadline stays.
func (e *Eviction) EndSoft(now time.Time, remain bool) {
	if e.deadline.IsZero() {
		e.deadline = now.Add(FreeTimeout)
	}
	e.Exits(now, remain, nil)
	e.gone = now
}

// Update notes that the remaining processes are gone, once that was reported.
func (e *Eviction) Update(now time.Time) {
	select {
	case <-e.rest:
		e.Exits(now, false, nil)
		e.rest = nil
	default:
	}
}

// Deadline returns when the wait ends at the latest; zero without a bound.
func (e *Eviction) Deadline() time.Time { return e.deadline }

// Reason explains why no other pod is chosen meanwhile.
func (e *Eviction) Reason() string {
	return "memory or disk space of " + e.Of.Pod.Key() + " is still being freed"
}

// Holds reports whether the eviction keeps a threshold from being acted for: one of the
// same condition, and every soft one until what a soft eviction frees is back, since
// only one runs at a time. Local-storage limits, which have no threshold, wait for what
// is freed on disks, but not for a pod that has yet to end: a budget may refuse that
// for ever.
func (e *Eviction) Holds(t *eviction.Threshold) bool {
	switch {
	case t == nil:
		return e.Limit || e.OfDisk() && !e.state.Soft()
	case e.Limit:
		return t.Signal.Definition().Condition == signals.DiskPressure
	}
	return t.Signal.Definition().Condition == e.Signal.Definition().Condition || !e.Of.Hard && !t.Hard()
}

// OfDisk reports whether disk space is waited for. It comes back when layers, logs and
// volumes are removed, well after the processes are gone.
func (e *Eviction) OfDisk() bool {
	return !e.Limit && e.Signal.Definition().Condition == signals.DiskPressure
}

// Hangs reports whether an escalated soft eviction takes longer than a kill, because of
// the API server or of a busy processor: a check that finds exhaustion imminent does not
// wait for that.
func (e *Eviction) Hangs(now time.Time) bool {
	return (e.state == Escalated || e.state == Finishing) && now.Sub(e.deadline.Add(-EscalationTimeout)) >= eviction.KillTime
}

// ToFinish reports whether the loop has not sent SIGKILL itself yet.
func (e *Eviction) ToFinish() bool { return e.finish.at.IsZero() }

// Finishes reports whether the SIGKILL of the loop is still waited for, until a rate
// can be measured again.
func (e *Eviction) Finishes(now time.Time) bool {
	if e.finish.at.Equal(now) {
		return !e.finish.failed
	}
	return now.Sub(e.finish.at) < eviction.KillTime
}

// Unmounting reports whether memory may still come back although the processes are
// gone. It is asked of an eviction without remaining processes.
func (e *Eviction) Unmounting(now time.Time) bool {
	return !e.Limit && e.Signal.OfMemory() && e.expected > 0 && now.Sub(e.gone) < max(e.unmount, UnmountTimeout)
}

// Over returns why the wait has ended, empty if it has not. Memory that would be
// exhausted within the horizon ends it early.
func (e *Eviction) Over(m *eviction.Machine, s *signals.Snapshot, horizon time.Duration) string {
	o, late := &s.Node[e.Signal], !e.deadline.IsZero() && !s.At.Before(e.deadline)
	switch {
	case e.state.Soft() && !late:
		return ""
	case e.state.Soft():
		return "not ended in time"
	case !e.Limit && !m.StillMet(&e.verdict, &s.Node):
		return Recovered
	case e.state == DryRun && !late:
		return ""
	case e.state == DryRun:
		return "disarmed"
	case e.state != Exiting && !e.OfDisk() && !e.Unmounting(s.At):
		return "ended"
	case late:
		return "not freed in time"
	case e.expected > 0 && o.Known && o.Available-e.Before >= e.expected/2:
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

// pressed reports whether memory leaves no time to wait for more of it: it would be
// exhausted within the horizon or, as far as processes do not hold it any more, is.
// That may be what pods are allowed, though the node's is waited for.
func (e *Eviction) pressed(s *signals.Snapshot, horizon time.Duration) bool {
	if s.At.Sub(e.gone) < eviction.KillTime {
		return false
	}
	for sig := range signals.All {
		o := &s.Node[sig]
		if sig != e.Signal && !(sig.OfMemory() && e.Signal.OfMemory()) {
			continue
		}
		if s.Rates[sig].Within(o.Headroom(), horizon) || e.state != Exiting && sig.OfMemory() && o.Known && o.Headroom() <= 0 {
			return true
		}
	}
	return false
}
