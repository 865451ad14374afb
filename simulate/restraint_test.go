package simulate_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/simulate"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random timelines; 0 draws one")

const (
	mebi      = 1 << 20
	lowest    = 100 * mebi // the threshold
	all       = 4096 * mebi
	pressure  = 5 * time.Minute
	protected = 5 // every fifth pod is protected
)

// restraintTwin is the reference model of a step. It uses only observations and earlier
// evictions, and keeps the amounts in tables from the start.
type restraintTwin struct {
	policy  limiter.Policy
	evicted []twinEvicted
	spared  map[string]twinWait // by owner
	lastMet time.Duration
	met     bool // ever
	holds   int
	until   time.Duration
	ledger  []twinEntry
	open    bool // the last entry was not judged yet
	outside int64
	before  *int64 // available in the previous step
	beforeT time.Duration
	quiet   *twinQuiet // within a limit for ineffective evictions
}

type twinQuiet struct {
	at      time.Duration
	outside int64
}

type twinEvicted struct {
	owner string
	at    time.Duration
}

type twinWait struct {
	n     int // consecutive evictions
	until time.Duration
}

type twinEntry struct{ expected, left int64 }

// expect returns the limit of a step, or the pod to evict among pods in order.
func (w *restraintTwin) expect(at time.Duration, restart bool, available, outside int64, order []*signals.Pod, used map[string]int64) (hold limiter.Cause, evicted string) {
	before, beforeT := w.before, w.beforeT
	w.before, w.beforeT = &available, at
	if restart {
		before, w.quiet = nil, nil
		if w.open { // its result is unknown
			w.ledger, w.open = w.ledger[:len(w.ledger)-1], false
		}
		w.ledger = make([]twinEntry, w.row())
		for i := range w.ledger {
			w.ledger[i].expected = 1
		}
	}
	if available < lowest {
		w.lastMet, w.met = at, true
	}
	if !w.met || at-w.lastMet >= pressure {
		w.ledger, w.holds, w.until, w.open, w.quiet = nil, 0, 0, false, nil
	}
	urgent := 2*available < lowest || before != nil && *before > available && float64(available)/float64(*before-available)*(at-beforeT).Seconds() <= 0.5
	switch {
	case available >= lowest:
		return limiter.None, ""
	case at < w.until && !urgent:
		return limiter.Ineffective, ""
	}
	if w.open {
		w.open, w.quiet = false, &twinQuiet{at, outside}
		if w.book(outside - w.outside); w.row() >= w.policy.Futile {
			w.holds++
			w.until = at + min(time.Hour, w.policy.FutileBackOff<<min(w.holds-1, 10))
			return limiter.Ineffective, ""
		}
		w.until = 0
	}
	for _, p := range order {
		if p.Protection != signals.Unprotected {
			continue
		}
		uses := used[p.Key()]
		hog := uses > 0 && uses >= lowest-available
		if by := w.spares(p, at, urgent, hog, uses, outside); by != limiter.None || hold != limiter.None && !hog {
			hold = cmp.Or(hold, by)
			continue
		}
		w.goes(p.Owner, at)
		if w.policy.Futile > 0 {
			w.ledger, w.outside, w.open = append(w.ledger, twinEntry{max(uses, 1), uses}), outside, true
		}
		return hold, p.Key()
	}
	return hold, ""
}

// spares returns the limit on one pod.
func (w *restraintTwin) spares(p *signals.Pod, at time.Duration, urgent, hog bool, uses, outside int64) limiter.Cause {
	bound := w.policy.PerHour
	if urgent {
		bound *= limiter.UrgentBounds
	}
	switch {
	case bound > 0 && w.within(at) >= bound:
		return limiter.Quota
	case at < w.until && !(hog && w.lasts(at, uses, outside)):
		return limiter.Ineffective
	case w.policy.OwnerBackoff > 0 && at < w.spared[p.Owner].until && !urgent:
		return limiter.Owner
	}
	return limiter.None
}

// lasts reports whether growth outside of pods takes more than ten minutes for half of a pod's
// usage, measured over 10 s.
func (w *restraintTwin) lasts(at time.Duration, uses, outside int64) bool {
	if w.quiet != nil && at-w.quiet.at < 10*time.Second {
		return false
	}
	before := w.quiet
	if before != nil {
		if rate := float64(outside-before.outside) / (at - before.at).Seconds(); rate*600 <= float64(uses/2) {
			return true
		}
	}
	w.quiet = &twinQuiet{at, outside}
	return false
}

func (w *restraintTwin) within(at time.Duration) (n int) {
	for _, e := range w.evicted {
		if at-e.at < time.Hour {
			n++
		}
	}
	return n
}

func (w *restraintTwin) book(taken int64) {
	for i := len(w.ledger) - 1; i >= 0; i-- {
		left := w.ledger[i].left - taken
		w.ledger[i].left = min(max(left, 0), w.ledger[i].expected)
		taken = w.ledger[i].left - left
	}
}

func (w *restraintTwin) row() (n int) {
	for i := len(w.ledger) - 1; i >= 0 && 2*w.ledger[i].left < w.ledger[i].expected; i-- {
		n++
	}
	return n
}

func (w *restraintTwin) goes(owner string, at time.Duration) {
	var times []time.Duration
	for _, e := range w.evicted {
		if e.owner == owner {
			times = append(times, e.at)
		}
	}
	w.evicted = append(w.evicted, twinEvicted{owner, at})
	wait := w.spared[owner]
	if len(times) > 0 && at-max(times[len(times)-1], wait.until) > 10*time.Minute {
		delete(w.spared, owner)
		wait = twinWait{}
	}
	if wait.n > 0 || len(times) >= 2 && at-times[len(times)-2] <= 10*time.Minute {
		wait.n++
		wait.until = at + min(30*time.Minute, w.policy.OwnerBackoff<<min(wait.n-1, 10))
		w.spared[owner] = wait
	}
}

