package agent

import (
	"context"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

func TestAgent_OnlyPeriodicChecksWithHeadroom(t *testing.T) {
	w := live(t, 65*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.capacity = 64 << 30
		w.add("calm", 1<<30)
	})
	if periodic := w.checks[signals.Periodic]; periodic != 7 {
		t.Errorf("%d periodic checks in 65 s, want 7", periodic)
	}
	// 63 GiB at 4 GiB/s last 15.7 s: periodic checks are enough.
	if early := w.checks[signals.Early]; early != 0 {
		t.Errorf("%d early checks, want 0: memory can not be exhausted between periodic ones", early)
	}
	if len(w.reported) != 0 || w.saves != 8 {
		t.Errorf("reported %d decisions, want 0; saved %d times, want 8", len(w.reported), w.saves)
	}
}

func TestAgent_EvictsLeakBeforeExhaustion(t *testing.T) {
	for _, rate := range []signals.Amount{20 * mib, 200 * mib, 900 * mib} {
		var lowest signals.Amount = 1 << 30
		w := live(t, time.Minute, false, []eviction.Threshold{hard()}, func(w *env) {
			w.add("calm", 300*mib)
			leak := w.add("leak", 300*mib)
			leak.rate, leak.since = rate, time.Now().Add(3*time.Second)
		})
		for _, d := range w.reported {
			if d.Decision == Evicted {
				lowest = signals.Amount(*d.Available)
			}
		}
		if got := w.evicted(); !slices.Equal(got, []string{"default/leak"}) {
			t.Errorf("%d MiB/s: evicted %v", rate/mib, got)
		}
		if need := rate / 20; lowest < need {
			t.Errorf("%d MiB/s: only %d MiB were available for a kill that takes 50 ms", rate/mib, lowest/mib)
		}
	}
}

func TestAgent_IgnoresDipWithoutImminentExhaustion(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.add("calm", 850*mib)
		dip := w.add("dip", 10*mib)
		dip.rate, dip.since = 30*mib, time.Now().Add(time.Second) // 104 MiB less after 3.5 s: 70 MiB left
		dip.until, dip.then = time.Now().Add(4*time.Second), 10*mib
	})
	if got := w.evicted(); len(got) != 0 {
		t.Errorf("evicted %v", got)
	}
	if n := w.count(Pending); n != 1 {
		t.Errorf("reported the wait %d times, want once", n)
	}
}

func TestEvict_WaitsWhileProcessesOfFirstPodRemain(t *testing.T) {
	w := live(t, 29*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.processesRemain = true
		w.add("big", 600*mib)
		w.add("small", 400*mib)
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/big"}) {
		t.Errorf("evicted %v", got)
	}
}

// The kernel kills the pod during the report to the API server, and frees its memory only
// afterwards. No other pod is evicted in its place.
func TestEvict_WaitsForPodEndedByKernel(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.add("big", 600*mib).selfExit = 400 * time.Millisecond
		w.add("small", 400*mib)
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/big"}) {
		t.Errorf("evicted %v", got)
	}
}

func TestEvict_NextPodIfFirstFreedTooLittle(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.add("a", 500*mib).MemoryRequest = signals.Quantity{Value: 500 * mib}
		w.add("b", 20*mib)
		w.add("c", 490*mib).MemoryRequest = signals.Quantity{Value: 460 * mib}
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/c"}) {
		t.Errorf("evicted %v, want c alone: it exceeds its request most, and its memory is enough", got)
	}
	w = live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.add("a", 900*mib).MemoryRequest = signals.Quantity{Value: 900 * mib}
		w.add("b", 50*mib)
		w.add("c", 40*mib)
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/b", "default/c"}) {
		t.Errorf("evicted %v, want b and then c within 10 s: b did not free enough", got)
	}
}

func TestEvict_FailedKillIsNoEviction(t *testing.T) {
	w := live(t, 25*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.killErr = errRefused
		w.add("a", 500*mib)
		w.add("b", 490*mib)
	})
	if got := w.evicted(); len(got) != 0 {
		t.Errorf("evicted %v", got)
	}
	if n := w.count(Failed); n != 3 {
		t.Errorf("reported the failure %d times, want once per periodic check", n)
	}
	for _, d := range w.reported {
		if d.Decision == Failed && len(d.Failed) != 2 {
			t.Errorf("tried %v, want both pods", d.Failed)
		}
	}
}

