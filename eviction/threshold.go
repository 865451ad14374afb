package eviction

import (
	"fmt"
	"math"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Value is a quantity, or a fraction of the capacity. The zero value is a quantity of 0.
type Value struct {
	Quantity signals.Quantity
	// Fraction of the capacity; above 0 it replaces Quantity. It is a float32, as in the kubelet,
	// so that the product is the same.
	Fraction float32
	// Percent is the fraction as configured, such as "10%".
	Percent string
}

// Of returns the value for a capacity. A fraction is truncated to an integer and printed with
// binary suffixes, as in the kubelet.
func (v Value) Of(capacity signals.Amount) signals.Quantity {
	if v.Fraction == 0 {
		return v.Quantity
	}
	return signals.Quantity{Value: cut(float64(capacity) * float64(v.Fraction))}
}

// cut truncates f to an integer. A larger value becomes the maximum, since the result of a bare
// conversion would depend on the processor.
func cut(f float64) signals.Amount {
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return signals.Amount(f)
}

func (v Value) String() string {
	if v.Percent != "" {
		return v.Percent
	}
	return v.Quantity.String()
}

// Threshold is crossed while less than its value is available. It is met while it is crossed and,
// once its grace period has passed, until its minimum reclaim is available too. It is comparable.
type Threshold struct {
	Signal signals.Signal
	Value  Value
	// Grace is how long the threshold has to be met before the first eviction; 0 for a hard one.
	Grace time.Duration
	// MinReclaim is the amount that has to be available above the value before a threshold with
	// its grace passed counts as unmet again. It is not negative.
	MinReclaim Value
}

// Hard reports whether the threshold is acted for at once, and pods are ended regardless of their
// grace period.
func (t Threshold) Hard() bool { return t.Grace == 0 }

func (t Threshold) String() string {
	if t.Hard() {
		return fmt.Sprintf("%s<%s", t.Signal, t.Value)
	}
	return fmt.Sprintf("%s<%s for %s", t.Signal, t.Value, t.Grace)
}

// identity returns a unique name of the threshold within a policy. Two may differ only in their
// minimum reclaim: one configured for allocatable memory and the copy of one for memory.
func (t Threshold) identity() string {
	if t.MinReclaim == (Value{}) {
		return t.String()
	}
	return t.String() + " reclaim " + t.MinReclaim.String()
}

// crossed reports whether the observation is strictly less than the value.
func (t *Threshold) crossed(o *signals.Observation) bool {
	return o.Available < t.Value.Of(o.Capacity).Value
}

// met reports whether the threshold is crossed or, if the minimum reclaim applies, whether that is
// not available yet.
func (t *Threshold) met(o *signals.Observation, reclaimApplies bool) bool {
	return t.crossed(o) || reclaimApplies && t.belowReclaim(o)
}

// belowReclaim reports whether the observation is less than the value plus minimum reclaim.
func (t *Threshold) belowReclaim(o *signals.Observation) bool {
	return o.Available < t.line(o)
}

// line returns the value plus minimum reclaim.
func (t *Threshold) line(o *signals.Observation) signals.Amount {
	return t.Value.Of(o.Capacity).Value.Plus(t.MinReclaim.Of(o.Capacity).Value)
}

// Missing returns the amount that has to be freed before the threshold counts as unmet, minimum
// reclaim included. It is 0 or less if the threshold is unmet.
func (t *Threshold) Missing(o *signals.Observation) signals.Amount {
	return t.line(o).Plus(-o.Available)
}

// Exhausted reports whether nothing of the signal is available, or less than half of the
// threshold. The comparison subtracts, since doubling could overflow.
func (t *Threshold) Exhausted(o *signals.Observation) bool {
	return o.Known && (o.Available <= 0 || o.Available < t.Value.Of(o.Capacity).Value-o.Available)
}

// thresholdSet is a set of indexes into Policy.Thresholds.
type thresholdSet uint64

const maxThresholds = 64

func (s *thresholdSet) add(i int)     { *s |= 1 << i }
func (s *thresholdSet) remove(i int)  { *s &^= 1 << i }
func (s thresholdSet) has(i int) bool { return s&(1<<i) != 0 }
