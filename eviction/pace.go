package eviction

import (
	"math"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Constants of the intervals of early checks.
const (
	// MinInterval is the minimum time between two checks. A check costs tens of microseconds, and
	// its wakeup about as much again.
	MinInterval = 5 * time.Millisecond
	// RelaxedInterval is the minimum time between two checks while memory does not fall. In a
	// virtual machine, a wakeup of a Go program costs 140-200 µs of CPU time, the check included.
	// Memory that stays right above a threshold would cost 3-4 % of a core at the shortest
	// interval, for a fill that may never begin. At this interval it costs below 1 %.
	RelaxedInterval = 5 * MinInterval
	// ReactionTime is the time from the check that decides a kill to the memory being free. The
	// median is 12-29 ms without contention for processors; the rest is a margin.
	ReactionTime = 50 * time.Millisecond
	// RateWindow is the time span for the rate of a fall. Programs allocate in bursts, so that
	// the rate between two checks 5 ms apart means little. Over this window, with a horizon of
	// 500 ms, exhaustion is imminent only if a fifth of the headroom was taken within it.
	RateWindow = 100 * time.Millisecond
)

// calm is the minimum time to exhaustion at which memory counts as not falling.
const calm = 10 * time.Second

// Interval returns the time until the next check. It is due before the available memory could be
// exhausted at the maximum fill rate, minus the time of a kill and of one more check to measure
// the rate:
//
//	(available − rate × (ReactionTime + MinInterval)) / rate
//
// The result is between MinInterval (RelaxedInterval while memory does not fall) and period.
//
// Guarantee: for any fill not faster than maxFillRate (bytes per second), a check happens while
// at least maxFillRate × ReactionTime is available. The precondition is that this much and one
// RelaxedInterval more was available when the fill began. Acting in that check takes a threshold
// of at least the fill rate × (ReactionTime + MinInterval): 100Mi serve up to 1.8 GiB/s. The test
// has the combined guarantee with the rule for imminent exhaustion, and its proof.
func Interval(available signals.Amount, fell signals.Rate, maxFillRate signals.Bytes, period time.Duration) time.Duration {
	if maxFillRate <= 0 {
		return period
	}
	lowerBound := MinInterval
	if !fell.Within(available, calm) {
		lowerBound = RelaxedInterval
	}
	lasts := float64(available) / float64(maxFillRate) * float64(time.Second)
	slack := lasts - float64(ReactionTime+MinInterval)
	slack = math.Max(float64(lowerBound), math.Min(slack, float64(period)))
	return min(time.Duration(slack), max(period, MinInterval))
}

// UnknownPace is the interval of checks while memory could not be observed.
const UnknownPace = time.Second

// Interval returns the time until the check after a snapshot, by the needs of the hard memory thresholds. No
// other threshold is evaluated between periodic checks. It does not allocate.
func (p *Policy) Interval(s *signals.Snapshot, maxFillRate signals.Bytes, period time.Duration) time.Duration {
	interval := period
	if p.EarlyEviction == Never {
		return interval
	}
	for i := range p.Thresholds {
		t := &p.Thresholds[i]
		if !t.Hard() || !t.Signal.OfMemory() {
			continue
		}
		if o := &s.Node[t.Signal]; o.Known {
			interval = min(interval, Interval(o.Available, s.Rates[t.Signal], maxFillRate, period))
		} else if t.Signal == signals.MemoryAvailable {
			interval = min(interval, UnknownPace)
		}
	}
	return interval
}

// ProtectedRate returns the fastest fill, in bytes per second, for which a hard memory threshold
// of that many bytes is large enough. A kill and a check take their time.
func ProtectedRate(threshold signals.Amount) signals.Bytes {
	return signals.Bytes(float64(threshold) / (ReactionTime + MinInterval).Seconds())
}

// ThresholdFor returns the smallest hard memory threshold in bytes that protects against a fill
// rate in bytes per second.
func ThresholdFor(rate signals.Bytes) signals.Amount {
	return signals.Amount(float64(rate) * (ReactionTime + MinInterval).Seconds())
}