func TestEvict_TriesNextPodAfterThreeKills(t *testing.T) {
	w := live(t, 115*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.processesRemain = true
		w.add("undead", 600*mib)
		w.add("next", 400*mib)
	})
	want := []string{"default/undead", "default/undead", "default/undead", "default/next"}
	if got := w.evicted(); !slices.Equal(got, want) {
		t.Errorf("evicted %v, want %v", got, want)
	}
}

func TestEvict_ImminentExhaustionDoesNotWaitForPIDs(t *testing.T) {
	for about, tc := range map[string]struct {
		since time.Duration
		rate  signals.Amount
	}{
		"during the kill": {time.Second, 400 * mib},
		"after giving up": {3500 * time.Millisecond, 200 * mib},
	} {
		t.Run(about, func(t *testing.T) {
			w := live(t, 9*time.Second, false, []eviction.Threshold{hard(), {Signal: signals.PIDAvailable, Value: quantity(100)}}, func(w *env) {
				w.pids = 50
				a := w.add("a", 300*mib)
				a.Priority, a.unkillable, a.processes = -1, true, 60
				a.MemoryRequest = signals.Quantity{Value: 500 * mib}
				leak := w.add("leak", 300*mib)
				leak.rate, leak.since = tc.rate, time.Now().Add(tc.since)
			})
			if got := w.evicted(); !slices.Equal(got, []string{"default/a", "default/leak"}) || w.minAvailable <= 0 {
				t.Errorf("evicted %v with a minimum of %d MiB available, want a for PIDs and the leak for memory", got, w.minAvailable/mib)
			}
		})
	}
}

func TestAgent_ReportsUnknownSignalOnce(t *testing.T) {
	w := live(t, 55*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.add("calm", 100*mib)
		from, until := time.Now().Add(15*time.Second), time.Now().Add(35*time.Second)
		w.unreadable = func() bool { return time.Now().After(from) && time.Now().Before(until) }
	})
	if w.count(SignalsChanged) != 2 {
		t.Fatalf("reported %d changes of signals, want 2: its start and its end", w.count(SignalsChanged))
	}
	if d := w.reported[0]; len(d.Unknown) != 1 || d.Unknown[0] != "memory.available: unreadable" {
		t.Errorf("unknown signals %q", d.Unknown)
	}
	if len(w.evicted()) != 0 {
		t.Error("a pod was evicted for an unknown signal")
	}
}

func TestDryRun_ReportsOncePerDecision(t *testing.T) {
	w := live(t, 65*time.Second, true, []eviction.Threshold{hard()}, func(w *env) {
		w.add("a", 950*mib)
	})
	// At 0, 30 and 60 s: the wait for memory is that of a real eviction.
	if n := w.count(WouldEvict); n != 3 {
		t.Errorf("reported %d times, want 3", n)
	}
	if len(w.pods) != 1 {
		t.Error("a pod was killed in dry run")
	}
}

