package limiter

import (
	"cmp"
	"math"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Share is the measured usage of one pod, in the unit of a signal.
type Share struct {
	UID   string
	Used  signals.Amount
	Kept  signals.Amount // the part of Used that stays in use after the pod's end, as page cache
	Known bool           // false: it exists, but was not measured
}

// Observation is the observation of a resource at one time: the available amount and the usage of each
// pod. The rest of the capacity is used outside of pods.
type Observation struct {
	Left   signals.Amount // available; the rest of the capacity is in use
	Total  signals.Amount // the capacity
	Shares []Share
}

// Kill is an eviction with an effect to be evaluated.
type Kill struct {
	Signal   signals.Signal
	UID      string
	Expected signals.Amount // measured usage of the pod; 0 if unknown
	Before   Observation    // at the decision
}

// record is the record of evictions for one condition since it has become True.
type record struct {
	last     *Kill     // not evaluated yet
	accounts []account // of the evictions, in order
	limits   int       // limits so far: the next one lasts twice as long
	until    time.Time
	quiet    map[signals.Signal]quiet // per signal within a limit: two signals of one condition take turns
}

// account is the rest of the amount freed by one eviction.
type account struct {
	uid            string
	expected, left signals.Amount
}

func (a *account) ineffective() bool { return a.left < a.expected/2+a.expected%2 }

// MaxIneffectiveLimit is the maximum of [Policy.MaxIneffective]. No more evictions are stored.
const MaxIneffectiveLimit = 100

// Expect records an eviction for a later [Limiter.Evaluate]. If the pod's usage is unknown, any
// freed amount counts as effective.
func (r *Limiter) Expect(k *Kill) {
	if r == nil || r.policy.MaxIneffective == 0 {
		return
	}
	f := &r.records[k.Signal.Definition().Condition]
	f.last = k
	f.accounts = append(f.accounts[max(0, len(f.accounts)-MaxIneffectiveLimit+1):], account{k.UID, max(k.Expected, 1), max(k.Expected, 0)})
}

// Cancel removes an eviction that did not happen.
func (r *Limiter) Cancel(uid string) {
	if r == nil {
		return
	}
	for i := range r.records {
		f := &r.records[i]
		if n := len(f.accounts) - 1; n >= 0 && f.accounts[n].uid == uid {
			f.accounts, f.last = f.accounts[:n], nil
		}
	}
}

// Awaiting returns the last eviction for a condition until it was evaluated, and nil if there is
// none.
func (r *Limiter) Awaiting(c signals.Condition) *Kill {
	if r == nil {
		return nil
	}
	return r.records[c].last
}

// Evaluate compares the present observation, at the next choice for a condition, with that before
// the last eviction. It returns the limit that begins now, if any. An effective eviction ends a
// limit.
func (r *Limiter) Evaluate(c signals.Condition, now time.Time, seen *Observation) Limit {
	f := &r.records[c]
	f.take(grown(&f.last.Before, seen))
	f.quiet = nil
	f.watch(f.last.Signal, now, seen)
	f.last, r.moved = nil, true
	if f.row() < r.policy.MaxIneffective {
		f.until = time.Time{}
		return Limit{}
	}
	f.limits++
	f.until = now.Add(doubled(r.policy.IneffectiveBackoff, f.limits, MaxIneffectiveBackoff))
	return r.Ineffective(c, now)
}

// take charges growth outside of pods to the last eviction first, and the excess to the one
// before. Without the excess, evictions in quick succession would count only the growth until the
// next one. A decrease is credited in the same order.
func (f *record) take(taken signals.Amount) {
	for i := len(f.accounts) - 1; i >= 0 && taken != 0; i-- {
		a := &f.accounts[i]
		before := a.left
		a.left = min(max(minus(a.left, taken), 0), a.expected)
		taken = minus(taken, before-a.left)
	}
}

// row returns the number of consecutive ineffective evictions up to the last.
func (f *record) row() (n int) {
	for n < len(f.accounts) && f.accounts[len(f.accounts)-1-n].ineffective() {
		n++
	}
	return n
}

// evaluated returns the record without the eviction that is not evaluated yet.
func (f record) evaluated() record {
	if f.last != nil {
		f.accounts = f.accounts[:len(f.accounts)-1]
	}
	return f
}

// Ineffective returns the limit after ineffective evictions for a condition.
func (r *Limiter) Ineffective(c signals.Condition, now time.Time) Limit {
	if r == nil || r.policy.MaxIneffective == 0 || !now.Before(r.records[c].until) {
		return Limit{}
	}
	f := r.records[c].evaluated()
	return Limit{By: Ineffective, Condition: c, N: f.row(), Until: f.until}
}

// Clear drops the record of a condition after it became False. It reports whether there was one.
func (r *Limiter) Clear(c signals.Condition) bool {
	if r == nil || len(r.records[c].accounts) == 0 && r.records[c].limits == 0 {
		return false
	}
	r.records[c], r.moved = record{}, true
	return true
}

// grown returns the growth of the usage outside of pods. A pod measured at only one of the two
// times counts as unchanged. A new pod counts with all its usage, an ended one with what it freed.
func grown(before, now *Observation) signals.Amount {
	all := minus(minus(now.Total, now.Left), minus(before.Total, before.Left))
	shares := slices.Clone(before.Shares)
	slices.SortFunc(shares, byUID)
	seen := make([]bool, len(shares))
	for _, s := range now.Shares {
		i, known := slices.BinarySearchFunc(shares, s, byUID)
		switch {
		case !known && s.Known:
			all = minus(all, s.Used)
		case known:
			seen[i] = true
			if s.Known && shares[i].Known {
				all = all.Plus(minus(shares[i].Used, s.Used))
			}
		}
	}
	for i, s := range shares {
		if !seen[i] && s.Known {
			all = all.Plus(minus(s.Used, s.Kept))
		}
	}
	return all
}

func byUID(a, b Share) int { return cmp.Compare(a.UID, b.UID) }

// minus returns a − b, saturated.
func minus(a, b signals.Amount) signals.Amount {
	switch {
	case b > 0 && a < math.MinInt64+b:
		return math.MinInt64
	case b == math.MinInt64:
		return a.Plus(math.MaxInt64)
	}
	return a.Plus(-b)
}
