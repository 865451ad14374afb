package agent

import (
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

const gib = 1 << 30

// full is a hard threshold of 10 GiB on nodefs.
func full() []eviction.Threshold {
	return []eviction.Threshold{{Signal: signals.NodefsAvailable, Value: quantity(10 * gib)}, hard()}
}

func TestGarbage_CollectedBeforeEviction(t *testing.T) {
	w := live(t, 35*time.Second, false, full(), func(w *env) {
		w.disk, w.garbage, w.collects = 8*gib, 5*gib, 3*time.Second
		w.add("calm", 100*mib)
	})
	if got := w.evicted(); len(got) != 0 || w.collected != 1 || w.count(CollectingGarbage) != 1 || w.count(Recovered) != 0 {
		t.Errorf("evicted %v, collected %d times, reported %+v", got, w.collected, w.reported)
	}
	if !slices.Equal(w.enough, []bool{true}) {
		t.Errorf("enough was freed: got %v, want once true", w.enough)
	}
}

func TestGarbage_EvictsAtOnceIfTooLittleFreed(t *testing.T) {
	w := live(t, 9*time.Second, false, full(), func(w *env) {
		w.disk, w.garbage, w.collects = 20*gib, gib, 3*time.Second
		w.add("small", 1).disk = 2 * gib
		big := w.add("big", 1)
		big.disk, big.removed = 13*gib, 2*time.Second
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/big"}) || !slices.Equal(w.enough, []bool{false}) {
		t.Errorf("evicted %v; enough was freed: %v, want once false", got, w.enough)
	}
	for _, d := range w.reported {
		if d.Decision == Evicted && !slices.Equal(d.Reclaimed, []string{"containers", "images"}) {
			t.Errorf("%+v", d)
		}
	}
}

// The processes exit at once. Their files are removed later.
func TestEvict_WaitsForDiskSpace(t *testing.T) {
	w := live(t, 28*time.Second, false, full(), func(w *env) {
		w.disk, w.collects = 20*gib, time.Second
		big := w.add("big", 1)
		big.disk, big.removed = 9*gib, 25*time.Second
		w.add("small", 1).disk = 5 * gib
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/big"}) {
		t.Errorf("evicted %v", got)
	}
	if early := w.checks[signals.Early]; early > 500 {
		t.Errorf("%d early checks, which observe no disk, during the wait for a disk", early)
	}
}

func TestGarbage_MemoryCheckedDuringCollection(t *testing.T) {
	w := live(t, 8*time.Second, false, full(), func(w *env) {
		w.disk, w.garbage, w.collects = 8*gib, 5*gib, time.Hour
		leak := w.add("leak", 300*mib)
		leak.rate, leak.since = 200*mib, time.Now().Add(time.Second)
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/leak"}) {
		t.Errorf("evicted %v", got)
	}
}

func TestDryRun_CollectsNoGarbage(t *testing.T) {
	w := live(t, 9*time.Second, true, full(), func(w *env) {
		w.disk, w.garbage, w.collects = 12*gib, 5*gib, time.Second
		w.add("calm", 100*mib).disk = 4 * gib
	})
	if w.garbage != 5*gib || w.count(WouldEvict) != 1 {
		t.Errorf("%d GiB of garbage remain, reported %+v", w.garbage/gib, w.reported)
	}
}

func TestStorageLimit_WaitsForProcessesOfPreviousPod(t *testing.T) {
	limited := func(w *env, name string) *envPod {
		p := w.add(name, 1)
		p.disk, p.removed = 2*gib, time.Hour
		p.Volumes = []signals.Volume{{Name: "data", Local: true, SizeLimit: signals.Quantity{Value: gib}}}
		return p
	}
	w := liveIn(t, 25*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}, StorageLimits: true}, func(w *env, _ *Parts) {
		w.disk = 100 * gib
		limited(w, "first").unkillable = true
		limited(w, "other")
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/first"}) {
		t.Errorf("evicted %v, want the first alone: its processes remain", got)
	}
	w = liveIn(t, 25*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}, StorageLimits: true}, func(w *env, _ *Parts) {
		w.disk = 100 * gib
		limited(w, "one")
		limited(w, "other")
	})
	if got := w.evicted(); len(got) != 2 {
		t.Errorf("evicted %v, want both: they are above their limits", got)
	}
	for _, d := range w.reported {
		if d.FreedBytes != nil || d.Decision == ReclaimDone && d.Signal != eviction.EmptyDirStorageLimit {
			t.Errorf("%s for %q, freed %v: a storage limit belongs to no signal of the node", d.Decision, d.Signal, d.FreedBytes)
		}
	}
}

func TestStorageLimit_ReportsFailure(t *testing.T) {
	w := liveIn(t, 25*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}, StorageLimits: true}, func(w *env, _ *Parts) {
		p := w.add("above", 1)
		p.disk, w.disk, w.killErr = 2*gib, 100*gib, errRefused
		p.Volumes = []signals.Volume{{Name: "data", Local: true, SizeLimit: signals.Quantity{Value: gib}}}
	})
	if w.count(Failed) != 3 || len(w.reported[0].Failed) != 1 {
		t.Errorf("reported %+v, want a failure in each of three periodic checks", w.reported)
	}
}