func TestSoftEviction_RunsConcurrentlyWithLoop(t *testing.T) {
	w := live(t, 3*time.Minute, false, []eviction.Threshold{soft()}, func(w *env) {
		w.ending = 20 * time.Second
		w.add("a", 800*mib)
		w.add("b", 10*mib)
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/a"}) {
		t.Errorf("evicted %v", got)
	}
	if w.count(SoftEnded) != 1 || w.count(ReclaimDone) != 1 {
		t.Errorf("terminated %d, reclaims done %d, want 1 each", w.count(SoftEnded), w.count(ReclaimDone))
	}
	if w.checks[signals.Periodic] < 18 {
		t.Errorf("%d periodic checks in 3 minutes: the loop waited for the pod", w.checks[signals.Periodic])
	}
}

func TestSoftEviction_EscalatedByHardThreshold(t *testing.T) {
	w := live(t, 80*time.Second, false, []eviction.Threshold{hard(), soft()}, func(w *env) {
		w.ending = time.Hour
		w.add("a", 700*mib).MemoryRequest = signals.Quantity{Value: 100 * mib}
		b := w.add("b", 100*mib)
		b.MemoryRequest = signals.Quantity{Value: 500 * mib}
		b.rate, b.since = 100*mib, time.Now().Add(65*time.Second)
		b.until, b.then = time.Now().Add(67*time.Second), 300*mib
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/a"}) {
		t.Errorf("evicted %v, want a alone: its soft eviction was in flight", got)
	}
	if w.count(Escalated) != 1 {
		t.Errorf("escalated %d times, want once", w.count(Escalated))
	}
}

// The pod of the soft eviction is already chosen, but its end waits for a server.
func TestEvict_ImminentExhaustionDoesNotWaitForEscalatedPod(t *testing.T) {
	w := live(t, 5*time.Minute, false, []eviction.Threshold{hard(), soft()}, func(w *env) {
		w.ending, w.escalatedEnd = time.Hour, 200*time.Millisecond
		withdrawable := w.add("polite", 740*mib)
		withdrawable.FromAPI, withdrawable.unkillable = true, true
		leak := w.add("leak", 10*mib)
		leak.MemoryRequest, leak.Priority = signals.Quantity{Value: 20 * mib}, -1
		leak.rate, leak.since = 800*mib, time.Now().Add(90*time.Second)
	})
	var escalated, killed time.Time
	for _, d := range w.reported {
		switch {
		case d.Decision == Escalated:
			escalated = d.Time
		case d.Decision == Evicted && d.Pod == "default/leak":
			killed = d.Time
		}
	}
	// 100 MiB at 800 MiB/s.
	if escalated.IsZero() || killed.IsZero() || killed.Sub(escalated) > 120*time.Millisecond || w.finished != 1 {
		t.Errorf("the leak was killed %s after the escalation, finished %d times; evicted %v", killed.Sub(escalated), w.finished, w.evicted())
	}
}

// The API server stores the pod as failed, and it is no longer listed. Its processes wait for
// SIGKILL.
func TestEvict_WaitsForEscalatedPodNoLongerListed(t *testing.T) {
	w := live(t, 5*time.Minute, false, []eviction.Threshold{hard(), soft()}, func(w *env) {
		w.ending, w.escalatedEnd = time.Hour, 200*time.Millisecond
		withdrawable := w.add("polite", 740*mib)
		withdrawable.FromAPI, withdrawable.unlisted = true, time.Now().Add(90*time.Second)
		leak := w.add("leak", 10*mib)
		leak.rate, leak.since, leak.until, leak.then = 800*mib, time.Now().Add(90*time.Second), time.Now().Add(91*time.Second), 240*mib
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/polite"}) || w.finished != 1 || w.count(SoftEnded) != 1 {
		t.Errorf("evicted %v, finished %d times, reported %v", got, w.finished, w.verbs())
	}
}

func TestRun_EndsWithContext(t *testing.T) {
	w := live(t, 100*time.Second, false, []eviction.Threshold{soft()}, func(w *env) {
		w.ending = time.Hour
		w.add("a", 800*mib)
	})
	if len(w.pods) != 1 || w.count(SoftEvicting) != 1 {
		t.Errorf("%d pods, evicted %v; want 1 pod: its soft eviction continues when the agent stops", len(w.pods), w.evicted())
	}
}

func TestRateEstimator_UsesRateWindow(t *testing.T) {
	var f rateEstimator
	begin := time.Unix(1, 0)
	observe := func(at time.Duration, available signals.Amount) signals.Rate {
		s := &signals.Snapshot{At: begin.Add(at)}
		s.Node[signals.MemoryAvailable] = signals.Observed(available, 1<<30, s.At)
		f.note(s)
		return s.Rates[signals.MemoryAvailable]
	}
	if got := observe(0, 1000); got != (signals.Rate{}) {
		t.Errorf("the first check has the rate %v, want none", got)
	}
	if got, want := observe(5*time.Second, 900), (signals.Rate{By: 100, Over: 5 * time.Second}); got != want {
		t.Errorf("since the previous check: %v, want %v", got, want)
	}
	for i := range 200 { // a burst every 50 ms: 2 per millisecond on average
		observe(5*time.Second+time.Duration(i+1)*5*time.Millisecond, signals.Amount(100_000-100*(i/10)))
	}
	if got := observe(6005*time.Millisecond, 98_000); got.By != 200 || got.Over != eviction.RateWindow {
		t.Errorf("over the window: %v, want 200", got)
	}
	s := &signals.Snapshot{At: begin.Add(7 * time.Second)}
	f.note(s)
	if s.Rates[signals.MemoryAvailable] != (signals.Rate{}) {
		t.Error("an unknown observation has a rate")
	}
}

func TestSelfTest_LogsMissingCapability(t *testing.T) {
	var lines logLines
	missing := SelfTest(t.Context(), lines.logger(), []Check{
		{What: "seeing", Try: func(context.Context) error { return nil }},
		{What: "killing", Try: func(context.Context) error { return errRefused }, Remedy: "be root", Loss: "no eviction"},
	})
	if missing != 1 || !lines.contain("Self-test passed: seeing works") || !lines.contain("killing does not work", "refused", "be root", "no eviction") {
		t.Errorf("%d missing:\n%s", missing, lines.String())
	}
}
