package agent

import (
	"context"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

func TestANodeWithRoomIsLookedAtSeldom(t *testing.T) {
	w := live(t, 65*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.capacity = 64 << 30
		w.add("calm", 1<<30)
	})
	if regular := w.looks[signals.Periodic]; regular != 7 {
		t.Errorf("%d regular looks in 65 s", regular)
	}
	// 63 GiB at 4 GiB/s last 15.7 s: periodic checks are enough.
	if extra := w.looks[signals.Early]; extra != 0 {
		t.Errorf("%d extra looks though memory can not be gone between regular ones", extra)
	}
	if len(w.told) != 0 || w.saves != 8 {
		t.Errorf("told %d decisions, saved %d times", len(w.told), w.saves)
	}
}

func TestALeakIsEndedBeforeMemoryIsGone(t *testing.T) {
	for _, rate := range []signals.Amount{20 * mib, 200 * mib, 900 * mib} {
		var lowest signals.Amount = 1 << 30
		w := live(t, time.Minute, false, []eviction.Threshold{hard()}, func(w *world) {
			w.add("calm", 300*mib)
			leak := w.add("leak", 300*mib)
			leak.rate, leak.since = rate, time.Now().Add(3*time.Second)
		})
		for _, d := range w.told {
			if d.Decision == Evicted {
				lowest = signals.Amount(*d.Available)
			}
		}
		if got := w.evicted(); !slices.Equal(got, []string{"default/leak"}) {
			t.Errorf("%d MiB/s: evicted %v", rate/mib, got)
		}
		if need := rate / 20; lowest < need {
			t.Errorf("%d MiB/s: only %d MiB were left for a kill that takes 50 ms", rate/mib, lowest/mib)
		}
	}
}

func TestADipThatIsNotDoomHarmsNobody(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.add("calm", 850*mib)
		dip := w.add("dip", 10*mib)
		dip.rate, dip.since = 30*mib, time.Now().Add(time.Second) // 104 MiB less after 3.5 s: 70 MiB left
		dip.until, dip.then = time.Now().Add(4*time.Second), 10*mib
	})
	if got := w.evicted(); len(got) != 0 {
		t.Errorf("evicted %v", got)
	}
	if n := w.count(Pending); n != 1 {
		t.Errorf("told %d times that it waits, not once", n)
	}
}

func TestNoSecondPodDiesWhileTheFirstOnesMemoryIsOnItsWay(t *testing.T) {
	w := live(t, 29*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.lingers = true
		w.add("big", 600*mib)
		w.add("small", 400*mib)
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/big"}) {
		t.Errorf("evicted %v", got)
	}
}

// The kernel kills the pod during the report to the API server, and frees its memory only
// afterwards. No other pod is evicted in its place.
func TestNoSecondPodDiesForOneThatTheKernelEndedFirst(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.add("big", 600*mib).slips = 400 * time.Millisecond
		w.add("small", 400*mib)
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/big"}) {
		t.Errorf("evicted %v", got)
	}
}

func TestTheNextPodDiesWhenTheFirstFreedTooLittle(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.add("a", 500*mib).MemoryRequest = signals.Quantity{Value: 500 * mib}
		w.add("b", 20*mib)
		w.add("c", 490*mib).MemoryRequest = signals.Quantity{Value: 460 * mib}
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/c"}) {
		t.Errorf("evicted %v: c is most above its request, and its end is enough", got)
	}
	w = live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.add("a", 900*mib).MemoryRequest = signals.Quantity{Value: 900 * mib}
		w.add("b", 50*mib)
		w.add("c", 40*mib)
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/b", "default/c"}) {
		t.Errorf("evicted %v: b did not free enough, and the second decision does not wait for 10 s", got)
	}
}

func TestAFailedKillIsNoEviction(t *testing.T) {
	w := live(t, 25*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.killErr = errRefused
		w.add("a", 500*mib)
		w.add("b", 490*mib)
	})
	if got := w.evicted(); len(got) != 0 {
		t.Errorf("evicted %v", got)
	}
	if n := w.count(Failed); n != 3 {
		t.Errorf("told %d times that nobody could be evicted, not once for each regular look", n)
	}
	for _, d := range w.told {
		if d.Decision == Failed && len(d.Failed) != 2 {
			t.Errorf("tried %v: the next pod is tried when a kill fails", d.Failed)
		}
	}
}

