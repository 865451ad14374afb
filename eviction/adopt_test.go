package eviction_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// line returns a threshold of an amount or, below 0, of a percentage.
func line(s signals.Signal, value int, grace time.Duration, reclaim int) eviction.Threshold {
	of := func(v int) eviction.Value {
		if v < 0 {
			return eviction.Value{Fraction: float32(-v) / 100, Percent: fmt.Sprintf("%d%%", -v)}
		}
		return eviction.Value{Quantity: signals.Quantity{Value: signals.Amount(v)}}
	}
	return eviction.Threshold{Signal: s, Value: of(value), Grace: grace, MinReclaim: of(reclaim)}
}

func compiled(t *testing.T, thresholds ...eviction.Threshold) *eviction.Policy {
	t.Helper()
	p, err := eviction.NewPolicy(eviction.Settings{Thresholds: thresholds, TransitionPeriod: 5 * time.Minute, EarlyEvictionHorizon: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// periodic returns the snapshot of a periodic check with the same amount of each signal; below 0 they are
// unknown.
func periodic(at time.Time, available int) *signals.Snapshot {
	s := &signals.Snapshot{At: at}
	for _, sig := range []signals.Signal{signals.MemoryAvailable, signals.AllocatableMemoryAvailable, signals.PIDAvailable} {
		if s.Node[sig] = signals.Observed(signals.Amount(available), 1000, at); available < 0 {
			s.Node[sig] = signals.Unknown("unreadable")
		}
	}
	return s
}

// timers returns the met thresholds of a machine, with the seconds since the begin of each.
func timers(m *eviction.Machine, now time.Time) (all []string) {
	for _, s := range m.Save().Thresholds {
		text := fmt.Sprintf("%s since %.0f", s.Threshold, now.Sub(s.FirstObserved).Seconds())
		if s.ReclaimApplies {
			text += " acted"
		}
		all = append(all, text)
	}
	return all
}

// All thresholds of the old policy are met for 20 s when the new one is adopted.
func TestAdopt_TimersOfThresholds(t *testing.T) {
	const memory, pids = signals.MemoryAvailable, signals.PIDAvailable
	hard, soft := line(memory, 100, 0, 0), line(memory, 200, 60*time.Second, 0)
	for _, tc := range []struct {
		about         string
		before, after []eviction.Threshold
		unknown       bool // at the time of the change
		want          []string
	}{
		{"nothing changed", []eviction.Threshold{hard, soft}, []eviction.Threshold{hard, soft}, false, []string{"memory.available<100 since 20 acted", "memory.available<200 for 1m0s since 20"}},
		{"shorter grace period", []eviction.Threshold{soft}, []eviction.Threshold{line(memory, 200, 10*time.Second, 0)}, false, []string{"memory.available<200 for 10s since 20"}},
		{"longer grace period", []eviction.Threshold{line(memory, 200, 10*time.Second, 0)}, []eviction.Threshold{soft}, false, []string{"memory.available<200 for 1m0s since 20 acted"}},
		{"raised", []eviction.Threshold{soft}, []eviction.Threshold{line(memory, 300, 60*time.Second, 0)}, false, []string{"memory.available<300 for 1m0s since 20"}},
		{"lowered", []eviction.Threshold{soft}, []eviction.Threshold{line(memory, 199, 60*time.Second, 0)}, false, nil},
		{"other minimum reclaim", []eviction.Threshold{line(memory, 100, 0, 30)}, []eviction.Threshold{line(memory, 100, 0, 50)}, false, []string{"memory.available<100 reclaim 50 since 20 acted"}},
		{"soft one above a hard one", []eviction.Threshold{hard}, []eviction.Threshold{hard, soft}, false, []string{"memory.available<100 since 20 acted", "memory.available<200 for 1m0s since 20"}},
		{"raised, as much minimum reclaim", []eviction.Threshold{line(memory, 200, 10*time.Second, 50)}, []eviction.Threshold{line(memory, 300, 10*time.Second, 50)}, false, []string{"memory.available<300 for 10s reclaim 50 since 20 acted"}},
		{"raised, less minimum reclaim", []eviction.Threshold{line(memory, 200, 10*time.Second, 50)}, []eviction.Threshold{line(memory, 300, 10*time.Second, 30)}, false, nil},
		{"raised in its grace period, less minimum reclaim", []eviction.Threshold{line(memory, 200, 60*time.Second, 50)}, []eviction.Threshold{line(memory, 300, 60*time.Second, 0)}, false, []string{"memory.available<300 for 1m0s since 20"}},
		{"soft one above a hard one with a minimum reclaim", []eviction.Threshold{line(memory, 100, 0, 500)}, []eviction.Threshold{line(memory, 100, 0, 500), soft}, false, []string{"memory.available<100 reclaim 500 since 20 acted"}},
		{"hard one raised, less minimum reclaim", []eviction.Threshold{line(memory, 100, 0, 500)}, []eviction.Threshold{line(memory, 150, 0, 300)}, false, []string{"memory.available<150 reclaim 300 since 20 acted"}},
		{"hard one instead of a soft one", []eviction.Threshold{soft}, []eviction.Threshold{line(memory, 200, 0, 0)}, false, []string{"memory.available<200 since 20"}},
		{"hard one below a soft one", []eviction.Threshold{soft}, []eviction.Threshold{hard, soft}, false, []string{"memory.available<200 for 1m0s since 20"}},
		{"removed", []eviction.Threshold{hard, soft}, []eviction.Threshold{hard}, false, []string{"memory.available<100 since 20 acted"}},
		{"of another signal", []eviction.Threshold{hard}, []eviction.Threshold{line(pids, 100, 0, 0)}, false, nil},
		{"higher percentage", []eviction.Threshold{line(memory, -10, 0, 0)}, []eviction.Threshold{line(memory, -11, 0, 0)}, true, []string{"memory.available<11% since 20 acted"}},
		{"lower percentage", []eviction.Threshold{line(memory, -10, 0, 0)}, []eviction.Threshold{line(memory, -9, 0, 0)}, false, nil},
		{"amount as a percentage", []eviction.Threshold{hard}, []eviction.Threshold{line(memory, -10, 0, 0)}, false, []string{"memory.available<10% since 20 acted"}},
		{"lower percentage than the amount", []eviction.Threshold{hard}, []eviction.Threshold{line(memory, -9, 0, 0)}, false, nil},
		{"amount as a percentage of an unknown capacity", []eviction.Threshold{hard}, []eviction.Threshold{line(memory, -10, 0, 0)}, true, nil},
		{"unchanged and unknown", []eviction.Threshold{soft}, []eviction.Threshold{soft}, true, []string{"memory.available<200 for 1m0s since 20"}},
	} {
		m := eviction.New(compiled(t, tc.before...))
		m.Evaluate(periodic(epoch, 50))
		now := epoch.Add(20 * time.Second)
		last := 50
		if tc.unknown {
			last = -1
		}
		m.Evaluate(periodic(now, last))
		conditions := m.Conditions()
		next := m.Adopt(compiled(t, tc.after...), &periodic(now, last).Node)
		if got := timers(next, now); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.about, got, tc.want)
		}
		if next.Conditions() != conditions || len(next.Save().Conditions) != len(m.Save().Conditions) {
			t.Errorf("%s: conditions %v, want %v", tc.about, next.Conditions().Names(), conditions.Names())
		}
	}
}

// A soft threshold that is added does not count the time for which a hard one was met by its minimum reclaim
// alone.
func TestAdopt_MinimumReclaimIsNoGracePeriod(t *testing.T) {
	hard, soft := line(signals.MemoryAvailable, 100, 0, 500), line(signals.MemoryAvailable, 200, time.Minute, 0)
	m := eviction.New(compiled(t, hard))
	m.Evaluate(periodic(epoch, 50))
	m.Evaluate(periodic(epoch.Add(time.Hour), 400))
	s := periodic(epoch.Add(2*time.Hour), 190)
	v := m.Adopt(compiled(t, soft), &s.Node).Evaluate(s)
	if v.Target != nil || v.Reason != eviction.Grace {
		t.Errorf("acts for %v, reason %s", v.Target, v.Reason)
	}
}

// A condition of a signal without a threshold stays True for the new transition period.
func TestAdopt_TransitionPeriod(t *testing.T) {
	m := eviction.New(compiled(t, line(signals.MemoryAvailable, 100, 0, 0)))
	m.Evaluate(periodic(epoch, 50))
	other, err := eviction.NewPolicy(eviction.Settings{Thresholds: []eviction.Threshold{line(signals.PIDAvailable, 1, 0, 0)}, TransitionPeriod: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	m = m.Adopt(other, &periodic(epoch, 50).Node)
	for after, want := range map[time.Duration]bool{59 * time.Second: true, time.Minute: false} {
		next := m.Adopt(other, &signals.Observations{})
		if got := next.Evaluate(periodic(epoch.Add(after), 50)).Conditions.Has(signals.MemoryPressure); got != want {
			t.Errorf("after %s: MemoryPressure %t, want %t", after, got, want)
		}
	}
}

// An observation that was used before the change is not used again.
func TestAdopt_UsedObservation(t *testing.T) {
	m := eviction.New(compiled(t, line(signals.MemoryAvailable, 100, 0, 0)))
	s := periodic(epoch, 50)
	m.Evaluate(s)
	m = m.Adopt(compiled(t, line(signals.MemoryAvailable, 200, 0, 0)), &s.Node)
	s.At = epoch.Add(10 * time.Second)
	if v := m.Evaluate(s); v.Target != nil || v.Reason != eviction.Stale {
		t.Errorf("acts for %v, reason %s", v.Target, v.Reason)
	}
}

// The wait of an eviction in flight follows the thresholds of its signal in the new policy.
func TestVerdict_AdoptsThresholds(t *testing.T) {
	const memory, pids = signals.MemoryAvailable, signals.PIDAvailable
	hard, soft := line(memory, 100, 0, 0), line(memory, 200, 10*time.Second, 0)
	for _, tc := range []struct {
		about     string
		after     []eviction.Threshold
		available int
		want      bool // still met
	}{
		{"unchanged, met", []eviction.Threshold{hard, soft}, 199, true},
		{"unchanged, unmet", []eviction.Threshold{hard, soft}, 200, false},
		{"another place", []eviction.Threshold{line(pids, 1, 0, 0), line(memory, 50, 0, 0), hard, soft}, 199, true},
		{"raised", []eviction.Threshold{hard, line(memory, 300, 0, 0)}, 250, true},
		{"lowered", []eviction.Threshold{line(memory, 50, 0, 0), line(memory, 60, time.Second, 0)}, 60, false},
		{"hard one alone", []eviction.Threshold{hard}, 99, true},
		{"hard one alone, unmet", []eviction.Threshold{hard}, 100, false},
		{"another signal of the condition, met", []eviction.Threshold{line(signals.AllocatableMemoryAvailable, 100, 0, 0)}, 99, true},
		{"another signal of the condition, unmet", []eviction.Threshold{line(signals.AllocatableMemoryAvailable, 100, 0, 0)}, 100, false},
		{"none of the condition", []eviction.Threshold{line(pids, 500, 0, 0)}, 1, false},
	} {
		before := compiled(t, hard, soft)
		m := eviction.New(before)
		m.Evaluate(periodic(epoch, 150))
		v := m.Evaluate(periodic(epoch.Add(10*time.Second), 150)) // for the soft one
		s := periodic(epoch.Add(11*time.Second), tc.available)
		next := m.Adopt(compiled(t, tc.after...), &s.Node)
		v.Adopt(before, next)
		if got := next.StillMet(&v, &s.Node); got != tc.want {
			t.Errorf("%s, %d available: still met %t, want %t", tc.about, tc.available, got, tc.want)
		}
	}
}

// The threshold of a soft eviction is removed. Another soft one that is met stands for it if its own grace
// period has passed, which may have happened after the decision.
func TestVerdict_AdoptsSoftThresholdsPastGrace(t *testing.T) {
	const memory, allocatable = signals.MemoryAvailable, signals.AllocatableMemoryAvailable
	removed := line(memory, 200, 10*time.Second, 0)
	for _, tc := range []struct {
		about string
		other eviction.Threshold // in both policies
		after eviction.Threshold // the only one of the new policy
		want  bool               // still met
	}{
		{"in its grace period", line(memory, 180, time.Minute, 0), line(memory, 180, time.Minute, 0), false},
		{"past its grace period", line(memory, 180, 20*time.Second, 0), line(memory, 180, 20*time.Second, 0), true},
		{"of another signal, in its grace period", line(allocatable, 180, time.Minute, 0), line(allocatable, 180, time.Minute, 0), false},
		{"of another signal, past its grace period", line(allocatable, 180, 20*time.Second, 0), line(allocatable, 180, 20*time.Second, 0), true},
		{"lowered", line(memory, 100, 0, 0), line(memory, 180, 10*time.Second, 0), false},
		{"raised, with a longer grace period", line(memory, 100, 0, 0), line(memory, 220, time.Hour, 0), true},
		{"longer grace period", line(memory, 100, 0, 0), line(memory, 200, time.Hour, 0), true},
	} {
		before := compiled(t, removed, tc.other)
		m := eviction.New(before)
		m.Evaluate(periodic(epoch, 150))
		v := m.Evaluate(periodic(epoch.Add(10*time.Second), 150))
		m.Evaluate(periodic(epoch.Add(20*time.Second), 150))
		s := periodic(epoch.Add(21*time.Second), 150)
		for range 2 { // the second change changes nothing
			next := m.Adopt(compiled(t, tc.after), &s.Node)
			v.Adopt(before, next)
			if got := next.StillMet(&v, &s.Node); got != tc.want {
				t.Errorf("%s: still met %t, want %t", tc.about, got, tc.want)
			}
			next.Evaluate(s)
			m, before = next, next.Policy()
		}
	}
}

// Over random policies and observations no threshold counts as met for a time at which it was not. One
// that stays in the policy counts from the first check of its time, however often others change.
func TestAdopt_AgreesWithHistory(t *testing.T) {
	seed := seed()
	t.Parallel()
	for i := range *timelinesFlag / 10 {
		r := rand.New(rand.NewPCG(seed, i))
		stays := line(signals.MemoryAvailable, 1+r.IntN(15), pick(r, 0, 30*time.Second), 0)
		draw := func() *eviction.Policy {
			all := []eviction.Threshold{stays}
			for range r.IntN(4) {
				if other := line(signals.MemoryAvailable, 1+r.IntN(15), pick(r, 0, 20*time.Second, time.Minute), 0); other.Value != stays.Value {
					all = append(all, other)
				}
			}
			return compiled(t, all...)
		}
		m := eviction.New(draw())
		var history []signals.Amount // one check each second
		for second := range 60 {
			now := epoch.Add(time.Duration(second) * time.Second)
			s := periodic(now, r.IntN(16))
			history = append(history, s.Node[signals.MemoryAvailable].Available)
			m.Evaluate(s)
			if r.IntN(3) == 0 {
				m = m.Adopt(draw(), &s.Node)
			}
			if problem := checkHistory(m, history, now, stays); problem != "" {
				t.Fatalf("timeline %d (replay: -run AgreesWithHistory -seed %d), second %d: %s", i, seed, second, problem)
			}
		}
	}
}

// checkHistory compares the timers of a machine with what was observed.
func checkHistory(m *eviction.Machine, history []signals.Amount, now time.Time, stays eviction.Threshold) string {
	since := map[string]time.Time{}
	for _, saved := range m.Save().Thresholds {
		since[saved.Threshold] = saved.FirstObserved
	}
	for _, threshold := range m.Policy().Thresholds {
		from, met := since[threshold.String()]
		first := len(history) // of the time for which it has been met
		for first > 0 && history[first-1] < threshold.Value.Quantity.Value {
			first--
		}
		want := now.Add(-time.Duration(len(history)-1-first) * time.Second)
		switch {
		case met && from.Before(want):
			return fmt.Sprintf("%s counts from %s on, and was met from %s on", threshold, from, want)
		case threshold == stays && met != (first < len(history)), threshold == stays && met && !from.Equal(want):
			return fmt.Sprintf("%s counts from %s on (%t), want %s", threshold, from, met, want)
		}
	}
	return ""
}
