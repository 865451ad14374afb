package agent

import (
	"context"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// releaseWait bounds the wait for memory to come back after a kill, as the
// kubelet's wait for a pod to be cleaned up.
const releaseWait = 30 * time.Second

// tidyWait is how long memory is waited for once a pod's processes are gone: files of
// emptyDir volumes in memory and of /dev/shm are charged until they are unmounted.
// Who does that hears of the pod's status or its end, and takes about a second.
const tidyWait = 3 * time.Second

// recoveredMeanwhile says that a release ended because its threshold is no
// longer met.
const recoveredMeanwhile = "recovered"

// A release is memory (or PIDs) on its way: a pod was evicted, and until what
// it held is free no other pod is chosen for the same condition.
type release struct {
	eviction  *eviction.Eviction
	verdict   eviction.Verdict // what the eviction was for
	signal    signals.Signal
	limit     bool           // for a local-storage limit: no signal is waited for
	before    signals.Amount // available when the eviction was decided
	expected  signals.Amount // what the pod was seen to use
	since     time.Time
	gone      time.Time       // when its processes were found to be, since if they were not
	deadline  time.Time       // zero: as long as it takes
	tidy      time.Duration   // for how long memory is waited for since then, if for longer than tidyWait
	rehearsed bool            // nothing was done, and nothing will come back
	lingering bool            // processes have got SIGKILL but are not gone
	rest      <-chan struct{} // closed when they are; nil: nothing reports it
	why       string          // what standing by for it is explained with

	// A soft eviction goes on beside the loop until finished.
	finished <-chan termination
	hurry    chan struct{} // closed, and nil, once the grace period was ended
	withdraw chan struct{} // likewise, once nobody has to end any more
	cancel   context.CancelFunc
	// abandoned: the agent was disarmed meanwhile.
	abandoned bool
	victim    Victim    // to be finished if being hurried does not help
	finishing time.Time // when it was, zero if not
	// superseded: its pod was killed for something else.
	superseded bool
}

// releases are those under way: one hard eviction for each condition, and one
// soft eviction.
type releases [signals.ConditionCount + 1]*release

// linger reports whether processes that were killed are still there: they may be so
// many that a thread without real-time class does not get a processor beside them.
func (rs *releases) linger() bool {
	for _, r := range rs {
		if r != nil && r.lingering {
			return true
		}
	}
	return false
}

const softPlace = signals.ConditionCount

// place is where the release of an eviction belongs: by the condition that it
// relieves. Local-storage limits are about disks.
func (rs *releases) place(e *eviction.Eviction) **release {
	if !e.Hard {
		return &rs[softPlace]
	}
	if s, err := signals.Parse(e.Cause); err == nil {
		return &rs[s.Definition().Condition]
	}
	return &rs[signals.DiskPressure]
}

// termination is how a soft eviction ended.
type termination struct {
	killed Killed
	err    error
}

func newRelease(e *eviction.Eviction, now time.Time) *release {
	return &release{eviction: e, since: now, gone: now, deadline: now.Add(releaseWait),
		why: "what " + e.Pod.Key() + " holds is on its way"}
}

// expect tells the release what is waited for.
func (r *release) expect(o *Outcome) {
	r.verdict = o.Verdict
	if o.EndedByLimit {
		r.limit = true
		return
	}
	r.signal = o.Verdict.Target.Signal
	r.before = o.Snapshot.Node[r.signal].Available
	for i := range o.Ranking {
		if o.Ranking[i].Pod == r.eviction.Pod {
			r.expected = o.Ranking[i].Key.Usage
		}
	}
}

// waiting reports whether the pod's processes still have time to end.
func (r *release) waiting() bool { return r.finished != nil && !r.superseded }

// holds reports whether the release keeps a threshold from being acted for: one
// of the same condition, and every soft one until what a soft eviction frees is back:
// there is one place for those. Limits, which have no threshold, wait for whatever is
// freed on disks, but not for a pod that has yet to end: a budget may refuse that for ever.
func (r *release) holds(t *eviction.Threshold) bool {
	switch {
	case t == nil:
		return r.limit || r.ofDisk() && !r.waiting()
	case r.limit:
		return t.Signal.Definition().Condition == signals.DiskPressure
	}
	return t.Signal.Definition().Condition == r.signal.Definition().Condition || !r.eviction.Hard && !t.Hard()
}

// ofDisk reports whether disk space is waited for. It comes back when layers,
// logs and volumes are removed, well after the processes are gone.
func (r *release) ofDisk() bool {
	return !r.limit && r.signal.Definition().Condition == signals.DiskPressure
}

// tidying reports whether memory may still come back though the processes are gone.
// It is asked of a release that nobody lingers of.
func (r *release) tidying(now time.Time) bool {
	return !r.limit && r.signal.OfMemory() && r.expected > 0 && now.Sub(r.gone) < max(r.tidy, tidyWait)
}

// pressed reports whether memory leaves no time to wait for more of it: it would be
// gone within the reserve or, as far as processes do not hold it any more, is gone.
// That may be what pods are allowed, though the node's is waited for.
func (r *release) pressed(s *signals.Snapshot, reserve time.Duration) bool {
	if s.At.Sub(r.gone) < eviction.KillTime {
		return false
	}
	for sig := range signals.All {
		o := &s.Node[sig]
		if sig != r.signal && !(sig.OfMemory() && r.signal.OfMemory()) {
			continue
		}
		if s.Fell[sig].Within(o.Left(), reserve) || !r.lingering && sig.OfMemory() && o.Known && o.Left() <= 0 {
			return true
		}
	}
	return false
}

// over says why the wait has ended, empty if it has not. Memory that would be
// gone within the reserve ends it early.
func (r *release) over(m *eviction.Machine, s *signals.Snapshot, reserve time.Duration) string {
	o, late := &s.Node[r.signal], !r.deadline.IsZero() && !s.At.Before(r.deadline)
	switch {
	case r.waiting() && !late:
		return ""
	case r.waiting():
		return "not ended in time"
	case !r.limit && !m.StillMet(&r.verdict, &s.Node):
		return recoveredMeanwhile
	case r.rehearsed && !late:
		return ""
	case r.rehearsed:
		return "disarmed"
	case !r.lingering && !r.ofDisk() && !r.tidying(s.At):
		return "ended"
	case late:
		return "not freed in time"
	case r.expected > 0 && o.Known && o.Available-r.before >= r.expected/2:
		return "freed"
	case r.pressed(s, reserve):
		return "no time left to wait"
	}
	return ""
}

// empty notes that the processes that lingered are gone.
func (r *release) empty(now time.Time) {
	select {
	case <-r.rest:
		r.lingering, r.gone, r.rest = false, now, nil
	default:
	}
}

// hangs reports whether a soft eviction that was hurried takes longer than a kill,
// be it for the API server, be it for a processor: doomed memory, which an extra
// look has found, does not wait for that.
func (r *release) hangs(now time.Time) bool {
	return r.waiting() && r.hurry == nil && now.Sub(r.deadline.Add(-longestKillWait)) >= eviction.KillTime
}

// recall withdraws a soft eviction that nobody needs any more.
func (r *release) recall() {
	if r.withdraw != nil {
		close(r.withdraw)
		r.withdraw = nil
	}
}

// escalate ends the grace period of a soft eviction that is under way, and
// reports whether it did. What is not gone by then is no longer waited for.
func (r *release) escalate(until time.Time) bool {
	if r.hurry == nil {
		return false
	}
	close(r.hurry)
	r.hurry, r.deadline = nil, until
	return true
}
