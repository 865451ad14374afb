package limiter

import (
	"cmp"
	"math"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// A Share is what one pod was seen to use, in the unit of a signal.
type Share struct {
	UID   string
	Used  signals.Amount
	Known bool // false: it is there, but was not measured
}

// A Sight is what was seen of a resource at one time: what is available, and
// what each pod uses. The difference to the capacity is held outside of pods.
type Sight struct {
	Left   signals.Amount // capacity − available is held by somebody
	Total  signals.Amount // the capacity
	Shares []Share
}

// A Kill is an eviction whose use is asked for.
type Kill struct {
	Signal   signals.Signal
	UID      string
	Expected signals.Amount // what the pod was seen to use, 0 if that is unknown
	Before   Sight          // when it was decided
}

// relief is what is known of evictions for one condition since it has become
// True.
type relief struct {
	last     *Kill     // what has become of it since was not looked at yet
	accounts []account // of the evictions, in their order
	holds    int       // begun: the next one lasts twice as long
	until    time.Time
	quiet    map[signals.Signal]quiet // of each within a hold: two of one condition take turns
}

// An account is what is left of what one eviction has freed.
type account struct {
	uid            string
	expected, left signals.Amount
}

func (a *account) futile() bool { return a.left < a.expected/2+a.expected%2 }

// MaxIneffectiveLimit is the largest [Policy.Futile] that there can be: no more evictions are
// remembered.
const MaxIneffectiveLimit = 100

// Expect notes an eviction, of which [Restraint.Judge] says later whether it
// helped. Of a pod of which nothing was seen, any amount is enough.
func (r *Limiter) Expect(k *Kill) {
	if r == nil || r.policy.Futile == 0 {
		return
	}
	f := &r.relief[k.Signal.Definition().Condition]
	f.last = k
	f.accounts = append(f.accounts[max(0, len(f.accounts)-MaxIneffectiveLimit+1):], account{k.UID, max(k.Expected, 1), max(k.Expected, 0)})
}

// Cancel drops an eviction that did not happen.
func (r *Limiter) Cancel(uid string) {
	if r == nil {
		return
	}
	for i := range r.relief {
		f := &r.relief[i]
		if n := len(f.accounts) - 1; n >= 0 && f.accounts[n].uid == uid {
			f.accounts, f.last = f.accounts[:n], nil
		}
	}
}

// Awaiting is the last eviction for a condition, until it was judged; nil if there
// is none.
func (r *Limiter) Awaiting(c signals.Condition) *Kill {
	if r == nil {
		return nil
	}
	return r.relief[c].last
}

// Judge holds what is seen now, when somebody would be evicted for a condition
// again, against what was seen before the last one. It returns the hold that
// begins with that, if one does. An eviction that helped ends a hold.
func (r *Limiter) Judge(c signals.Condition, now time.Time, seen *Sight) Limit {
	f := &r.relief[c]
	f.take(grown(&f.last.Before, seen))
	f.quiet = nil
	f.watch(f.last.Signal, now, seen)
	f.last, r.moved = nil, true
	if f.row() < r.policy.Futile {
		f.until = time.Time{}
		return Limit{}
	}
	f.holds++
	f.until = now.Add(doubled(r.policy.FutileBackOff, f.holds, MaxFutile))
	return r.Ineffective(c, now)
}

// take books what was taken outside of pods on the last eviction first, and what
// is more than that on the one before: pods that go one right after the other are
// not taken for what they leave until then. What is given back goes the same way.
func (f *relief) take(taken signals.Amount) {
	for i := len(f.accounts) - 1; i >= 0 && taken != 0; i-- {
		a := &f.accounts[i]
		before := a.left
		a.left = min(max(minus(a.left, taken), 0), a.expected)
		taken = minus(taken, before-a.left)
	}
}

// row is how many evictions were futile, one after the other, up to the last.
func (f *relief) row() (n int) {
	for n < len(f.accounts) && f.accounts[len(f.accounts)-1-n].futile() {
		n++
	}
	return n
}

// judged is the part of which it is known what became.
func (f relief) judged() relief {
	if f.last != nil {
		f.accounts = f.accounts[:len(f.accounts)-1]
	}
	return f
}

// Ineffective is the hold of evictions for a condition that have stopped to help.
func (r *Limiter) Ineffective(c signals.Condition, now time.Time) Limit {
	if r == nil || !now.Before(r.relief[c].until) {
		return Limit{}
	}
	f := r.relief[c].judged()
	return Limit{By: Ineffective, Condition: c, N: f.row(), Until: f.until}
}

// Clear forgets what evictions for a condition have led to: it is False again.
// It reports whether there was anything to forget.
func (r *Limiter) Clear(c signals.Condition) bool {
	if r == nil || len(r.relief[c].accounts) == 0 && r.relief[c].holds == 0 {
		return false
	}
	r.relief[c], r.moved = relief{}, true
	return true
}

// grown is by how much more is held outside of pods than before. A pod that was
// measured only once of two times counts as unchanged; one that came or went,
// with all it uses.
func grown(before, now *Sight) signals.Amount {
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
func minus(a, b signals.Amount) signals.Amount {
	switch {
	case b > 0 && a < math.MinInt64+b:
		return math.MinInt64
	case b == math.MinInt64:
		return a.Plus(math.MaxInt64)
	}
	return a.Plus(-b)
}
