package agent

import (
	"context"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// A budget refuses the soft eviction for memory. PIDs come after memory, and run out meanwhile.
func TestChecker_BlockedSoftThresholdDoesNotHideHard(t *testing.T) {
	thresholds := []eviction.Threshold{soft(), {Signal: signals.PIDAvailable, Value: quantity(100)}}
	w := live(t, 105*time.Second, false, thresholds, func(w *env) {
		w.pids = 900
		w.later(85*time.Second, func() { w.pids = 50 })
		unanswered(w.add("hog", 800*mib))
		bomb := w.add("bomb", 10*mib)
		bomb.Priority, bomb.MemoryRequest, bomb.processes = -1, signals.Quantity{Value: gib}, 800
	})
	var hard []string
	for _, d := range w.reported {
		if d.Decision == Evicted {
			hard = append(hard, d.Pod+" "+d.Signal)
		}
	}
	if len(hard) == 0 || hard[0] != "default/bomb pid.available" || w.count(SoftEvicting) != 1 {
		t.Errorf("hard %v; reported %v", hard, w.verbs())
	}
}

// The pod crashes at each request. Repeated requests for it must not exclude other pods.
func TestSoftEviction_NextPodAfterRepeatedSelfExit(t *testing.T) {
	w := live(t, 3*time.Minute, false, []eviction.Threshold{soft()}, func(w *env) {
		for name, memory := range map[string]signals.Amount{"crashing": 700 * mib, "next": 100 * mib} {
			p := w.add(name, memory)
			p.FromAPI, p.withdrawable = true, true
			p.asked = func(context.Context, Changes) (EvictionResult, error) {
				<-time.After(2 * time.Second)
				return EvictionResult{Withdrawn: true}, nil
			}
		}
	})
	want := []string{"default/crashing", "default/crashing", "default/crashing", "default/next", "default/next", "default/next"}
	if got := w.evicted(); !slices.Equal(got, want) {
		t.Errorf("requested %v, want %v", got, want)
	}
}

// A failed soft eviction does not delay memory checks.
func TestFailed_OnlyHardEvictionDelaysRetry(t *testing.T) {
	for about, threshold := range map[string]eviction.Threshold{"hard": hard(), "soft": soft()} {
		a := New(Settings{}, Parts{Machine: eviction.New(newPolicy(t, eviction.Settings{})), Reporter: &env{}})
		a.delayRetry(&Outcome{Snapshot: &signals.Snapshot{At: time.Unix(9, 0)}, Verdict: eviction.Verdict{Target: &threshold},
			Failed: []Failure{{&signals.Pod{UID: "p"}, errRefused}}}, Failed)
		if waits := !a.retryAt.IsZero(); waits != threshold.Hard() {
			t.Errorf("%s: retry delayed %v", about, waits)
		}
	}
}
