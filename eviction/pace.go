package eviction

import (
	"math"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Constants of the pace of extra looks.
const (
	// MinInterval is the least time between two looks. The look itself
	// costs tens of microseconds, and waking up for it about as much again.
	MinInterval = 5 * time.Millisecond
	// RelaxedInterval is the least time between two looks while memory does not
	// fall. Waking up for a look costs a Go program in a virtual machine 140-200
	// µs of CPU time, the look included: at the shortest interval, memory that is
	// parked right above a threshold would cost 3-4 % of a core for a fill that
	// may never begin; at this one below 1 %.
	RelaxedInterval = 5 * MinInterval
	// KillTime is how long a kill takes from the look that decides it to the
	// memory being free: 12-29 ms in the median where the processors are not
	// contended; the rest is reserve.
	KillTime = 50 * time.Millisecond
	// RateWindow is the time over which the agent takes the rate of a fall.
	// Programs allocate in bursts, so that the rate between two looks 5 ms apart
	// says little; over this window, with a reserve of 500 ms, a fall counts as
	// doom only if a fifth of what is left was taken within it.
	RateWindow = 100 * time.Millisecond
)

// calm is how long memory has to last at its present rate to count as not
// falling.
const calm = 10 * time.Second

// Interval is the time until the next look is due: before the memory that is
// available could be gone, at the fastest credible fill rate, less what a kill
// takes and one look more to see the rate:
//
//	(available − rate × (KillTime + ShortestInterval)) / rate
//
// kept between ShortestInterval (CalmInterval while memory does not fall) and
// period. What it guarantees: for any fill that is never faster than
// maxFillRate (bytes per second), a look happens while at least maxFillRate ×
// KillTime is still available, provided that this much and one CalmInterval
// more was available when the fill began. To act in that look takes a threshold
// of at least the fill rate × (KillTime + ShortestInterval): 100Mi serve up to
// 1.8 GiB/s. What holds together with the rule for doomed memory is stated,
// with its proof, beside the test of it.
func Interval(available signals.Amount, fell signals.Rate, maxFillRate signals.Bytes, period time.Duration) time.Duration {
	if maxFillRate <= 0 {
		return period
	}
	shortest := MinInterval
	if !fell.Within(available, calm) {
		shortest = RelaxedInterval
	}
	lasts := float64(available) / float64(maxFillRate) * float64(time.Second)
	spare := lasts - float64(KillTime+MinInterval)
	spare = math.Max(float64(shortest), math.Min(spare, float64(period)))
	return min(time.Duration(spare), max(period, MinInterval))
}

// ProtectedRate is the fastest fill, in bytes per second, that a hard memory
// threshold of that many bytes is large enough for: a kill and a look take
// their time.
func ProtectedRate(threshold signals.Amount) signals.Bytes {
	return signals.Bytes(float64(threshold) / (KillTime + MinInterval).Seconds())
}

// ThresholdFor is the smallest hard memory threshold in bytes that protects up
// to a fill rate in bytes per second.
func ThresholdFor(rate signals.Bytes) signals.Amount {
	return signals.Amount(float64(rate) * (KillTime + MinInterval).Seconds())
}
