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

// limiterReference is the reference model of a step. It uses only observations and earlier
// evictions, with the amounts in tables from the start.
type limiterReference struct {
	policy      limiter.Policy
	helps       bool // only pods with an end that helps are chosen
	evicted     []refEviction
	backoffs    map[string]refWait // by owner
	lastMet     time.Duration
	met         bool // ever
	limits      int
	until       time.Duration
	entries     []refEntry
	open        bool // the result of the last entry is not known yet
	outside     int64
	before      *int64 // available in the previous step
	beforeT     time.Duration
	quietPeriod *refQuiet // within a limit for ineffective evictions
}

type refQuiet struct {
	at      time.Duration
	outside int64
}

type refEviction struct {
	owner string
	at    time.Duration
}

type refWait struct {
	n     int // consecutive evictions
	until time.Duration
}

type refEntry struct{ expected, rest int64 }

// expect returns the limit of a step, or the pod to evict among pods in order.
func (w *limiterReference) expect(at time.Duration, restart bool, available, outside int64, order []*signals.Pod, used map[string]int64) (limit limiter.Cause, evicted string) {
	before, beforeT := w.before, w.beforeT
	w.before, w.beforeT = &available, at
	if restart {
		before, w.quietPeriod = nil, nil
		if w.open { // its result is unknown
			w.entries, w.open = w.entries[:len(w.entries)-1], false
		}
		w.entries = make([]refEntry, w.ineffective())
		for i := range w.entries {
			w.entries[i].expected = 1
		}
	}
	if available < lowest {
		w.lastMet, w.met = at, true
	}
	if !w.met || at-w.lastMet >= pressure {
		w.entries, w.limits, w.until, w.open, w.quietPeriod = nil, 0, 0, false, nil
	}
	urgent := 2*available < lowest || before != nil && *before > available && float64(available)/float64(*before-available)*(at-beforeT).Seconds() <= 0.5
	switch {
	case available >= lowest:
		return limiter.None, ""
	case at < w.until && !urgent:
		return limiter.Ineffective, ""
	}
	if w.open {
		w.open, w.quietPeriod = false, &refQuiet{at, outside}
		if w.credit(outside - w.outside); w.ineffective() >= w.policy.MaxIneffective {
			w.limits++
			w.until = at + min(time.Hour, w.policy.IneffectiveBackoff<<min(w.limits-1, 10))
			return limiter.Ineffective, ""
		}
		w.until = 0
	}
	for _, p := range order {
		if p.Protection != signals.Unprotected {
			continue
		}
		uses, shortage := used[p.Key()], int64(lowest)-available
		if w.helps && uses < mebi && uses < shortage || w.helps && 20*uses < shortage {
			continue
		}
		hog := uses > 0 && uses >= shortage
		if by := w.limitOf(p, at, urgent, hog, uses, outside); by != limiter.None || limit != limiter.None && !hog {
			limit = cmp.Or(limit, by)
			continue
		}
		w.evictPod(p.Owner, at)
		if w.policy.MaxIneffective > 0 {
			w.entries, w.outside, w.open = append(w.entries, refEntry{max(uses, 1), uses}), outside, true
		}
		return limit, p.Key()
	}
	return limit, ""
}

// limitOf returns the limit on one pod.
func (w *limiterReference) limitOf(p *signals.Pod, at time.Duration, urgent, hog bool, uses, outside int64) limiter.Cause {
	bound := w.policy.PerHour
	if urgent {
		bound *= limiter.UrgentBounds
	}
	switch {
	case bound > 0 && w.within(at) >= bound:
		return limiter.Quota
	case at < w.until && !(hog && w.growsSlowly(at, uses, outside)):
		return limiter.Ineffective
	case w.policy.OwnerBackoff > 0 && at < w.backoffs[p.Owner].until && !urgent:
		return limiter.Owner
	}
	return limiter.None
}

// growsSlowly reports whether growth outside of pods takes more than ten minutes for half of a pod's
// usage, measured over 10 s.
func (w *limiterReference) growsSlowly(at time.Duration, uses, outside int64) bool {
	if w.quietPeriod != nil && at-w.quietPeriod.at < 10*time.Second {
		return false
	}
	before := w.quietPeriod
	if before != nil {
		if rate := float64(outside-before.outside) / (at - before.at).Seconds(); rate*600 <= float64(uses/2) {
			return true
		}
	}
	w.quietPeriod = &refQuiet{at, outside}
	return false
}

func (w *limiterReference) within(at time.Duration) (n int) {
	for _, e := range w.evicted {
		if at-e.at < time.Hour {
			n++
		}
	}
	return n
}

