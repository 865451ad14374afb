package limiter_test

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random timelines; 0 draws one")

// The reference model stores the whole history and applies the rules from the start at each
// query.
type reference struct {
	policy  limiter.Policy
	evicted []referenceEviction
	verdict []referenceVerdict
}

type referenceEviction struct {
	namespace, owner string
	at               time.Time
}

type referenceVerdict struct {
	at                 time.Time
	ineffective, clear bool // clear: the pressure ended
}

func (w *reference) spent(namespace string, urgent bool, now time.Time) limiter.Limit {
	if w.policy.PerHour == 0 {
		return limiter.Limit{}
	}
	bound := w.policy.PerHour
	if urgent {
		bound *= limiter.UrgentBounds
	}
	all, own, namespaces := 0, 0, map[string]bool{namespace: true}
	for _, e := range w.evicted {
		if now.Sub(e.at) >= time.Hour {
			continue
		}
		all++
		namespaces[e.namespace] = true
		if e.namespace == namespace {
			own++
		}
	}
	share := max(1, bound/len(namespaces))
	if all < bound || own < share {
		return limiter.Limit{}
	}
	for _, e := range w.evicted { // one of them is the first to be old enough
		until, all, own := e.at.Add(time.Hour), 0, 0
		for _, e := range w.evicted {
			if until.Sub(e.at) < time.Hour {
				all++
				if e.namespace == namespace {
					own++
				}
			}
		}
		if until.After(now) && (all < bound || own < share) {
			return limiter.Limit{By: limiter.Quota, Namespace: namespace, N: w.within(now), Until: until}
		}
	}
	panic("an endless limit")
}

func (w *reference) within(now time.Time) (n int) {
	for _, e := range w.evicted {
		if now.Sub(e.at) < time.Hour {
			n++
		}
	}
	return n
}

func (w *reference) ineffective(now time.Time) limiter.Limit {
	row, wait := 0, time.Duration(0)
	var until time.Time
	for _, v := range w.verdict {
		switch {
		case v.clear:
			row, wait, until = 0, 0, time.Time{}
			continue
		case !v.ineffective:
			row, until = 0, time.Time{}
			continue
		}
		if row++; row < w.policy.MaxIneffective {
			continue
		}
		if wait = 2 * wait; wait == 0 {
			wait = w.policy.IneffectiveBackoff
		}
		wait = min(wait, time.Hour)
		until = v.at.Add(wait)
	}
	if !now.Before(until) {
		return limiter.Limit{}
	}
	return limiter.Limit{By: limiter.Ineffective, Condition: signals.MemoryPressure, N: row, Until: until}
}

func (w *reference) restartLoop(owner string, now time.Time) limiter.Limit {
	if w.policy.OwnerBackoff == 0 {
		return limiter.Limit{}
	}
	var times []time.Time // of a possible loop
	var wait time.Duration
	var until time.Time
	n := 0
	for _, e := range w.evicted {
		if e.owner != owner {
			continue
		}
		last := until
		if len(times) > 0 && times[len(times)-1].After(last) {
			last = times[len(times)-1]
		}
		if e.at.Sub(last) > 10*time.Minute {
			times, wait, n = nil, 0, 0
		}
		times = append(times, e.at)
		three := len(times) >= 3 && e.at.Sub(times[len(times)-3]) <= 10*time.Minute
		if wait == 0 && !three {
			continue
		}
		if wait = 2 * wait; wait == 0 {
			wait = w.policy.OwnerBackoff
		}
		wait = min(wait, 30*time.Minute)
		until = e.at.Add(wait)
		n++
	}
	if !now.Before(until) {
		return limiter.Limit{}
	}
	return limiter.Limit{By: limiter.Owner, N: n + 2, Until: until}
}

// restarted is a new limiter with the saved state.
func restarted(t *testing.T, r *limiter.Limiter, p limiter.Policy, now time.Time) *limiter.Limiter {
	t.Helper()
	data, err := json.Marshal(r.Save())
	if err != nil {
		t.Fatal(err)
	}
	var saved limiter.Saved
	if err := json.Unmarshal(data, &saved); err != nil {
		t.Fatal(err)
	}
	successor := limiter.New(p)
	successor.Restore(saved, now)
	return successor
}

func same(a, b limiter.Limit) bool {
	return a.By == b.By && a.Condition == b.Condition && a.Namespace == b.Namespace && a.N == b.N && a.Until.Equal(b.Until)
}

