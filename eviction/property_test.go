package eviction_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

var (
	seedFlag      = flag.Uint64("seed", 0, "seed of the random timelines; 0 draws one")
	timelinesFlag = flag.Uint64("timelines", 10_000, "number of random timelines")
)

func seed() uint64 {
	if *seedFlag != 0 {
		return *seedFlag
	}
	return rand.Uint64()
}

// timeline is one random configuration with its observations.
type timeline struct {
	configured    []referenceThreshold
	enforced      bool
	layout        string
	transition    time.Duration
	reserve       time.Duration
	earlyEviction string
	steps         []referenceStep
	restarts      map[int]bool
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomTimeline draws all figures from few values, to hit boundaries and to combine several
// events.
func randomTimeline(r *rand.Rand) timeline {
	l := timeline{
		enforced: r.IntN(2) == 0, layout: pick(r, "single", "dedicated", "split"),
		transition:    pick(r, 20*time.Second, 45*time.Second, 5*time.Minute),
		reserve:       pick(r, 0, time.Millisecond, 500*time.Millisecond, 5*time.Second),
		earlyEviction: pick(r, "imminent", "imminent", "imminent", "immediate", "never"),
		restarts:      map[int]bool{},
	}
	value := func() (int64, float32) {
		if r.IntN(3) == 0 {
			return 0, pick[float32](r, 10, 33.3, 50, 99.9) / 100
		}
		return 1 + r.Int64N(12), 0
	}
	for _, sig := range signalOrder {
		for range r.IntN(3) { // none, one or two thresholds per signal
			c := referenceThreshold{signal: sig, grace: pick(r, 0, 0, 10*time.Second, 30*time.Second)}
			c.amount, c.percent = value()
			if r.IntN(2) == 0 {
				c.reclaim, c.reclaimP = value()
			}
			l.configured = append(l.configured, c)
		}
	}
	r.Shuffle(len(l.configured), func(i, j int) { l.configured[i], l.configured[j] = l.configured[j], l.configured[i] })
	at := time.Duration(0)
	for i := range 4 + r.IntN(12) {
		at += pick(r, time.Millisecond, 100*time.Millisecond, 5*time.Second, 10*time.Second, 10*time.Second, 20*time.Second)
		l.steps = append(l.steps, randomStep(r, at))
		l.restarts[i] = r.IntN(8) == 0
	}
	return l
}

func randomStep(r *rand.Rand, at time.Duration) referenceStep {
	s := referenceStep{at: at, early: r.IntN(3) == 0, seen: map[string]referenceObservation{}, after: map[string]referenceObservation{}}
	for _, sig := range signalOrder {
		draw := func() referenceObservation {
			seen := referenceObservation{available: r.Int64N(16), capacity: 1 + r.Int64N(30), at: at}
			if r.IntN(5) == 0 {
				seen.at = at - pick(r, 0, time.Second, 10*time.Second, 30*time.Second)
			}
			return seen
		}
		if r.IntN(6) > 0 {
			s.seen[sig] = draw()
			if r.IntN(2) == 0 {
				s.after[sig] = draw()
			}
		}
	}
	return s
}

// String lists the configuration; the steps follow from the seed.
func (l timeline) String() string {
	return fmt.Sprintf("%s, enforced %v, transition %s, horizon %s, early eviction %s: %+v",
		l.layout, l.enforced, l.transition, l.reserve, l.earlyEviction, l.configured)
}

func (l timeline) policy() (*eviction.Policy, error) {
	layout, err := signals.ParseLayout(l.layout)
	if err != nil {
		return nil, err
	}
	earlyEviction, err := eviction.ParseEarlyEviction(l.earlyEviction)
	if err != nil {
		return nil, err
	}
	s := eviction.Settings{BindAllocatable: l.enforced, Layout: layout, TransitionPeriod: l.transition, EarlyEviction: earlyEviction, EarlyEvictionHorizon: l.reserve}
	for _, c := range l.configured {
		s.Thresholds = append(s.Thresholds, c.threshold())
	}
	return eviction.NewPolicy(s)
}

func TestMachine_AgreesWithReference(t *testing.T) {
	seed := seed()
	t.Parallel()
	for i := range *timelinesFlag {
		l := randomTimeline(rand.New(rand.NewPCG(seed, i)))
		if problem := l.compare(); problem != "" {
			t.Fatalf("timeline %d (replay: -run AgreesWithReference -seed %d): %s\n%s", i, seed, problem, l)
		}
	}
}

// compare runs both and returns the first difference.
func (l timeline) compare() string {
	policy, err := l.policy()
	if err != nil {
		return err.Error()
	}
	reference := newReference(l.configured, l.enforced, l.layout)
	reference.transition, reference.reserve, reference.earlyEviction = l.transition, l.reserve, l.earlyEviction
	machine := eviction.New(policy)
	for i := range l.steps {
		step := &l.steps[i]
		if l.restarts[i] {
			if machine, err = restored(machine, epoch.Add(step.at)); err != nil {
				return err.Error()
			}
			reference.forget()
		}
		snapshot := step.snapshot(reference.before)
		got, want := machine.Evaluate(snapshot), reference.check(step)
		if problem := differ(policy, machine, &got, want, snapshot, step); problem != "" {
			return fmt.Sprintf("step %d at %s: %s", i, step.at, problem)
		}
	}
	return ""
}

func differ(p *eviction.Policy, m *eviction.Machine, got *eviction.Verdict, want referenceVerdict, s *signals.Snapshot, step *referenceStep) string {
	for what, both := range map[string][2][]string{
		"met":        {got.GracePassed.Names(), want.met},
		"unknown":    {got.Unknown.Names(), want.unknown},
		"conditions": {got.Conditions.Names(), want.conditions},
	} {
		if !slices.Equal(both[0], both[1]) {
			return fmt.Sprintf("%s %v, want %v", what, both[0], both[1])
		}
	}
	if got.Target == nil {
		if want.acts != "" {
			return "does not act, want action for " + want.acts
		}
		return ""
	}
	if got.Target.Signal.String() != want.acts || got.Target != &p.Thresholds[want.threshold] {
		return fmt.Sprintf("acts for %s, want %s", got.Target, want.acts)
	}
	now := s.Node
	fill(&now, step.after)
	if still := m.StillMet(got, &now); still != want.evicts {
		return fmt.Sprintf("still met after garbage collection: %v, want %v", still, want.evicts)
	}
	return ""
}

// restored restores the state in a new machine through a state file.
func restored(old *eviction.Machine, now time.Time) (*eviction.Machine, error) {
	data, err := json.Marshal(old.Save())
	if err != nil {
		return nil, err
	}
	var saved eviction.Saved
	if err := json.Unmarshal(data, &saved); err != nil {
		return nil, err
	}
	m := eviction.New(old.Policy())
	m.Restore(saved, now)
	return m, nil
}

// The invariants of the package's documentation, over the same timelines.
func TestMachine_Invariants(t *testing.T) {
	seed := seed()
	t.Parallel()
	for i := range *timelinesFlag / 4 {
		r := rand.New(rand.NewPCG(seed, i))
		l := randomTimeline(r)
		policy, err := l.policy()
		if err != nil {
			t.Fatal(err)
		}
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("timeline %d (replay: -run Invariants -seed %d): %s\n%s", i, seed, fmt.Sprintf(format, args...), l)
		}
		m := eviction.New(policy)
		lastTrue := map[signals.Condition]time.Time{} // start of the minimum duration of a condition
		var before *referenceStep
		for j := range l.steps {
			step := &l.steps[j]
			var state string
			if step.early {
				state = encoded(t, m)
			}
			snapshot := step.snapshot(before)
			v := m.Evaluate(snapshot)
			before = step

			if acts := v.Target != nil; acts && (!v.GracePassed.Has(v.Target.Signal) || !snapshot.Node[v.Target.Signal].Known) {
				fail("step %d acts for %s, which is not met", j, v.Target)
			}
			if step.early && l.earlyEviction != "immediate" {
				if v.GracePassed.Len() == 0 && encoded(t, m) != state {
					fail("step %d: an early check changed the state", j)
				}
				if v.GracePassed.Len() > 0 && (v.Target != nil && !v.Target.Signal.OfMemory() || l.earlyEviction == "never") {
					fail("step %d: an early check acts for %v", j, v.Target)
				}
			}
			for c, since := range lastTrue {
				if !v.Conditions.Has(c) && snapshot.At.Sub(since) < l.transition {
					fail("step %d: %s cleared before the transition period", j, c)
				}
			}
			for sig := range signals.All {
				if v.GracePassed.Has(sig) {
					lastTrue[sig.Definition().Condition] = snapshot.At
				}
			}
			if j%4 != 0 {
				continue // encoding takes most of the time of this test
			}
			if again, err := restored(m, snapshot.At); err != nil || encoded(t, again) != encoded(t, m) {
				fail("step %d: the restored state differs from the saved one: %v", j, err)
			}
		}
	}
}

func encoded(t *testing.T, m *eviction.Machine) string {
	t.Helper()
	data, err := json.Marshal(m.Save())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
