package eviction

import (
	"math"
	"time"

	"plimsoll.dev/plimsoll/signal"
)

// Constants of the pace of extra looks.
const (
	// ShortestInterval is the least time between two looks. A look costs tens of
	// microseconds, so that looking at this pace costs below 1 % of a core.
	ShortestInterval = 5 * time.Millisecond
	// KillTime is how long a kill takes from the look that decides it to the
	// memory being free: 21-29 ms in the median where the processors are not
	// contended; the rest is reserve.
	KillTime = 50 * time.Millisecond
)

// Interval is the time until the next look is due: before the memory that is
// available could be gone, at the fastest credible fill rate, less what a kill
// takes and one look more to see the rate:
//
//	(available − rate × (KillTime + ShortestInterval)) / rate
//
// kept between ShortestInterval and period. What it guarantees: for any fill
// that is never faster than maxFillRate (bytes per second), a look happens
// while at least maxFillRate × KillTime is still available, provided that this
// much and one ShortestInterval more was available when the fill began. To act
// in that look takes a threshold of at least the fill rate × (KillTime +
// ShortestInterval): 100Mi serve up to 1.8 GiB/s. What holds together with the
// rule for doomed memory is stated, with its proof, beside the test of it.
func Interval(available signal.Amount, maxFillRate signal.Bytes, period time.Duration) time.Duration {
	if maxFillRate <= 0 {
		return period
	}
	lasts := float64(available) / float64(maxFillRate) * float64(time.Second)
	spare := lasts - float64(KillTime+ShortestInterval)
	spare = math.Max(float64(ShortestInterval), math.Min(spare, float64(period)))
	return min(time.Duration(spare), max(period, ShortestInterval))
}
