package agent

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// toggle is an Arming that the test sets.
type toggle struct {
	off  atomic.Bool
	file atomic.Bool // disarms at the next Check
	wake func()
}

func (s *toggle) Armed() (armed bool, why string) {
	if s.off.Load() {
		return false, "set by the test"
	}
	return true, "set by the test"
}

func (s *toggle) Check() (armed bool, why string) {
	if s.file.Load() {
		s.off.Store(true)
	}
	return s.Armed()
}

// set changes the state after a while, and wakes the loop as the app does.
func (s *toggle) set(after time.Duration, armed bool) {
	time.AfterFunc(after, func() {
		s.off.Store(!armed)
		s.wake()
	})
}

// liveToggled runs an env with a toggle.
func liveToggled(t *testing.T, d time.Duration, policy eviction.Settings, setup func(*env, *toggle, *Parts)) *env {
	t.Helper()
	return liveIn(t, d, Settings{}, policy, func(w *env, p *Parts) {
		c, s := newClock(), &toggle{}
		p.Notifier, p.Arming, s.wake = c, s, c.Wake
		setup(w, s, p)
	})
}

// watched counts requests for victims.
type watched struct {
	*env
	asked int
	// refuses, if set, is called right before a kill, as in the real Evictor.
	refuses func() bool
}

func (v *watched) Victim(e *eviction.Eviction) (Victim, error) {
	v.asked++
	found, err := v.env.Victim(e)
	return &guarded{Victim: found, refuses: v.refuses}, err
}

type guarded struct {
	Victim
	refuses func() bool
}

func (g *guarded) Immediate(ctx, reporting, waiting context.Context, wait time.Duration) (EvictionResult, error) {
	if g.refuses == nil {
		return g.Victim.Immediate(ctx, reporting, waiting, wait)
	}
	<-reporting.Done() // the API server does not answer
	if g.refuses() {
		return EvictionResult{}, ErrDisarmed
	}
	return g.Victim.Immediate(ctx, reporting, waiting, wait)
}

func (g *guarded) Graceful(ctx context.Context, grace time.Duration, change Changes) (EvictionResult, error) {
	if g.refuses != nil && g.refuses() {
		return EvictionResult{}, ErrDisarmed
	}
	return g.Victim.Graceful(ctx, grace, change)
}

// verbs returns the reported decisions, without checks and conditions.
// verbs returns the decisions in order, each once.
func (w *env) verbs() (all []Verb) {
	for _, d := range w.reported {
		if d.Decision != ConditionsChanged && d.Decision != Pending && d.Repeated == "" {
			all = append(all, d.Decision)
		}
	}
	return all
}

func hardOnly() eviction.Settings { return eviction.Settings{Thresholds: []eviction.Threshold{hard()}} }

func TestDisarmed_OnlyReportsUnderPressure(t *testing.T) {
	v := &watched{}
	w := liveToggled(t, 9*time.Second, hardOnly(), func(w *env, s *toggle, p *Parts) {
		v.env, p.Victims = w, v
		s.off.Store(true)
		w.add("big", 950*mib)
	})
	if got := w.verbs(); !slices.Equal(got, []Verb{WouldEvict}) || v.asked != 0 || len(w.pods) != 1 {
		t.Errorf("reported %v, requested %d victims, %d pods remain", got, v.asked, len(w.pods))
	}
	if d := w.reported[0]; d.Pod != "default/big" || len(d.Conditions) != 1 || len(d.Ranking) != 1 || d.KillTime != nil {
		t.Errorf("decision: %+v", d)
	}
}

// The file is created after the previous check, without a notification.
func TestDisarm_FileCreatedBetweenCheckAndKill(t *testing.T) {
	v := &watched{}
	w := liveToggled(t, 9*time.Second, hardOnly(), func(w *env, s *toggle, p *Parts) {
		v.env, p.Victims = w, v
		time.AfterFunc(time.Second, func() { s.file.Store(true) })
		leak := w.add("leak", 500*mib)
		leak.rate, leak.since, leak.until, leak.then = 200*mib, time.Now().Add(time.Second), time.Now().Add(4*time.Second), 1000*mib
	})
	if got := w.verbs(); len(got) < 2 || got[0] != Disarmed || got[1] != WouldEvict || v.asked != 0 || len(w.pods) != 1 {
		t.Errorf("reported %v, requested %d victims, %d pods remain", got, v.asked, len(w.pods))
	}
}

func TestDisarm_DuringWaitForAPIServer(t *testing.T) {
	const at = 300 * time.Millisecond
	var begun time.Time
	w := liveToggled(t, 9*time.Second, hardOnly(), func(w *env, s *toggle, p *Parts) {
		begun = time.Now()
		p.Victims = &watched{env: w, refuses: s.off.Load}
		s.set(at, false)
		w.add("big", 950*mib).FromAPI = true
		w.add("next", 20*mib)
	})
	if got := w.verbs(); !slices.Equal(got, []Verb{Disarmed, WouldEvict}) || len(w.pods) != 2 {
		t.Errorf("reported %v, %d pods remain", got, len(w.pods))
	}
	for _, d := range w.reported {
		if d.Decision == WouldEvict && (d.Pod != "default/big" || len(d.Failed) > 0 || d.Time.After(begun.Add(at))) {
			t.Errorf("decision: %+v", d)
		}
	}
}

