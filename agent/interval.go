package agent

import (
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// releasePace is the interval of checks for remaining processes, unless memory requires shorter
// ones.
const releasePace = 4 * eviction.MinInterval

// unknownPace is the interval of checks while an eviction is waited for by other means.
const unknownPace = eviction.UnknownPace

// failurePace is how long early checks do not act after no pod could be evicted. Measuring and ranking
// hundreds of pods at the rate of early checks would use CPU time of processes that could free
// memory.
const failurePace = 20 * eviction.MinInterval

// maxServerWait is the maximum wait for the API server before a kill, if memory leaves the time. A
// kubelet may restart a pod killed before its status is written.
const maxServerWait = 2 * time.Second

// interval returns the time until the next check, by the needs of the hard memory thresholds. No
// other threshold is evaluated between periodic checks.
func (a *Agent) interval(s *signals.Snapshot) time.Duration {
	interval := a.settings.Period
	if !a.evictionsPaused(s.At) {
		interval = a.checker.Machine.Policy().Interval(s, a.settings.MaxFillRate, a.settings.Period)
	}
	for _, e := range a.inflight {
		switch {
		case e == nil:
		case e.State().Soft(), e.State() == inflight.DryRun: // its end is reported, or nothing will be freed
			interval = min(interval, unknownPace)
		case e.State() == inflight.Exiting, e.Unmounting(s.At):
			interval = min(interval, releasePace)
		case e.OfDisk(): // early checks do not cover disks
			interval = min(interval, unknownPace)
		default:
			interval = eviction.MinInterval
		}
	}
	return interval
}

// delayRetry blocks early checks for a while after no pod could be evicted, or after a second
// observation showed that none has to be.
func (a *Agent) delayRetry(o *Outcome, verb Verb) {
	none := verb == Failed || verb == NoneHelps
	switch {
	case o.Verdict.Target == nil:
	case none && !o.Verdict.Target.Hard(): // a pod not evicted softly may have to be killed
	case verb == NoneHelps && o.mayGrow(), o.CachePod != nil && (verb == NoneHelps || verb == Limited): // until the kernel reclaims
		a.retryAt = o.Snapshot.At.Add(confirmTime)
	case none, verb == Limited, verb == Ineffective:
		a.retryAt = o.Snapshot.At.Add(failurePace)
	case verb == Recovered: // exhaustion that was not imminent may be so soon
		a.retryAt = o.Snapshot.At.Add(eviction.RelaxedInterval)
	}
}

// serverWait returns the maximum wait for the API server before a kill: half the time to
// exhaustion beyond the kill itself. Memory that does not fall leaves the full maxServerWait.
// Exhausted memory leaves none.
func serverWait(s *signals.Snapshot) time.Duration {
	for sig := range signals.All {
		if o := &s.Node[sig]; sig.OfMemory() && o.Known && o.Headroom() <= 0 {
			return 0 // an exhausted signal does not fall any more
		}
	}
	return max(min(maxServerWait, (timeToExhaustion(s)-eviction.ReactionTime)/2), 0)
}

// timeToExhaustion returns the time to exhaustion of memory, of the node or of allocatable, at
// the present rate. It returns the maximum duration if memory does not fall.
func timeToExhaustion(s *signals.Snapshot) (lasts time.Duration) {
	lasts = 1<<63 - 1
	for sig := range signals.All {
		if of, falling := s.Rates[sig].TimeToExhaustion(s.Node[sig].Headroom()); falling && sig.OfMemory() {
			lasts = min(lasts, of)
		}
	}
	return lasts
}
