package backoff

import (
	"math/rand/v2"
	"time"
)

// Bounds are the delay after the first failure, and the longest one. Both are above zero.
type Bounds struct{ Min, Max time.Duration }

// maxDoublings keeps the shift below the range of a duration, for a Min of up to two hours.
const maxDoublings = 20

// After returns the delay after a number of successive failures. It doubles with each. After none
// it is Max: what succeeded without an effect is repeated late.
func (b Bounds) After(failures int) time.Duration {
	if failures <= 0 {
		return b.Max
	}
	return min(b.Min<<min(failures-1, maxDoublings), b.Max)
}

// Jittered returns the delay reduced by a random part of at most a quarter: clients that a server
// failed at the same moment do not return together.
func (b Bounds) Jittered(failures int) time.Duration {
	delay := b.After(failures)
	return delay - rand.N(delay/4+1)
}
