package zones

import (
	"math"
	"time"
)

// bucket is a token bucket with at most one token, full at first. Instead of a fraction of a
// token it stores the time at which it was empty. Times are exact for any number of queries,
// fractions are not.
type bucket struct {
	rate     float64       // tokens per second
	interval time.Duration // time per token
	rated    bool          // the rate was set at least once
	emptied  time.Time     // zero: full, whatever the rate
}

// maxInterval is an interval beyond the lifetime of any controller. Times after it still fit into
// nanoseconds since 1970.
const maxInterval = 100 * 365 * 24 * time.Hour

// interval returns the time per token, rounded up, so that the rate is not exceeded.
func interval(rate float64) time.Duration {
	ns := float64(time.Second) / rate
	if !(ns < float64(maxInterval)) { // also for a rate of 0
		return maxInterval
	}
	return time.Duration(math.Ceil(ns))
}

// next returns when the next token is available, perhaps long ago. It is undefined at rate 0.
func (b *bucket) next() time.Time {
	if b.emptied.IsZero() {
		return time.Unix(0, 0)
	}
	return b.emptied.Add(b.interval)
}

func (b *bucket) has(now time.Time) bool { return b.rate > 0 && !now.Before(b.next()) }

// set changes the rate. An available token stays, a partial one is lost, and after a stop there
// is none. The first call only sets the rate, as if it had been so all the time.
func (b *bucket) set(rate float64, now time.Time) {
	if b.rated && rate == b.rate {
		return
	}
	switch {
	case !b.rated:
	case b.has(now):
		b.emptied = time.Time{}
	default:
		b.emptied = now
	}
	b.rate, b.interval, b.rated = rate, interval(rate), true
}

// drain records that there was no token at the given time. A time earlier than the recorded one
// has no effect.
func (b *bucket) drain(at time.Time) {
	if at.After(b.emptied) {
		b.emptied = at
	}
}

// refill returns a token, which is available as of now.
func (b *bucket) refill(now time.Time) { b.emptied = now.Add(-b.interval) }
