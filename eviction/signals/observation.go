package signals

import (
	"math/bits"
	"time"
)

// Observation is the measurement of one signal, or unknown with a cause. The zero value is
// unknown.
type Observation struct {
	Available Amount // in the signal's unit; may be negative if accounting overlaps
	Capacity  Amount // the base of percentages
	// Cache is page cache in active use, in bytes. It counts as used, and the kernel reclaims it
	// before an OOM kill. It is 0 if unknown, and for all signals but those of memory.
	Cache Amount
	// Epoch changes when earlier observations turn out to be wrong. No rate is defined between
	// observations of different epochs.
	Epoch uint32
	Time  time.Time
	Known bool
	Cause string // reason for being unknown
}

// Observed returns a known observation.
func Observed(available, capacity Amount, at time.Time) Observation {
	return Observation{Available: available, Capacity: capacity, Time: at, Known: true}
}

// Unknown returns an unknown observation with its cause.
func Unknown(cause string) Observation { return Observation{Cause: cause} }

// Headroom returns the amount left before an OOM kill. A stream through page cache reduces
// Available, but not the headroom.
func (o *Observation) Headroom() Amount { return o.Available.Plus(o.Cache) }

// Observations holds one observation for every signal.
type Observations [Count]Observation

// Rate is the decrease of an available amount over some time; an increase is negative. The zero
// value is unknown.
type Rate struct {
	By   Amount
	Over time.Duration
}

// TimeToExhaustion returns how long the available amount lasts at this rate. If it is not
// falling, ok is false.
func (f Rate) TimeToExhaustion(available Amount) (d time.Duration, ok bool) {
	if f.By <= 0 || f.Over <= 0 {
		return 0, false
	}
	if available <= 0 {
		return 0, true
	}
	hi, lo := bits.Mul64(uint64(available), uint64(f.Over))
	if hi >= uint64(f.By) {
		return 1<<63 - 1, true
	}
	quotient, _ := bits.Div64(hi, lo, uint64(f.By))
	return time.Duration(min(quotient, 1<<63-1)), true
}

// Within reports whether the available amount is exhausted within the horizon at this rate:
// available / rate <= reserve, in exact arithmetic.
func (f Rate) Within(available Amount, reserve time.Duration) bool {
	if f.By <= 0 || f.Over <= 0 {
		return false
	}
	if available <= 0 {
		return true
	}
	leftHi, leftLo := bits.Mul64(uint64(available), uint64(f.Over))
	rightHi, rightLo := bits.Mul64(uint64(f.By), uint64(max(reserve, 0)))
	return leftHi < rightHi || leftHi == rightHi && leftLo <= rightLo
}

// PerSecond returns the rate in units per second, and 0 if it is unknown.
func (f Rate) PerSecond() float64 {
	if f.Over <= 0 {
		return 0
	}
	return float64(f.By) / f.Over.Seconds()
}

// Kind is the kind of a check.
type Kind uint8

// The kinds of checks.
const (
	// Periodic checks run every monitoring period and decide as the kubelet does.
	Periodic Kind = iota
	// Early checks run in between, when memory moves fast or a notification wakes the agent. They
	// act only on imminent exhaustion.
	Early
)

func (k Kind) String() string { return [...]string{"periodic", "early"}[k] }

// Snapshot is the observation of one check. It is immutable.
type Snapshot struct {
	At    time.Time
	Kind  Kind
	Woken Wakes // sources of the wakeup for this check
	// NeedsConfirmation: the rates are not confirmed yet, and there is time to do so. Exhaustion
	// is not imminent by them.
	NeedsConfirmation bool
	Node              Observations
	// Rates are the changes of the memory headroom since earlier checks.
	Rates [Count]Rate
}
