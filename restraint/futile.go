package restraint

import (
	"cmp"
	"math"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/signal"
)

// A Share is what one pod was seen to use, in the unit of a signal.
type Share struct {
	UID   string
	Used  signal.Amount
	Known bool // false: it is there, but was not measured
}

// A Sight is what was seen of a resource at one time: what is available, and
// what each pod uses. The difference to the capacity is held outside of pods.
type Sight struct {
	Left   signal.Amount // capacity − available is held by somebody
	Total  signal.Amount // the capacity
	Shares []Share
}

// A Kill is an eviction whose use is asked for.
type Kill struct {
	Signal   signal.Signal
	UID      string
	Expected signal.Amount // what the pod was seen to use, 0 if that is unknown
	Before   Sight         // when it was decided
}

// relief is what is known of evictions for one condition.
type relief struct {
	last  *Kill // not judged yet
	row   int   // futile ones, one after the other
	holds int   // begun since pressure began: the next one lasts twice as long
	until time.Time
}

// Expect notes an eviction, of which [Restraint.Judge] says later whether it
// helped.
func (r *Restraint) Expect(k *Kill) {
	if r == nil || r.policy.Futile == 0 {
		return
	}
	r.relief[k.Signal.Definition().Condition].last = k
}

// Forgo drops an eviction that did not happen, or that is not to be judged.
func (r *Restraint) Forgo(uid string) {
	if r == nil {
		return
	}
	for i := range r.relief {
		if last := r.relief[i].last; last != nil && last.UID == uid {
			r.relief[i].last = nil
		}
	}
}

// Awaiting is the eviction for a condition that is not judged yet, nil if there
// is none.
func (r *Restraint) Awaiting(c signal.Condition) *Kill {
	if r == nil {
		return nil
	}
	return r.relief[c].last
}

// Judge holds what is seen now, when somebody would be evicted for a condition
// again, against what was seen before the last one. It returns the hold that
// begins with that, if one does.
func (r *Restraint) Judge(c signal.Condition, now time.Time, seen *Sight) Hold {
	f := &r.relief[c]
	k := f.last
	f.last, r.moved = nil, true
	if !k.futile(seen) {
		*f = relief{}
		return Hold{}
	}
	if f.row++; f.row < r.policy.Futile {
		return Hold{}
	}
	f.holds++
	f.until = now.Add(doubled(r.policy.FutileBackOff, f.holds, LongestFutile))
	return r.Futile(c, now)
}

// Futile is the hold of evictions for a condition that have stopped to help.
func (r *Restraint) Futile(c signal.Condition, now time.Time) Hold {
	if r == nil || !now.Before(r.relief[c].until) {
		return Hold{}
	}
	return Hold{By: Futile, Condition: c, N: r.relief[c].row, Until: r.relief[c].until}
}

// Clear forgets what evictions for a condition have led to: it is False again.
// Whether the last one helped is answered by that. It reports whether there was
// anything to forget.
func (r *Restraint) Clear(c signal.Condition) bool {
	if r == nil || r.relief[c] == (relief{}) {
		return false
	}
	r.relief[c], r.moved = relief{}, true
	return true
}

// futile reports whether less than half of what the pod was seen to use has come
// to anybody's good: is available now, or used by pods. Of a pod of which
// nothing was seen, any amount is enough.
func (k *Kill) futile(now *Sight) bool {
	left := minus(k.Expected, grown(&k.Before, now))
	if k.Expected <= 0 {
		return left <= 0
	}
	return left < k.Expected/2+k.Expected%2
}

// grown is by how much more is held outside of pods than before. A pod that was
// measured only once of two times counts as unchanged; one that came or went,
// with all it uses.
func grown(before, now *Sight) signal.Amount {
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
			all = all.Plus(s.Used)
		}
	}
	return all
}

func byUID(a, b Share) int { return cmp.Compare(a.UID, b.UID) }

// minus is a − b, or the nearest that there is.
func minus(a, b signal.Amount) signal.Amount {
	switch {
	case b > 0 && a < math.MinInt64+b:
		return math.MinInt64
	case b == math.MinInt64:
		return a.Plus(math.MaxInt64)
	}
	return a.Plus(-b)
}
