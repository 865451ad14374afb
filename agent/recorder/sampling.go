package recorder

import (
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Bounds of the samples.
const (
	sparse = time.Second      // between two checks near a threshold
	burst  = 30 * time.Second // in which every check is recorded, once a hard threshold is crossed
	linger = 10 * time.Second // in which a check still counts as near a threshold
	// renewal is the time between two checks with their pods, after the burst, as long as all find the
	// same. With 110 pods each takes 9 KB, and there may be ten a second for as long as no pod helps.
	renewal = 10 * time.Second
)

// slack is subtracted from the interval of periodic checks, which are not exact, and a tenth of it
// from that of others.
const slack = 100 * time.Millisecond

// distance is how near memory is to a threshold.
type distance uint8

const (
	far     distance = iota
	near             // within twice a hard threshold, below a soft one, or unknown
	crossed          // below a hard threshold
)

// distanceOf returns the smallest distance of the memory signals to their thresholds.
func distanceOf(node *signals.Observations, p *eviction.Policy) (d distance) {
	for i := range p.Thresholds {
		t := &p.Thresholds[i]
		if !t.Signal.OfMemory() {
			continue
		}
		o := &node[t.Signal]
		if !o.Known {
			d = max(d, near)
			continue
		}
		line := t.Value.Of(o.Capacity).Value
		switch {
		case !t.Hard() && o.Available < line:
			d = max(d, near)
		case !t.Hard():
		case o.Available < line:
			return crossed
		case o.Available < line.Plus(line):
			d = near
		}
	}
	return d
}

// sampling selects the checks to record.
type sampling struct {
	met, unknown signals.Set // of the last check
	conditions   signals.ConditionSet
	reason       eviction.Reason
	recorded     time.Time // the last recorded check
	burstBegan   time.Time // zero: no threshold is crossed
	lastNear     time.Time

	found finding   // of the last check with its pods
	full  time.Time // when that was
}

// finding is what an early check has found about pods, without amounts.
type finding struct {
	target      *eviction.Threshold
	blocked     string
	limit       limiter.Cause
	recovered   bool
	spared      bool
	kubeletsPod string // UID
	failed      int
	firstFailed string // UID
}

// choose reports whether a check is recorded, and whether it is near a threshold.
func (s *sampling) choose(o *agent.Outcome, p *eviction.Policy, considers bool) (record, isNear bool) {
	now, v := o.Snapshot.At, &o.Verdict
	d := distanceOf(&o.Snapshot.Node, p)
	switch {
	case d != crossed:
		s.burstBegan = time.Time{}
	case s.burstBegan.IsZero(), o.Evicted != nil:
		s.burstBegan = now
	}
	if d != far {
		s.lastNear = now
	}
	isNear = !s.lastNear.IsZero() && now.Sub(s.lastNear) < linger
	changed := v.GracePassed != s.met || v.Unknown != s.unknown || v.Conditions != s.conditions || v.Reason != s.reason
	s.met, s.unknown, s.conditions, s.reason = v.GracePassed, v.Unknown, v.Conditions, v.Reason
	switch {
	case o.Snapshot.Kind == signals.Periodic, changed, considers, v.Target != nil, v.Imminent != 0, v.Reason == eviction.Grace, v.Reason == eviction.Stale:
		record = true // it moved timers or conditions, or may have
	case d == crossed && now.Sub(s.burstBegan) < burst:
		record = true
	case isNear:
		record = now.Sub(s.recorded) >= sparse-slack/10
	}
	if record {
		s.recorded = now
	}
	return record, isNear
}

// isRepeated reports whether an early check has measured the pods and found the same as one before. It
// is recorded without the pods: later checks depend on nothing that it found.
func (s *sampling) isRepeated(o *agent.Outcome, t *agent.Trace) bool {
	if o.Snapshot.Kind == signals.Periodic || len(t.Measured) == 0 || t.Changes || t.ForLimits || o.Evicted != nil || len(t.Collections) > 0 {
		return false
	}
	found := finding{target: o.Verdict.Target, blocked: o.Blocked, limit: o.Limit.By, recovered: o.Recovered, spared: o.Spared > 0, failed: len(o.Failed)}
	if o.KubeletsPod != nil {
		found.kubeletsPod = o.KubeletsPod.UID
	}
	if len(o.Failed) > 0 {
		found.firstFailed = o.Failed[0].Pod.UID
	}
	now, interval := o.Snapshot.At, renewal
	if !s.burstBegan.IsZero() && now.Sub(s.burstBegan) < burst {
		interval = sparse
	}
	if found == s.found && now.Sub(s.full) < interval-slack/10 {
		return true
	}
	s.found, s.full = found, now
	return false
}
