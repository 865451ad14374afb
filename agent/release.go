package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/signal"
)

// releaseWait bounds the wait for memory to come back after a kill, as the
// kubelet's wait for a pod to be cleaned up.
const releaseWait = 30 * time.Second

// recoveredMeanwhile says that a release ended because its threshold is no
// longer met.
const recoveredMeanwhile = "recovered"

// A release is memory (or PIDs) on its way: a pod was evicted, and until what
// it held is measured as freed no other pod is chosen.
type release struct {
	eviction  *eviction.Eviction
	verdict   eviction.Verdict // what the eviction was for
	signal    signal.Signal
	before    signal.Amount // available when the eviction was decided
	expected  signal.Amount // what the pod was seen to use
	since     time.Time
	deadline  time.Time
	rehearsed bool // a dry run: nothing will come back

	// A soft eviction goes on beside the loop until finished.
	finished <-chan termination
	hurry    chan struct{} // closed, and nil, once the grace period was ended
}

// termination is how a soft eviction ended.
type termination struct {
	killed Killed
	err    error
}

// expect tells the release what is waited for.
func (r *release) expect(o *Outcome) {
	r.verdict = o.Verdict
	if o.Verdict.Target == nil {
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
func (r *release) waiting() bool { return r.finished != nil }

// over says why the wait has ended, empty if it has not. Memory that would be
// gone within the reserve ends it early.
func (r *release) over(m *eviction.Machine, s *signal.Snapshot, reserve time.Duration) string {
	o := &s.Node[r.signal]
	switch {
	case r.waiting() && s.At.Before(r.deadline):
		return ""
	case !m.StillMet(&r.verdict, &s.Node):
		return recoveredMeanwhile
	case r.rehearsed:
		if s.At.Before(r.deadline) {
			return ""
		}
		return "dry run"
	case s.At.After(r.deadline):
		return "not freed in time"
	case r.expected > 0 && o.Known && o.Available-r.before >= r.expected/2:
		return "freed"
	case s.Fell[r.signal].Within(o.Available, reserve) && s.At.Sub(r.since) >= eviction.KillTime:
		return "no time left to wait"
	}
	return ""
}

// escalate ends the grace period of a soft eviction that is under way, and
// reports whether it did.
func (r *release) escalate() bool {
	if r.hurry == nil {
		return false
	}
	close(r.hurry)
	r.hurry = nil
	return true
}
