package zones

import (
	"math"
	"time"
)

// A bucket holds one token at most, and it is full to begin with. Instead of a
// fraction of a token it keeps the moment as of which there was none: moments
// are exact however often one asks, fractions are not.
type bucket struct {
	rate     float64       // tokens a second
	interval time.Duration // what one takes
	rated    bool          // the rate has been set once
	emptied  time.Time     // zero: it is full, whatever the rate
}

// longest is an interval that no controller outlives; moments after it still fit
// into nanoseconds since 1970.
const longest = 100 * 365 * 24 * time.Hour

// interval is how long a token takes, rounded up, so that no rate is exceeded.
func interval(rate float64) time.Duration {
	ns := float64(time.Second) / rate
	if !(ns < float64(longest)) { // a rate of 0 as well
		return longest
	}
	return time.Duration(math.Ceil(ns))
}

// next is when the next token is there, perhaps long ago. It says nothing at rate 0.
func (b *bucket) next() time.Time {
	if b.emptied.IsZero() {
		return time.Unix(0, 0)
	}
	return b.emptied.Add(b.interval)
}

func (b *bucket) has(now time.Time) bool { return b.rate > 0 && !now.Before(b.next()) }

// set changes the rate. A token that is there stays there; what was on its way
// is lost; and after a stop there is none. The first rate of all changes nothing
// else: it has been so all the time.
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

// drain says that there was no token at that moment; one that is earlier than
// what is known says nothing new.
func (b *bucket) drain(at time.Time) {
	if at.After(b.emptied) {
		b.emptied = at
	}
}

// refill takes back a token, which is there as of now.
func (b *bucket) refill(now time.Time) { b.emptied = now.Add(-b.interval) }