func TestDisarm_WithdrawsSoftEviction(t *testing.T) {
	var at time.Time
	w := liveToggled(t, 170*time.Second, eviction.Settings{Thresholds: []eviction.Threshold{soft()}}, func(w *env, s *toggle, _ *Parts) {
		at = time.Now().Add(90 * time.Second)
		s.set(90*time.Second, false)
		s.set(120*time.Second, true)
		w.ending = time.Hour
		p := w.add("polite", 800*mib)
		p.withdrawable, p.FromAPI = true, true
	})
	// While disarmed it is only reported. After arming, the expired timer still counts.
	want := []Verb{SoftEvicting, Disarmed, Withdrawn, WouldEvict, Armed, ReclaimDone, SoftEvicting}
	if got := w.verbs(); len(got) < len(want) || !slices.Equal(got[:len(want)], want) || len(w.pods) != 1 {
		t.Fatalf("reported %v\nwant %v", got, want)
	}
	for _, d := range w.reported {
		if d.Decision == Withdrawn && d.Time.Sub(at) > time.Second {
			t.Errorf("withdrawn %s after disarming", d.Time.Sub(at))
		}
	}
}

// The file is created after the report of a soft eviction, and is first observed right before
// SIGTERM.
func TestDisarm_WithdrawsSoftEvictionBeforeSIGTERM(t *testing.T) {
	w := liveToggled(t, 95*time.Second, eviction.Settings{Thresholds: []eviction.Threshold{soft()}}, func(w *env, s *toggle, p *Parts) {
		p.Victims = &watched{env: w, refuses: func() bool {
			s.file.Store(true)
			armed, _ := s.Check()
			return !armed
		}}
		w.add("calm", 800*mib)
	})
	if got := w.verbs(); !slices.Equal(got, []Verb{SoftEvicting, Disarmed, Withdrawn, WouldEvict}) || len(w.pods) != 1 {
		t.Errorf("reported %v, %d pods remain", got, len(w.pods))
	}
}

// A static pod was sent SIGTERM. SIGKILL does not follow.
func TestDisarm_NoSIGKILLAfterSIGTERM(t *testing.T) {
	w := liveToggled(t, 130*time.Second, eviction.Settings{Thresholds: []eviction.Threshold{soft(), hard()}}, func(w *env, s *toggle, _ *Parts) {
		s.set(90*time.Second, false)
		w.ending = time.Hour // the grace period of 60 s would end in a kill
		w.add("stubborn", 800*mib)
		other := w.add("other", mib)
		other.rate, other.since, other.until, other.then = 100*mib, time.Now().Add(91*time.Second), time.Now().Add(93*time.Second), 190*mib
	})
	if len(w.pods) != 2 || w.count(Withdrawn) != 1 || w.count(Escalated) != 0 || w.count(Evicted) != 0 {
		t.Errorf("%d pods remain, reported %v", len(w.pods), w.verbs())
	}
}

// A collection that only measured while disarmed is no reason to evict: garbage must be collected
// first.
func TestArm_CollectsGarbageFirst(t *testing.T) {
	w := liveToggled(t, 30*time.Second, eviction.Settings{Thresholds: full()}, func(w *env, s *toggle, _ *Parts) {
		w.disk, w.garbage, w.collects = 8*gib, 5*gib, 3*time.Second
		s.off.Store(true)
		s.set(time.Second, true)
		w.add("calm", 100*mib)
	})
	if got := w.verbs(); !slices.Equal(got, []Verb{CollectingGarbage, Armed, CollectingGarbage}) || w.garbage != 0 || len(w.pods) != 1 {
		t.Errorf("reported %v, %d GiB of garbage remain", got, w.garbage/gib)
	}
}

func TestDisarm_StopsGarbageCollection(t *testing.T) {
	var ended time.Duration
	w := liveToggled(t, 9*time.Second, eviction.Settings{Thresholds: full()}, func(w *env, s *toggle, p *Parts) {
		begun := time.Now()
		p.Collector = collects(func(ctx context.Context, what []signals.Garbage) {
			if len(what) == 0 {
				<-time.After(time.Second) // time to measure
				return
			}
			<-ctx.Done()
			ended = time.Since(begun)
		})
		s.set(2*time.Second, false)
		w.disk = 11 * gib
		w.add("calm", 100*mib).disk = 4 * gib
	})
	if ended != 2*time.Second {
		t.Errorf("it collected until %s after the start, want 2s", ended)
	}
	if got := w.verbs(); !slices.Equal(got, []Verb{CollectingGarbage, Disarmed, CollectingGarbage, WouldEvict}) {
		t.Errorf("reported %v", got)
	}
}

type collects func(context.Context, []signals.Garbage)

func (c collects) Collect(ctx context.Context, what []signals.Garbage, _ func(*signals.Observations) bool) []signals.Garbage {
	c(ctx, what)
	return what
}

func TestArm_EvictsAtOnceUnderPressure(t *testing.T) {
	var at time.Time
	w := liveToggled(t, 20*time.Second, hardOnly(), func(w *env, s *toggle, _ *Parts) {
		at = time.Now().Add(5 * time.Second)
		s.off.Store(true)
		s.set(5*time.Second, true)
		w.add("big", 950*mib)
	})
	if got := w.verbs(); !slices.Equal(got, []Verb{WouldEvict, Armed, ReclaimDone, Evicted, ReclaimDone}) {
		t.Fatalf("reported %v", got)
	}
	for _, d := range w.reported {
		if d.Decision == Evicted && d.Time.Sub(at) > 10*time.Millisecond {
			t.Errorf("evicted %s after arming", d.Time.Sub(at))
		}
	}
}