func randomTale(t *testing.T, r *rand.Rand) *simulate.NodeScenario {
	t.Helper()
	policy, err := eviction.NewPolicy(eviction.Settings{Thresholds: []eviction.Threshold{{Signal: signals.MemoryAvailable,
		Value: eviction.Value{Quantity: signals.Quantity{Value: lowest}}}}, TransitionPeriod: pressure, EarlyEvictionHorizon: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := &simulate.NodeScenario{Policy: policy, Restraint: limiter.Policy{
		PerHour: r.IntN(6), Futile: r.IntN(4), FutileBackOff: time.Duration(1+r.IntN(10)) * time.Minute, OwnerBackoff: time.Duration(r.IntN(4)) * time.Minute}}
	at, used := time.Duration(0), map[string]int64{}
	for i := range 50 {
		at += time.Duration(1+r.IntN(5)*r.IntN(5)*r.IntN(30)) * time.Second
		step := simulate.Step{At: at, Kind: signals.Periodic, Usage: map[string]*signals.Usage{}, Restart: r.IntN(12) == 0}
		for range 1 + r.IntN(2) {
			p := signals.Pod{UID: fmt.Sprintf("%02d-%d", i, len(used)), Namespace: "default", Name: fmt.Sprintf("p%d", len(used)), Owner: fmt.Sprint("owner", r.IntN(3)), Priority: int32(r.IntN(2))}
			if r.IntN(protected) == 0 {
				p.Protection = []signals.Protection{signals.Static, signals.Critical, signals.OptedOut, signals.Namespaced}[r.IntN(4)]
			}
			step.Add = append(step.Add, p)
			used[p.Key()] = 0
		}
		for name := range used {
			used[name] = int64(r.IntN(4)) * 20 * mebi
			step.Usage[name] = &signals.Usage{Memory: signals.Of(signals.Bytes(used[name]))}
		}
		available := int64([]int{0, 1, 30, 60, 90, 99, 100, 300, 2000}[r.IntN(9)]) * mebi
		step.Node[signals.MemoryAvailable] = signals.Observed(signals.Amount(available), all, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(at))
		s.Steps = append(s.Steps, step)
	}
	return s
}

func TestRestraintOfATimelineAgreesWithItsNaiveTwin(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	held := map[limiter.Cause]int{}
	for n := range uint64(300) {
		s := randomTale(t, rand.New(rand.NewPCG(seed, n)))
		w := &restraintTwin{policy: s.Restraint, spared: map[string]twinWait{}}
		var active []signals.Pod
		var evictions []time.Duration
		err := s.Run(func(step *simulate.Step, o *agent.Outcome, _ *eviction.Machine) error {
			active = append(active, step.Add...)
			available, used := int64(step.Node[signals.MemoryAvailable].Available), map[string]int64{}
			outside := int64(all) - available
			for i := range active {
				used[active[i].Key()] = int64(step.Usage[active[i].Key()].Memory.Value)
				outside -= used[active[i].Key()]
			}
			cause, goes := w.expect(step.At, step.Restart, available, outside, inOrder(active, used), used)
			evicted := ""
			if o.Evicted != nil {
				evicted = o.Evicted.Pod.Key()
				evictions = append(evictions, step.At)
				if o.Evicted.Pod.Protection != signals.Unprotected {
					t.Errorf("%s is protected, and was evicted", evicted)
				}
				active = slices.DeleteFunc(active, func(p signals.Pod) bool { return p.Key() == evicted })
			}
			if held[o.Limit.By]++; o.Limit.By != cause || evicted != goes {
				t.Fatalf("seed %d, timeline %d, %s, %+v: held by %q, evicted %q; the twin %q, %q", seed, n, step.At, s.Restraint, o.Limit.By, evicted, cause, goes)
			}
			if left := o.Limit.Until.Sub(o.Snapshot.At); cause != limiter.None && (left <= 0 || left > time.Hour) {
				t.Errorf("a hold by %s lasts %s", cause, left)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		withinBound(t, s.Restraint.PerHour*limiter.UrgentBounds, evictions)
	}
	for _, by := range []limiter.Cause{limiter.None, limiter.Quota, limiter.Ineffective, limiter.Owner} {
		if held[by] < 20 {
			t.Errorf("%q was the cause %d times: this says little", by, held[by])
		}
	}
}

// inOrder returns the pods by the rule for memory without requests.
func inOrder(pods []signals.Pod, used map[string]int64) (order []*signals.Pod) {
	for i := range pods {
		order = append(order, &pods[i])
	}
	slices.SortFunc(order, func(a, b *signals.Pod) int {
		x, y := used[a.Key()], used[b.Key()]
		switch {
		case (x > 0) != (y > 0):
			return int(min(y, 1) - min(x, 1))
		case a.Priority != b.Priority:
			return int(a.Priority - b.Priority)
		case x != y:
			return int(y - x)
		}
		return map[bool]int{true: -1, false: 1}[a.UID < b.UID]
	})
	return order
}

// withinBound checks every hour against the quota.
func withinBound(t *testing.T, bound int, evictions []time.Duration) {
	t.Helper()
	for i, first := range evictions {
		n := 0
		for _, at := range evictions[i:] {
			if at-first < time.Hour {
				n++
			}
		}
		if bound > 0 && n > bound {
			t.Errorf("%d evictions in the hour from %s on, allowed are %d", n, first, bound)
		}
	}
}
