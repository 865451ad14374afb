package agent

import (
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// writer adds a pod with nearly all memory in tmpfs files, which are charged for a while after
// its end. The rest is not enough.
func (w *world) writer(memory signals.Amount, mounted time.Duration) *worldPod {
	p := w.add("writer", memory)
	p.files, p.mounted = memory-20*mib, mounted
	return p
}

// gap returns the time between the first two evictions, and the reason for the end of the wait
// after the first.
func (w *world) gap(t *testing.T, pods ...string) (d time.Duration, why string) {
	t.Helper()
	if got := w.evicted(); !slices.Equal(got, pods) {
		t.Fatalf("evicted %v, want %v; told %v", got, pods, w.verbs())
	}
	var at []time.Time
	for _, d := range w.told {
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

// The processes are gone at once, their files only after an unmount.
func TestNobodyDiesForFilesInMemoryThatAreAboutToGo(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.writer(900*mib, 1200*time.Millisecond)
		w.add("other", 60*mib)
	})
	if _, why := w.gap(t, "default/writer"); why != inflight.Recovered {
		t.Errorf("settled: %s", why)
	}
	w = live(t, 95*time.Second, false, []eviction.Threshold{soft()}, func(w *world) {
		w.ending = 5 * time.Second
		w.writer(900*mib, 1200*time.Millisecond)
		w.add("other", 20*mib)
	})
	if _, why := w.gap(t, "default/writer"); why != inflight.Recovered {
		t.Errorf("settled: %s", why)
	}
	if extra := w.looks[signals.Early]; extra > 150 {
		t.Errorf("%d extra looks while files are waited for", extra)
	}
}

// The memory of a pod without processes is freed after the kubelet has read its status.
func TestEvict_WaitsForUnmountOfPodWithoutProcesses(t *testing.T) {
	for name, c := range map[string]struct {
		status  Status
		mounted time.Duration
		evicted []string
		why     string
	}{
		"unmounted after a while": {StatusReported, 12 * time.Second, []string{"default/writer"}, inflight.Recovered},
		"never unmounted":         {StatusReported, time.Hour, []string{"default/writer", "default/other"}, "ended"},
		"status not reported yet": {StatusPending, 12 * time.Second, []string{"default/writer", "default/other"}, "ended"},
	} {
		t.Run(name, func(t *testing.T) {
			w := live(t, 95*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
				p := w.add("writer", 900*mib)
				p.files, p.mounted, p.holder = 900*mib, c.mounted, c.status
				w.add("other", 60*mib)
			})
			after, why := w.gap(t, c.evicted...)
			if why != c.why {
				t.Errorf("settled: %s", why)
			}
			if longest := inflight.FreeTimeout + 10*time.Second; c.status == StatusReported && len(c.evicted) > 1 && (after < inflight.FreeTimeout || after > longest) {
				t.Errorf("the next one went after %s, want %s to %s", after, inflight.FreeTimeout, longest)
			}
			if w.count(Failed) > 0 {
				t.Errorf("an eviction without processes counts as failed: %v", w.verbs())
			}
		})
	}
}

// It filled memory until its escalation, which predicts nothing for the time after it.
func TestAPodThatFilledMemoryItselfIsWaitedForAsWell(t *testing.T) {
	w := live(t, 95*time.Second, false, []eviction.Threshold{soft(), hard()}, func(w *world) {
		w.ending, w.hurries = time.Hour, 20*time.Millisecond
		w.add("other", 20*mib)
		leak := w.add("leak", 780*mib)
		leak.files, leak.mounted = gib, time.Second
		leak.rate, leak.since = 90*mib, time.Now().Add(75*time.Second+100*time.Millisecond)
	})
	if _, why := w.gap(t, "default/leak"); why != inflight.Recovered || w.count(Escalated) != 1 {
		t.Errorf("settled: %s; told %v", why, w.verbs())
	}
}

// The memory for its soft eviction is being freed when it is killed for its limit.
func TestFilesInMemoryAreWaitedForWhateverAPodWasKilledFor(t *testing.T) {
	policy := eviction.Settings{Thresholds: []eviction.Threshold{soft(), hard()}, StorageLimits: true}
	w := liveIn(t, 125*time.Second, Settings{}, policy, func(w *world, _ *Parts) {
		w.disk, w.ending = 100*gib, time.Hour
		p := w.writer(800*mib, 1200*time.Millisecond)
		p.FromAPI, p.polite = true, true
		p.Volumes = []signals.Volume{{Name: "data", Local: true, SizeLimit: signals.Quantity{Value: gib}}}
		w.later(95*time.Second, func() { p.disk = 2 * gib })
		w.add("other", 20*mib)
	})
	w.gap(t, "default/writer", "default/writer")
	if last := w.told[len(w.told)-1]; last.Decision != ReclaimDone || last.Reason != inflight.Recovered || *last.ExitTime < 41_200 {
		t.Errorf("the last was told: %+v", last)
	}
}

func TestFilesInMemoryAreNotWaitedForLong(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.writer(900*mib, time.Hour)
		w.add("other", 60*mib)
	})
	if d, why := w.gap(t, "default/writer", "default/other"); why != "ended" || d < inflight.UnmountTimeout || d > inflight.UnmountTimeout+50*time.Millisecond {
		t.Errorf("the next pod goes after %s; settled: %s", d, why)
	}
}

func TestDoomedMemoryDoesNotWaitForFilesInMemory(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.writer(900*mib, 2*time.Second)
		leak := w.add("leak", 60*mib)
		leak.rate, leak.since = 100*mib, time.Now().Add(300*time.Millisecond)
	})
	if d, why := w.gap(t, "default/writer", "default/leak"); why != "no time left to wait" || d > time.Second || w.least < 20*mib {
		t.Errorf("the leak goes after %s, %d MiB were left; settled: %s", d, w.least/mib, why)
	}
}

// Exhausted memory does not fall any more.
func TestMemoryThatIsUsedUpDoesNotWaitForFilesInMemory(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.writer(950*mib, time.Hour)
		w.add("other", 110*mib)
	})
	if d, why := w.gap(t, "default/writer", "default/other"); why != "no time left to wait" || d < eviction.KillTime || d > 2*eviction.KillTime {
		t.Errorf("the next pod goes after %s; settled: %s", d, why)
	}
}

// Disk space of a soft eviction is being freed when the grace period of a soft memory threshold
// ends. Both waits happen, one after the other.
func TestASoftEvictionDoesNotMakeTheOneBeforeForgotten(t *testing.T) {
	thresholds := []eviction.Threshold{{Signal: signals.NodefsAvailable, Value: quantity(10 * gib), Grace: time.Minute},
		{Signal: signals.MemoryAvailable, Value: quantity(300 * mib), Grace: 62 * time.Second}}
	w := live(t, 140*time.Second, false, thresholds, func(w *world) {
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