func (w *limiterReference) credit(taken int64) {
	for i := len(w.entries) - 1; i >= 0; i-- {
		rest := w.entries[i].rest - taken
		w.entries[i].rest = min(max(rest, 0), w.entries[i].expected)
		taken = w.entries[i].rest - rest
	}
}

func (w *limiterReference) ineffective() (n int) {
	for i := len(w.entries) - 1; i >= 0 && 2*w.entries[i].rest < w.entries[i].expected; i-- {
		n++
	}
	return n
}

func (w *limiterReference) evictPod(owner string, at time.Duration) {
	var times []time.Duration
	for _, e := range w.evicted {
		if e.owner == owner {
			times = append(times, e.at)
		}
	}
	w.evicted = append(w.evicted, refEviction{owner, at})
	wait := w.backoffs[owner]
	if len(times) > 0 && at-max(times[len(times)-1], wait.until) > 10*time.Minute {
		delete(w.backoffs, owner)
		wait = refWait{}
	}
	if wait.n > 0 || len(times) >= 2 && at-times[len(times)-2] <= 10*time.Minute {
		wait.n++
		wait.until = at + min(30*time.Minute, w.policy.OwnerBackoff<<min(wait.n-1, 10))
		w.backoffs[owner] = wait
	}
}

func randomScenario(t *testing.T, r *rand.Rand) *simulate.NodeScenario {
	t.Helper()
	policy, err := eviction.NewPolicy(eviction.Settings{Thresholds: []eviction.Threshold{{Signal: signals.MemoryAvailable,
		Value: eviction.Value{Quantity: signals.Quantity{Value: lowest}}}}, TransitionPeriod: pressure, EarlyEvictionHorizon: 500 * time.Millisecond, Choice: eviction.Choice(r.IntN(2))})
	if err != nil {
		t.Fatal(err)
	}
	s := &simulate.NodeScenario{Policy: policy, Restraint: limiter.Policy{
		PerHour: r.IntN(6), MaxIneffective: r.IntN(4), IneffectiveBackoff: time.Duration(1+r.IntN(10)) * time.Minute, OwnerBackoff: time.Duration(r.IntN(4)) * time.Minute}}
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
			used[name] = []int64{0, mebi / 2, 2 * mebi, 20 * mebi, 40 * mebi, 60 * mebi}[r.IntN(6)]
			step.Usage[name] = &signals.Usage{Memory: signals.Of(signals.Bytes(used[name]))}
		}
		available := int64([]int{0, 1, 30, 60, 90, 99, 100, 300, 2000}[r.IntN(9)]) * mebi
		step.Node[signals.MemoryAvailable] = signals.Observed(signals.Amount(available), all, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(at))
		s.Steps = append(s.Steps, step)
	}
	return s
}

func TestRun_LimitsEqualReferenceModel(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	limited := map[limiter.Cause]int{}
	for n := range uint64(300) {
		s := randomScenario(t, rand.New(rand.NewPCG(seed, n)))
		w := &limiterReference{policy: s.Restraint, helps: s.Policy.Choice == eviction.Helps, backoffs: map[string]refWait{}}
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
			cause, evictPod := w.expect(step.At, step.Restart, available, outside, inOrder(active, used), used)
			evicted := ""
			if o.Evicted != nil {
				evicted = o.Evicted.Pod.Key()
				evictions = append(evictions, step.At)
				if o.Evicted.Pod.Protection != signals.Unprotected {
					t.Errorf("%s is protected, and was evicted", evicted)
				}
				active = slices.DeleteFunc(active, func(p signals.Pod) bool { return p.Key() == evicted })
			}
			if limited[o.Limit.By]++; o.Limit.By != cause || evicted != evictPod {
				t.Fatalf("seed %d, timeline %d, %s, %+v: got limit %q, evicted %q; want %q, %q", seed, n, step.At, s.Restraint, o.Limit.By, evicted, cause, evictPod)
			}
			if rest := o.Limit.Until.Sub(o.Snapshot.At); cause != limiter.None && (rest <= 0 || rest > time.Hour) {
				t.Errorf("a limit by %s lasts %s", cause, rest)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		withinBound(t, s.Restraint.PerHour*limiter.UrgentBounds, evictions)
	}
	for _, by := range []limiter.Cause{limiter.None, limiter.Quota, limiter.Ineffective, limiter.Owner} {
		if limited[by] < 20 {
			t.Errorf("%q was the cause %d times, want at least 20", by, limited[by])
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
			t.Errorf("%d evictions in the hour from %s, want at most %d", n, first, bound)
		}
	}
}
