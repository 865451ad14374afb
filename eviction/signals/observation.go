package signals

import (
	"math/bits"
	"time"
)

// An Observation is what was measured of one signal, or unknown with a cause.
// The zero value is unknown.
type Observation struct {
	Available Amount // in the signal's unit; may be negative where accounting overlaps
	Capacity  Amount // what a percentage refers to
	// Cache is page cache that counts as used and that the kernel takes back
	// before it kills for memory: files in active use, in bytes. 0 where it is
	// not known, and for all signals but those of memory.
	Cache Amount
	// Epoch changes where it turned out that what was observed before was off:
	// no rate can be taken between observations of different bases.
	Epoch uint32
	Time  time.Time
	Known bool
	Cause string // why it is unknown
}

// Observed is a known observation.
func Observed(available, capacity Amount, at time.Time) Observation {
	return Observation{Available: available, Capacity: capacity, Time: at, Known: true}
}

// Unknown is the absence of an observation, and why.
func Unknown(cause string) Observation { return Observation{Cause: cause} }

// Headroom is what is left before the kernel kills for it. A stream through page
// cache takes what is available, and none of this.
func (o *Observation) Headroom() Amount { return o.Available.Plus(o.Cache) }

// Observations holds one observation for every signal.
type Observations [Count]Observation

// A Rate is by how much an available amount fell over some time; growth is
// negative. The zero value says that nothing is known about it.
type Rate struct {
	By   Amount
	Over time.Duration
}

// TimeToExhaustion is how long the available amount lasts at the rate of the fall;
// ok is false while it is not falling.
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

// Within reports whether the available amount is gone within the reserve at
// the rate of the fall: available / rate <= reserve, in exact arithmetic.
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

// PerSecond is the rate of the fall in units per second, 0 while nothing is
// known about it.
func (f Rate) PerSecond() float64 {
	if f.Over <= 0 {
		return 0
	}
	return float64(f.By) / f.Over.Seconds()
}

// Kind says why the node is looked at.
type Kind uint8

// The kinds of looks.
const (
	// Periodic looks come every monitoring period and decide as the kubelet does.
	Periodic Kind = iota
	// Early looks come in between, when memory moves fast or a notification
	// wakes the agent. They act only on doomed memory.
	Early
)

func (k Kind) String() string { return [...]string{"periodic", "early"}[k] }

// A Snapshot is one look at the node. It is not changed after it was made.
type Snapshot struct {
	At    time.Time
	Kind  Kind
	Woken Wakes // what ended the wait for this look
	// Doubted: the falls are not confirmed yet, and there is time to. Nothing is
	// doomed by them.
	NeedsConfirmation bool
	Node              Observations
	// Rates is how what is left of memory moved since an earlier look.
	Rates [Count]Rate
}
