package agent

import (
	"context"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// A budget refuses the pod that memory asks for softly. PIDs come after memory, and
// run out meanwhile.
func TestAHardThresholdIsNotHiddenByASoftOneThatIsHeld(t *testing.T) {
	thresholds := []eviction.Threshold{soft(), {Signal: signals.PIDAvailable, Value: quantity(100)}}
	w := live(t, 105*time.Second, false, thresholds, func(w *world) {
		w.pids = 900
		w.later(85*time.Second, func() { w.pids = 50 })
		unanswered(w.add("hog", 800*mib))
		bomb := w.add("bomb", 10*mib)
		bomb.Priority, bomb.MemoryRequest = -1, signals.Quantity{Value: gib}
	})
	var hard []string
	for _, d := range w.told {
		if d.Decision == Evicted {
			hard = append(hard, d.Pod+" "+d.Signal)
		}
	}
	if len(hard) == 0 || hard[0] != "default/bomb pid.available" || w.count(Terminating) != 1 {
		t.Errorf("hard %v; told %v", hard, w.verbs())
	}
}

// It crashes whenever it is asked for: who asks for it again and again asks nobody else.
func TestAPodThatEndsByItselfWhenAskedForLetsTheNextOneBeAsked(t *testing.T) {
	w := live(t, 3*time.Minute, false, []eviction.Threshold{soft()}, func(w *world) {
		for name, memory := range map[string]signals.Amount{"crashing": 700 * mib, "next": 100 * mib} {
			p := w.add(name, memory)
			p.FromAPI, p.polite = true, true
			p.asked = func(context.Context, Changes) (Killed, error) {
				<-time.After(2 * time.Second)
				return Killed{Withdrawn: true}, nil
			}
		}
	})
	want := []string{"default/crashing", "default/crashing", "default/crashing", "default/next", "default/next", "default/next"}
	if got := w.evicted(); !slices.Equal(got, want) {
		t.Errorf("asked %v, want %v", got, want)
	}
}

// What is on its way in the node's memory does not help where what pods are allowed
// runs out, or the other way round.
func TestEitherMemoryThatRunsOutEndsTheWait(t *testing.T) {
	const reserve = 500 * time.Millisecond
	at := time.Unix(9, 0)
	calm := signals.Observed(400*mib, gib, at)
	falling := signals.Fall{By: 100 * mib, Over: 100 * time.Millisecond}
	for about, tc := range map[string]struct {
		of    signals.Signal
		see   signals.Signal
		left  signals.Amount
		fell  signals.Fall
		ends  bool
		since time.Duration
	}{
		"nothing falls":            {signals.MemoryAvailable, signals.AllocatableMemoryAvailable, 100 * mib, signals.Fall{}, false, time.Second},
		"its own falls":            {signals.MemoryAvailable, signals.MemoryAvailable, 100 * mib, falling, true, time.Second},
		"the pods' falls":          {signals.MemoryAvailable, signals.AllocatableMemoryAvailable, 100 * mib, falling, true, time.Second},
		"the node's falls":         {signals.AllocatableMemoryAvailable, signals.MemoryAvailable, 100 * mib, falling, true, time.Second},
		"the pods' is used up":     {signals.MemoryAvailable, signals.AllocatableMemoryAvailable, 0, signals.Fall{}, true, time.Second},
		"a kill may still help":    {signals.MemoryAvailable, signals.AllocatableMemoryAvailable, 0, falling, false, eviction.KillTime - 1},
		"memory is of no disk":     {signals.NodefsAvailable, signals.MemoryAvailable, 0, falling, false, time.Second},
		"a disk is of no memory's": {signals.MemoryAvailable, signals.NodefsAvailable, 0, falling, false, time.Second},
	} {
		s := signals.Snapshot{At: at}
		for _, sig := range []signals.Signal{signals.MemoryAvailable, signals.AllocatableMemoryAvailable, signals.NodefsAvailable} {
			s.Node[sig] = calm
		}
		s.Node[tc.see], s.Fell[tc.see] = signals.Observed(tc.left, gib, at), tc.fell
		if got := (&release{signal: tc.of, gone: at.Add(-tc.since)}).pressed(&s, reserve); got != tc.ends {
			t.Errorf("%s: %v", about, got)
		}
	}
}

// Who can not be asked to end keeps nobody from looking at memory.
func TestOnlyAFailedKillIsWaitedAfter(t *testing.T) {
	for about, threshold := range map[string]eviction.Threshold{"hard": hard(), "soft": soft()} {
		a := New(Settings{}, Parts{Machine: eviction.New(newPolicy(t, eviction.Settings{})), Reporter: &world{}})
		a.report(&Outcome{Snapshot: &signals.Snapshot{At: time.Unix(9, 0)}, Verdict: eviction.Verdict{Target: &threshold},
			Failed: []Failure{{&signals.Pod{UID: "p"}, errRefused}}})
		if waits := !a.retryAt.IsZero(); waits != threshold.Hard() {
			t.Errorf("%s: waits %v", about, waits)
		}
	}
}
