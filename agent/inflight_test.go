package agent

import (
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// writer adds a pod with nearly all memory in tmpfs files. They are charged for a while after its
// end, and the rest of its memory is not enough.
func (w *env) writer(memory signals.Amount, mounted time.Duration) *envPod {
	p := w.add("writer", memory)
	p.files, p.mounted = memory-20*mib, mounted
	return p
}

// gap returns the time between the first two evictions, and the reason for the end of the wait
// after the first.
func (w *env) gap(t *testing.T, pods ...string) (d time.Duration, why string) {
	t.Helper()
	if got := w.evicted(); !slices.Equal(got, pods) {
		t.Fatalf("evicted %v, want %v; reported %v", got, pods, w.verbs())
	}
	var at []time.Time
	for _, d := range w.reported {
		switch d.Decision {
		case Evicted, SoftEvicting:
			at = append(at, d.Time)
		case ReclaimDone:
			if why == "" {
				why = d.Reason
			}
		}
	}
	if len(at) > 1 {
		d = at[1].Sub(at[0])
	}
	return d, why
}

// The processes exit at once. Their files are freed by a later unmount.
func TestEvict_WaitsForTmpfsUnmount(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.writer(900*mib, 1200*time.Millisecond)
		w.add("other", 60*mib)
	})
	if _, why := w.gap(t, "default/writer"); why != inflight.Recovered {
		t.Errorf("wait ended: %s", why)
	}
	w = live(t, 95*time.Second, false, []eviction.Threshold{soft()}, func(w *env) {
		w.ending = 5 * time.Second
		w.writer(900*mib, 1200*time.Millisecond)
		w.add("other", 20*mib)
	})
	if _, why := w.gap(t, "default/writer"); why != inflight.Recovered {
		t.Errorf("wait ended: %s", why)
	}
	if early := w.checks[signals.Early]; early > 150 {
		t.Errorf("%d early checks during the wait for an unmount", early)
	}
}

// The memory of a pod without processes, or with most of it in files, is freed after the kubelet has read
// its status, which may be slow. No other pod is evicted meanwhile.
func TestEvict_WaitsForUnmountByKubelet(t *testing.T) {
	for name, c := range map[string]struct {
		status  Status
		mounted time.Duration
		evicted []string
		why     string
	}{
		"unmounted late":          {StatusReported, 12 * time.Second, []string{"default/writer"}, inflight.Recovered},
		"never unmounted":         {StatusReported, time.Hour, []string{"default/writer", "default/other"}, "ended"},
		"status not reported yet": {StatusPending, 12 * time.Second, []string{"default/writer", "default/other"}, "ended"},
	} {
		for pod, set := range map[string]func(*envPod){
			"without processes":   func(p *envPod) { p.files, p.withoutProcesses = 900*mib, c.status },
			"most of it in files": func(p *envPod) { p.files, p.status = 880*mib, c.status },
		} {
			t.Run(name+"/"+pod, func(t *testing.T) {
				w := live(t, 95*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
					p := w.add("writer", 900*mib)
					p.mounted = c.mounted
					set(p)
					w.add("other", 60*mib)
				})
				after, why := w.gap(t, c.evicted...)
				if why != c.why {
					t.Errorf("wait ended: %s", why)
				}
				if maxGap := inflight.FreeTimeout + 10*time.Second; c.status == StatusReported && len(c.evicted) > 1 && (after < inflight.FreeTimeout || after > maxGap) {
					t.Errorf("the next eviction came after %s, want %s to %s", after, inflight.FreeTimeout, maxGap)
				}
				if w.count(Failed) > 0 {
					t.Errorf("an eviction was reported as failed: %v", w.verbs())
				}
			})
		}
	}
}