func TestLimiter_AgreesWithReference(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	limited := map[limiter.Cause]int{}
	for i := range uint64(2_000) {
		r := rand.New(rand.NewPCG(seed, i))
		p := limiter.Policy{PerHour: r.IntN(5), MaxIneffective: r.IntN(4), IneffectiveBackoff: time.Duration(1+r.IntN(20)) * time.Minute,
			OwnerBackoff: time.Duration(r.IntN(4)) * time.Minute}
		tested, w := limiter.New(p), &reference{policy: p}
		now := start
		for step := range 60 {
			now = now.Add(time.Duration(r.IntN(3)*r.IntN(3)*r.IntN(300)) * time.Second)
			switch r.IntN(6) {
			case 0, 1:
				e := referenceEviction{[]string{"a", "b", "c"}[r.IntN(3)], []string{"", "x", "y"}[r.IntN(3)], now}
				tested.Evicted(e.namespace, e.owner, now)
				if r.IntN(5) == 0 {
					tested.Withdrawn(e.namespace, e.owner, now)
				} else {
					w.evicted = append(w.evicted, e)
				}
			case 2, 3:
				v := referenceVerdict{at: now, ineffective: r.IntN(3) > 0}
				if p.MaxIneffective > 0 {
					evaluated(tested, now, v.ineffective)
					w.verdict = append(w.verdict, v)
				}
			case 4:
				if r.IntN(4) == 0 {
					tested.Clear(signals.MemoryPressure)
					w.verdict = append(w.verdict, referenceVerdict{at: now, clear: true})
				}
			case 5:
				tested = restarted(t, tested, p, now)
			}
			for _, pair := range [][2]limiter.Limit{
				{tested.Spent("a", false, now), w.spent("a", false, now)}, {tested.Spent("b", true, now), w.spent("b", true, now)},
				{tested.Spent("d", false, now), w.spent("d", false, now)}, {tested.Ineffective(signals.MemoryPressure, now), w.ineffective(now)},
				{tested.RestartLoop("x", now), w.restartLoop("x", now)}, {tested.RestartLoop("y", now), w.restartLoop("y", now)},
			} {
				limited[pair[0].By]++
				if !same(pair[0], pair[1]) {
					t.Fatalf("seed %d, timeline %d, step %d, %+v: got %+v, want %+v", seed, i, step, p, pair[0], pair[1])
				}
			}
		}
	}
	for _, by := range []limiter.Cause{limiter.Quota, limiter.Ineffective, limiter.Owner} {
		if limited[by] < 1000 {
			t.Errorf("%s limited %d times, want at least 1000", by, limited[by])
		}
	}
}

// A clock that was set back must neither extend a limit beyond its maximum nor refund evictions.
func TestRestore_ClockSetBack(t *testing.T) {
	p := limiter.Policy{PerHour: 1, MaxIneffective: 1, IneffectiveBackoff: time.Hour, OwnerBackoff: 30 * time.Minute}
	r := limiter.New(p)
	for range 3 {
		r.Evicted("ns", "o", start)
	}
	evaluated(r, start, true)
	before := start.Add(-48 * time.Hour)
	s := restarted(t, r, p, before)
	for _, h := range []limiter.Limit{s.Spent("ns", false, before), s.Ineffective(signals.MemoryPressure, before), s.RestartLoop("o", before)} {
		if left := h.Until.Sub(before); left <= 0 || left > time.Hour {
			t.Errorf("%s lasts %s", h.By, left)
		}
	}
	if p.PerHour = 0; restarted(t, r, p, start).Spent("ns", false, start).By != limiter.None {
		t.Error("a limit remained after the quota was removed")
	}
}

func TestMoved_OnlyAfterChange(t *testing.T) {
	r := limiter.New(limiter.Policy{PerHour: 1, MaxIneffective: 1, IneffectiveBackoff: time.Minute})
	var moved []bool
	for _, do := range []func(){func() {}, func() { r.Evicted("ns", "o", start) }, func() {}, func() { evaluated(r, start, true) },
		func() { r.Clear(signals.MemoryPressure) }, func() { r.Clear(signals.MemoryPressure) }} {
		do()
		moved = append(moved, r.Changed())
	}
	if want := []bool{false, true, false, true, true, false}; !slices.Equal(moved, want) {
		t.Errorf("%v, want %v", moved, want)
	}
}