func TestAwaitDeleted_DeletedPodCounts(t *testing.T) {
	setup := func(until time.Duration, rate signals.Amount) func(*env) {
		return func(w *env) {
			w.add("big", 500*mib)
			going := w.add("going", 430*mib)
			going.EndsBy = time.Now().Add(until)
			going.MemoryRequest = signals.Quantity{Value: gib}
			going.rate, going.since = rate, time.Now().Add(2*time.Second)
		}
	}
	if got := live(t, 14*time.Second, false, []eviction.Threshold{hard()}, setup(15*time.Second, 0)).evicted(); len(got) != 0 {
		t.Errorf("evicted %v, want none: the deleted pod holds the missing amount", got)
	}
	if got := live(t, 25*time.Second, false, []eviction.Threshold{hard()}, setup(15*time.Second, 0)).evicted(); !slices.Equal(got, []string{"default/going"}) {
		t.Errorf("evicted %v, want the deleted pod alone: it exceeded its grace period", got)
	}
	if got := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, setup(time.Minute, 100*mib)).evicted(); !slices.Equal(got, []string{"default/going"}) {
		t.Errorf("evicted %v, want the deleted pod alone", got)
	}
}

func TestAwaitDeleted_IgnoresSmallDeletedPod(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.add("big", 950*mib)
		w.add("going", mib).EndsBy = time.Now().Add(time.Minute)
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/big"}) {
		t.Errorf("evicted %v", got)
	}
}

func TestSoftEviction_WithdrawnWhenThresholdClears(t *testing.T) {
	w := live(t, 5*time.Minute, false, []eviction.Threshold{soft()}, func(w *env) {
		w.ending = time.Hour
		p := w.add("polite", 600*mib)
		p.withdrawable, p.FromAPI = true, true
		other := w.add("other", 200*mib)
		other.rate, other.since, other.until, other.then = 1, time.Now(), time.Now().Add(100*time.Second), 10*mib
	})
	if w.count(SoftEvicting) != 1 || w.count(Withdrawn) != 1 || len(w.pods) != 2 {
		t.Errorf("reported %+v, want one soft eviction and its withdrawal", w.reported)
	}
}

func TestBlocked_NoEvictionDuringShutdown(t *testing.T) {
	w := liveIn(t, 25*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}}, func(w *env, p *Parts) {
		w.add("big", 950*mib)
		p.Draining = func() string { return "node is shutting down" }
	})
	if got := w.evicted(); len(got) != 0 {
		t.Errorf("evicted %v", got)
	}
}

func TestPolicy_TimersSurviveReplacement(t *testing.T) {
	w := liveIn(t, 65*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{soft()}}, func(w *env, p *Parts) {
		w.add("big", 800*mib)
		begun, first := time.Now(), rulesOf(p.Machine.Policy())
		late := rulesOf(newPolicy(t, eviction.Settings{Thresholds: []eviction.Threshold{soft()}, Layout: signals.Dedicated}))
		p.Rules = func() *Rules {
			if time.Since(begun) < 35*time.Second {
				return first
			}
			return late
		}
	})
	if w.count(SoftEvicting) != 1 {
		t.Errorf("reported %+v, want a soft eviction: the grace period began before the policy changed", w.reported)
	}
}

// A new policy drops neither a collection of garbage nor the wait for freed disk space.
func TestPolicy_ReplacementKeepsWaits(t *testing.T) {
	w := liveIn(t, 40*time.Second, Settings{}, eviction.Settings{Thresholds: full()}, func(w *env, p *Parts) {
		w.disk, w.collects = 20*gib, 3*time.Second
		big := w.add("big", 1)
		big.disk, big.removed = 9*gib, 20*time.Second
		w.add("small", 1).disk = 5 * gib
		begun, rules := time.Now(), []*Rules{rulesOf(p.Machine.Policy())}
		for range 3 {
			rules = append(rules, rulesOf(newPolicy(t, eviction.Settings{Thresholds: full(), Layout: signals.Dedicated})))
		}
		p.Rules = func() *Rules { return rules[min(int(time.Since(begun)/time.Second), 3)] }
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/big"}) || w.count(CollectingGarbage) != 1 {
		t.Errorf("evicted %v, reported %+v", got, w.reported)
	}
}

// Exhausted memory does not fall any more, which leaves no time.
func TestServerWait_ByTimeToExhaustion(t *testing.T) {
	falling := signals.Rate{By: 100 * mib, Over: 100 * time.Millisecond}
	for _, tc := range []struct {
		available signals.Amount
		fell      signals.Rate
		want      time.Duration
	}{
		{100 * mib, signals.Rate{}, maxServerWait},
		{100 * mib, falling, 25 * time.Millisecond},
		{20 * mib, falling, 0},
		{0, signals.Rate{}, 0},
		{-mib, signals.Rate{}, 0},
	} {
		var s signals.Snapshot
		s.Node[signals.MemoryAvailable] = signals.Observed(tc.available, gib, time.Now())
		s.Rates[signals.MemoryAvailable] = tc.fell
		if got := serverWait(&s); got != tc.want {
			t.Errorf("%d MiB, %+v: %s, want %s", tc.available/mib, tc.fell, got, tc.want)
		}
	}
}

// The API server hangs, and memory begins to fall only during the wait for it.
func TestServerWait_EndsWhenMemoryBeginsToFall(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.serverHangs = true
		w.add("big", 700*mib).FromAPI = true
		other := w.add("other", 250*mib)
		other.MemoryRequest = signals.Quantity{Value: gib}
		other.rate, other.since, other.until, other.then = 200*mib, time.Now().Add(500*time.Millisecond), time.Now().Add(time.Second), 350*mib
	})
	if w.minAvailable < 0 {
		t.Errorf("memory was exhausted: minimum %d bytes available", w.minAvailable)
	}
	if got := w.evicted(); !slices.Contains(got, "default/big") {
		t.Errorf("evicted %v", got)
	}
}