func TestAPodThatDoesNotDieIsKilledThreeTimesAndThenTheNextIsTried(t *testing.T) {
	w := live(t, 115*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.lingers = true
		w.add("undead", 600*mib)
		w.add("next", 400*mib)
	})
	want := []string{"default/undead", "default/undead", "default/undead", "default/next"}
	if got := w.evicted(); !slices.Equal(got, want) {
		t.Errorf("evicted %v, want %v", got, want)
	}
}

func TestDoomedMemoryDoesNotWaitForPIDs(t *testing.T) {
	for about, tc := range map[string]struct {
		since time.Duration
		rate  signals.Amount
	}{
		"while the kill goes on": {time.Second, 400 * mib},
		"after it was given up":  {3500 * time.Millisecond, 200 * mib},
	} {
		t.Run(about, func(t *testing.T) {
			w := live(t, 9*time.Second, false, []eviction.Threshold{hard(), {Signal: signals.PIDAvailable, Value: quantity(100)}}, func(w *world) {
				w.pids = 50
				a := w.add("a", 300*mib)
				a.Priority, a.undead = -1, true
				a.MemoryRequest = signals.Quantity{Value: 500 * mib}
				leak := w.add("leak", 300*mib)
				leak.rate, leak.since = tc.rate, time.Now().Add(tc.since)
			})
			if got := w.evicted(); !slices.Equal(got, []string{"default/a", "default/leak"}) || w.least <= 0 {
				t.Errorf("evicted %v, %d MiB were left: a for its PIDs, which are on their way, and the leak for memory", got, w.least/mib)
			}
		})
	}
}

func TestBlindnessIsToldOnce(t *testing.T) {
	w := live(t, 55*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.add("calm", 100*mib)
		from, until := time.Now().Add(15*time.Second), time.Now().Add(35*time.Second)
		w.blind = func() bool { return time.Now().After(from) && time.Now().Before(until) }
	})
	if w.count(SignalsChanged) != 2 {
		t.Fatalf("told %d times, not when it began and when it ended", w.count(SignalsChanged))
	}
	if d := w.told[0]; len(d.Unknown) != 1 || d.Unknown[0] != "memory.available: it is dark" {
		t.Errorf("told %q", d.Unknown)
	}
	if len(w.evicted()) != 0 {
		t.Error("a pod was evicted in the dark")
	}
}

func TestADryRunTellsOncePerDecision(t *testing.T) {
	w := live(t, 65*time.Second, true, []eviction.Threshold{hard()}, func(w *world) {
		w.add("a", 950*mib)
	})
	// At 0, 30 and 60 s: the wait for memory is that of a real eviction.
	if n := w.count(WouldEvict); n != 3 {
		t.Errorf("told %d times", n)
	}
	if len(w.pods) != 1 {
		t.Error("a dry run killed")
	}
}