// The pod filled memory until its escalation. Its rate predicts nothing for the time after it.
func TestEvict_WaitsForTmpfsUnmountOfEscalatedLeak(t *testing.T) {
	w := live(t, 95*time.Second, false, []eviction.Threshold{soft(), hard()}, func(w *env) {
		w.ending, w.escalatedEnd = time.Hour, 20*time.Millisecond
		w.add("other", 20*mib)
		leak := w.add("leak", 780*mib)
		leak.files, leak.mounted = gib, time.Second
		leak.rate, leak.since = 90*mib, time.Now().Add(75*time.Second+100*time.Millisecond)
	})
	if _, why := w.gap(t, "default/leak"); why != inflight.Recovered || w.count(Escalated) != 1 {
		t.Errorf("wait ended: %s; reported %v", why, w.verbs())
	}
}

// The memory of the soft eviction is being freed when the pod is killed for its limit.
func TestEvict_WaitsForTmpfsUnmountAfterKillForLimit(t *testing.T) {
	policy := eviction.Settings{Thresholds: []eviction.Threshold{soft(), hard()}, StorageLimits: true}
	w := liveIn(t, 125*time.Second, Settings{}, policy, func(w *env, _ *Parts) {
		w.disk, w.ending = 100*gib, time.Hour
		p := w.writer(800*mib, 1200*time.Millisecond)
		p.FromAPI, p.withdrawable = true, true
		p.Volumes = []signals.Volume{{Name: "data", Local: true, SizeLimit: signals.Quantity{Value: gib}}}
		w.later(95*time.Second, func() { p.disk = 2 * gib })
		w.add("other", 20*mib)
	})
	w.gap(t, "default/writer", "default/writer")
	if last := w.reported[len(w.reported)-1]; last.Decision != ReclaimDone || last.Reason != inflight.Recovered || *last.ExitTime < 41_200 {
		t.Errorf("last decision: %+v", last)
	}
}

func TestEvict_WaitForTmpfsUnmountIsBounded(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.writer(900*mib, time.Hour)
		w.add("other", 60*mib)
	})
	if d, why := w.gap(t, "default/writer", "default/other"); why != "ended" || d < inflight.UnmountTimeout || d > inflight.UnmountTimeout+50*time.Millisecond {
		t.Errorf("the next eviction came after %s; wait ended: %s", d, why)
	}
}

func TestEvict_ImminentExhaustionDoesNotWaitForUnmount(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.writer(900*mib, 2*time.Second)
		leak := w.add("leak", 60*mib)
		leak.rate, leak.since = 100*mib, time.Now().Add(300*time.Millisecond)
	})
	if d, why := w.gap(t, "default/writer", "default/leak"); why != "no time left to wait" || d > time.Second || w.minAvailable < 20*mib {
		t.Errorf("the leak was evicted after %s, with a minimum of %d MiB available; wait ended: %s", d, w.minAvailable/mib, why)
	}
}

// Exhausted memory does not fall any more.
func TestEvict_ExhaustedMemoryDoesNotWaitForUnmount(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.writer(950*mib, time.Hour)
		w.add("other", 110*mib)
	})
	if d, why := w.gap(t, "default/writer", "default/other"); why != "no time left to wait" || d < eviction.ReactionTime || d > 2*eviction.ReactionTime {
		t.Errorf("the next eviction came after %s; wait ended: %s", d, why)
	}
}

// Disk space of a soft eviction is being freed when the grace period of a soft memory threshold
// ends. Both waits happen, one after the other.
func TestSoftEviction_DoesNotEndWaitForPreviousOne(t *testing.T) {
	thresholds := []eviction.Threshold{{Signal: signals.NodefsAvailable, Value: quantity(10 * gib), Grace: time.Minute},
		{Signal: signals.MemoryAvailable, Value: quantity(300 * mib), Grace: 62 * time.Second}}
	w := live(t, 140*time.Second, false, thresholds, func(w *env) {
		w.disk, w.collects = 20*gib, time.Second
		full := w.add("full", mib)
		full.disk, full.removed = 9*gib, 25*time.Second
		w.add("hog", 800*mib)
		w.add("other", mib).disk = 5 * gib
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/full", "default/hog"}) {
		t.Errorf("evicted %v", got)
	}
}
