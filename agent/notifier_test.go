package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// wakeClock is a clock with wakeups at set times.
type wakeClock struct {
	*clock
	wakeups []time.Time
	by      signals.Wakes
	lines   []signals.Line
}

func (b *wakeClock) Wait(until time.Time, park bool) signals.Wakes {
	if len(b.wakeups) > 0 && b.wakeups[0].Before(until) {
		b.clock.Wait(b.wakeups[0], park)
		b.wakeups = b.wakeups[1:]
		return b.by
	}
	return b.clock.Wait(until, park)
}

func (b *wakeClock) Follow(_ *signals.Observations, lines []signals.Line) {
	b.lines = append(b.lines[:0], lines...)
}

// withWakeups sets a wakeClock with a period as the notifier.
func withWakeups(p *Parts, by signals.Wakes, every time.Duration, times int) *wakeClock {
	b := &wakeClock{clock: newClock(), by: by}
	for i := range times {
		b.wakeups = append(b.wakeups, time.Now().Add(time.Duration(i+1)*every))
	}
	p.Notifier = b
	return b
}

// noTimer is a configuration without early checks by timer.
var noTimer = Settings{MaxFillRate: 1}

// stallers implements Stalls and counts the calls.
type stallers struct {
	found []signals.Stall
	asked int
}

func (s *stallers) Stalls() []signals.Stall { s.asked++; return s.found }

func TestNotifier_StartsCheckAndIsReported(t *testing.T) {
	var b *wakeClock
	w := liveIn(t, 9*time.Second, noTimer, eviction.Settings{Thresholds: []eviction.Threshold{hard(), soft()}, EarlyEviction: eviction.Immediate},
		func(w *env, p *Parts) {
			b = withWakeups(p, signals.ByCrossing, 3*time.Second, 1)
			hog := w.add("hog", 100*mib)
			hog.rate, hog.since = 300*mib, time.Now() // meets its threshold after 2.8 s
		})
	if got := w.evicted(); len(got) != 1 || got[0] != "default/hog" {
		t.Fatalf("evicted %v", got)
	}
	for _, d := range w.reported {
		if d.Decision == Evicted && d.Check == "early" && strings.Join(d.WokenBy, " ") == "crossing" {
			if len(b.lines) != 2 || b.lines[0].At+b.lines[1].At != 400*mib {
				t.Errorf("followed lines: %v", b.lines)
			}
			return
		}
	}
	for _, d := range w.reported {
		t.Errorf("reported: %+v", *d)
	}
}

func TestStalls_PodAtOwnLimitIsReportedNotEvicted(t *testing.T) {
	var s stallers
	w := liveIn(t, 55*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}}, func(w *env, p *Parts) {
		pod := &w.add("thrasher", 64*mib).Pod
		s.found = []signals.Stall{{Pod: pod, AtMax: 5123, Limit: 64 * mib, Waited: signals.Of(1400 * time.Millisecond), Over: 2 * time.Second}}
		p.Stalls = &s
		withWakeups(p, signals.ByStall, 500*time.Millisecond, 100)
	})
	if len(w.evicted()) > 0 || w.count(ConditionsChanged) > 0 || w.count(Stalled) != 1 {
		t.Fatalf("reported %+v, want one stall and no action", w.reported)
	}
	if s.asked > 6 || s.asked < 5 {
		t.Errorf("stalls were read %d times in 50 s, want 5 or 6", s.asked)
	}
	for _, d := range w.reported {
		if d.Decision != Stalled {
			continue
		}
		for _, want := range []string{"default/thrasher waits at a limit of its own, which is no pressure of the node", "woken by stall", "above its threshold of 100Mi"} {
			if !strings.Contains(d.Reason, want) {
				t.Errorf("%q is not in %q", want, d.Reason)
			}
		}
		if len(d.Stalls) != 1 || d.Stalls[0].Reason != "waited for memory for 1.4s of 2s, met its own memory limit 5123 times, limit 64Mi" {
			t.Errorf("stalls: %+v", d.Stalls)
		}
	}
}

// A stall without explanation is reported again once a limit of the pod explains it.
func TestStalls_ReportedAgainOnceLimitExplainsThem(t *testing.T) {
	var s stallers
	w := liveIn(t, 55*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}}, func(w *env, p *Parts) {
		pod := &w.add("thrasher", 64*mib).Pod
		stall := signals.Stall{Pod: pod, Limit: 64 * mib, Waited: signals.Of(time.Second), Over: 2 * time.Second}
		s.found = []signals.Stall{stall}
		w.later(15*time.Second, func() { stall.AtMax = 7; s.found = []signals.Stall{stall} })
		w.later(35*time.Second, func() { stall.AtMax = 0; s.found = []signals.Stall{stall} })
		p.Stalls = &s
		withWakeups(p, signals.ByStall, 500*time.Millisecond, 100)
	})
	var reported []bool
	for _, d := range w.reported {
		if d.Decision == Stalled {
			reported = append(reported, strings.Contains(d.Reason, "waits at a limit of its own"))
		}
	}
	if !slices.Equal(reported, []bool{false, true}) {
		t.Errorf("reported as explained by limits: %v, want false and true", reported)
	}
}

func TestStalls_NotReadWhileMemoryRunsOut(t *testing.T) {
	var s stallers
	w := liveIn(t, 2500*time.Millisecond, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}}, func(w *env, p *Parts) {
		hog := w.add("hog", 1<<30-400*mib)
		hog.rate, hog.since = 100*mib, time.Now()
		p.Stalls = &s
		withWakeups(p, signals.ByStall, 2*time.Second, 1) // with 200 MiB left
	})
	if s.asked != 0 || w.minAvailable > 200*mib {
		t.Errorf("stalls were read %d times, with a minimum of %d MiB available", s.asked, w.minAvailable/mib)
	}
}

func TestStalls_NotReadUnderPressure(t *testing.T) {
	var s stallers
	w := liveIn(t, 9*time.Second, noTimer, eviction.Settings{Thresholds: []eviction.Threshold{hard()}, EarlyEviction: eviction.Immediate}, func(w *env, p *Parts) {
		hog := w.add("hog", 0)
		hog.rate, hog.since = 300*mib, time.Now()
		p.Stalls = &s
		withWakeups(p, signals.ByStall|signals.ByCrossing, 3500*time.Millisecond, 1)
	})
	if len(w.evicted()) != 1 || s.asked != 0 {
		t.Errorf("evicted %v; stalls were read %d times under pressure", w.evicted(), s.asked)
	}
}