func TestASoftEvictionRunsBesideTheLoop(t *testing.T) {
	w := live(t, 3*time.Minute, false, []eviction.Threshold{soft()}, func(w *world) {
		w.ending = 20 * time.Second
		w.add("a", 800*mib)
		w.add("b", 10*mib)
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/a"}) {
		t.Errorf("evicted %v", got)
	}
	if w.count(Terminated) != 1 || w.count(ReclaimDone) != 1 {
		t.Errorf("terminated %d, settled %d", w.count(Terminated), w.count(ReclaimDone))
	}
	if w.looks[signals.Periodic] < 18 {
		t.Errorf("%d regular looks in 3 minutes: the loop waited for the pod", w.looks[signals.Periodic])
	}
}

func TestAHardThresholdHurriesTheSoftEviction(t *testing.T) {
	w := live(t, 80*time.Second, false, []eviction.Threshold{hard(), soft()}, func(w *world) {
		w.ending = time.Hour
		w.add("a", 700*mib).MemoryRequest = signals.Quantity{Value: 100 * mib}
		b := w.add("b", 100*mib)
		b.MemoryRequest = signals.Quantity{Value: 500 * mib}
		b.rate, b.since = 100*mib, time.Now().Add(65*time.Second)
		b.until, b.then = time.Now().Add(67*time.Second), 300*mib
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/a"}) {
		t.Errorf("evicted %v: a was condemned already, nobody else has to die", got)
	}
	if w.count(Escalated) != 1 {
		t.Errorf("hurried %d times", w.count(Escalated))
	}
}

// The pod of the soft eviction is already chosen, but its end waits for a server.
func TestDoomedMemoryDoesNotWaitForAHurriedPod(t *testing.T) {
	w := live(t, 5*time.Minute, false, []eviction.Threshold{hard(), soft()}, func(w *world) {
		w.ending, w.hurries = time.Hour, 200*time.Millisecond
		polite := w.add("polite", 740*mib)
		polite.FromAPI, polite.undead = true, true
		leak := w.add("leak", 10*mib)
		leak.MemoryRequest, leak.Priority = signals.Quantity{Value: 20 * mib}, -1
		leak.rate, leak.since = 800*mib, time.Now().Add(90*time.Second)
	})
	var hurried, killed time.Time
	for _, d := range w.told {
		switch {
		case d.Decision == Escalated:
			hurried = d.Time
		case d.Decision == Evicted && d.Pod == "default/leak":
			killed = d.Time
		}
	}
	// 100 MiB at 800 MiB/s.
	if hurried.IsZero() || killed.IsZero() || killed.Sub(hurried) > 120*time.Millisecond || w.finished != 1 {
		t.Errorf("the leak was killed %s after the hurry, finished %d times; evicted %v", killed.Sub(hurried), w.finished, w.evicted())
	}
}

// The API server stores the pod as failed, and it is no longer listed. Its processes wait for
// SIGKILL.
func TestNobodyDiesForAHurriedPodThatIsNotListedAnyMore(t *testing.T) {
	w := live(t, 5*time.Minute, false, []eviction.Threshold{hard(), soft()}, func(w *world) {
		w.ending, w.hurries = time.Hour, 200*time.Millisecond
		polite := w.add("polite", 740*mib)
		polite.FromAPI, polite.unlisted = true, time.Now().Add(90*time.Second)
		leak := w.add("leak", 10*mib)
		leak.rate, leak.since, leak.until, leak.then = 800*mib, time.Now().Add(90*time.Second), time.Now().Add(91*time.Second), 240*mib
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/polite"}) || w.finished != 1 || w.count(Terminated) != 1 {
		t.Errorf("evicted %v, finished %d times, told %v", got, w.finished, w.verbs())
	}
}

func TestTheLoopEndsWithItsContext(t *testing.T) {
	w := live(t, 100*time.Second, false, []eviction.Threshold{soft()}, func(w *world) {
		w.ending = time.Hour
		w.add("a", 800*mib)
	})
	if len(w.pods) != 1 || w.count(SoftEvicting) != 1 {
		t.Errorf("a graceful end under way when the agent stops is left to its successor: %d pods, %v", len(w.pods), w.evicted())
	}
}

func TestRatesAreTakenOverTheWindow(t *testing.T) {
	var f rateEstimator
	begin := time.Unix(1, 0)
	look := func(at time.Duration, available signals.Amount) signals.Rate {
		s := &signals.Snapshot{At: begin.Add(at)}
		s.Node[signals.MemoryAvailable] = signals.Observed(available, 1<<30, s.At)
		f.note(s)
		return s.Rates[signals.MemoryAvailable]
	}
	if got := look(0, 1000); got != (signals.Rate{}) {
		t.Errorf("the first look knows no rate: %v", got)
	}
	if got, want := look(5*time.Second, 900), (signals.Rate{By: 100, Over: 5 * time.Second}); got != want {
		t.Errorf("since the look before: %v, want %v", got, want)
	}
	for i := range 200 { // a burst every 50 ms: 2 per millisecond on average
		look(5*time.Second+time.Duration(i+1)*5*time.Millisecond, signals.Amount(100_000-100*(i/10)))
	}
	if got := look(6005*time.Millisecond, 98_000); got.By != 200 || got.Over != eviction.RateWindow {
		t.Errorf("over the window: %v", got)
	}
	s := &signals.Snapshot{At: begin.Add(7 * time.Second)}
	f.note(s)
	if s.Rates[signals.MemoryAvailable] != (signals.Rate{}) {
		t.Error("an unknown observation has a rate")
	}
}

func TestASelfTestNamesWhatIsMissing(t *testing.T) {
	var lines logLines
	missing := SelfTest(t.Context(), lines.logger(), []Check{
		{What: "seeing", Try: func(context.Context) error { return nil }},
		{What: "killing", Try: func(context.Context) error { return errRefused }, Remedy: "be root", Loss: "no eviction"},
	})
	if missing != 1 || !lines.contain("Self-test passed: seeing works") || !lines.contain("killing does not work", "refused", "be root", "no eviction") {
		t.Errorf("%d missing:\n%s", missing, lines.String())
	}
}
