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

func TestWasteGoesBeforePodsDo(t *testing.T) {
	w := live(t, 35*time.Second, false, full(), func(w *world) {
		w.disk, w.waste, w.collects = 8*gib, 5*gib, 3*time.Second
		w.add("calm", 100*mib)
	})
	if got := w.evicted(); len(got) != 0 || w.collected != 1 || w.count(CollectingGarbage) != 1 || w.count(Recovered) != 0 {
		t.Errorf("evicted %v, collected %d times, told %+v", got, w.collected, w.told)
	}
}

func TestAPodGoesAtOnceWhenWasteWasNotEnough(t *testing.T) {
	w := live(t, 9*time.Second, false, full(), func(w *world) {
		w.disk, w.waste, w.collects = 20*gib, gib, 3*time.Second
		w.add("small", 1).disk = 2 * gib
		big := w.add("big", 1)
		big.disk, big.removed = 13*gib, 2*time.Second
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/big"}) {
		t.Errorf("evicted %v", got)
	}
	for _, d := range w.told {
		if d.Decision == Evicted && !slices.Equal(d.Reclaimed, []string{"containers", "images"}) {
			t.Errorf("%+v", d)
		}
	}
}

// The processes are gone at once, their files only after a removal.
func TestDiskSpaceOnItsWayIsWaitedFor(t *testing.T) {
	w := live(t, 28*time.Second, false, full(), func(w *world) {
		w.disk, w.collects = 20*gib, time.Second
		big := w.add("big", 1)
		big.disk, big.removed = 9*gib, 25*time.Second
		w.add("small", 1).disk = 5 * gib
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/big"}) {
		t.Errorf("evicted %v", got)
	}
	if extra := w.looks[signals.Early]; extra > 500 {
		t.Errorf("%d extra looks, which see no disk, while a disk is waited for", extra)
	}
}

func TestMemoryIsLookedAtWhileTheRuntimeTakesItsTime(t *testing.T) {
	w := live(t, 8*time.Second, false, full(), func(w *world) {
		w.disk, w.waste, w.collects = 8*gib, 5*gib, time.Hour
		leak := w.add("leak", 300*mib)
		leak.rate, leak.since = 200*mib, time.Now().Add(time.Second)
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/leak"}) {
		t.Errorf("evicted %v", got)
	}
}

func TestADryRunCollectsNothing(t *testing.T) {
	w := live(t, 9*time.Second, true, full(), func(w *world) {
		w.disk, w.waste, w.collects = 8*gib, 5*gib, time.Second
		w.add("calm", 100*mib)
	})
	if w.waste != 5*gib || w.count(WouldEvict) != 1 {
		t.Errorf("%d GiB of waste left, told %+v", w.waste/gib, w.told)
	}
}

func TestALimitWaitsForWhatIsOnItsWay(t *testing.T) {
	limited := func(w *world, name string) *worldPod {
		p := w.add(name, 1)
		p.disk, p.removed = 2*gib, time.Hour
		p.Volumes = []signals.Volume{{Name: "data", Local: true, SizeLimit: signals.Quantity{Value: gib}}}
		return p
	}
	w := liveIn(t, 25*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}, StorageLimits: true}, func(w *world, _ *Parts) {
		w.disk = 100 * gib
		limited(w, "first").undead = true
		limited(w, "other")
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/first"}) {
		t.Errorf("evicted %v: the first one's processes are not gone", got)
	}
	w = liveIn(t, 25*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}, StorageLimits: true}, func(w *world, _ *Parts) {
		w.disk = 100 * gib
		limited(w, "one")
		limited(w, "other")
	})
	if got := w.evicted(); len(got) != 2 {
		t.Errorf("evicted %v: both are above their limits", got)
	}
	for _, d := range w.told {
		if d.FreedBytes != nil || d.Decision == ReclaimDone && d.Signal != eviction.EmptyDirLimit {
			t.Errorf("%s for %q, freed %v: a limit is about no signal of the node", d.Decision, d.Signal, d.FreedBytes)
		}
	}
}

func TestALimitThatCanNotBeEnforcedIsTold(t *testing.T) {
	w := liveIn(t, 25*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}, StorageLimits: true}, func(w *world, _ *Parts) {
		p := w.add("above", 1)
		p.disk, w.disk, w.killErr = 2*gib, 100*gib, errRefused
		p.Volumes = []signals.Volume{{Name: "data", Local: true, SizeLimit: signals.Quantity{Value: gib}}}
	})
	if w.count(Failed) != 3 || len(w.told[0].Failed) != 1 {
		t.Errorf("told %+v, want a failure in each of three regular looks", w.told)
	}
}

func TestADeletedPodCounts(t *testing.T) {
	story := func(until time.Duration, rate signals.Amount) func(*world) {
		return func(w *world) {
			w.add("big", 500*mib)
			going := w.add("going", 430*mib)
			going.EndsBy = time.Now().Add(until)
			going.MemoryRequest = signals.Quantity{Value: gib}
			going.rate, going.since = rate, time.Now().Add(2*time.Second)
		}
	}
	if got := live(t, 14*time.Second, false, []eviction.Threshold{hard()}, story(15*time.Second, 0)).evicted(); len(got) != 0 {
		t.Errorf("evicted %v: what is missing is on its way", got)
	}
	if got := live(t, 25*time.Second, false, []eviction.Threshold{hard()}, story(15*time.Second, 0)).evicted(); !slices.Equal(got, []string{"default/going"}) {
		t.Errorf("evicted %v: a pod that has outlived its grace period is ended, and no other", got)
	}
	if got := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, story(time.Minute, 100*mib)).evicted(); !slices.Equal(got, []string{"default/going"}) {
		t.Errorf("evicted %v: nobody else has to go for a pod that goes anyway", got)
	}
}

func TestADeletedPodThatHoldsTooLittleChangesNothing(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.add("big", 950*mib)
		w.add("going", mib).EndsBy = time.Now().Add(time.Minute)
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/big"}) {
		t.Errorf("evicted %v", got)
	}
}

func TestASoftEvictionIsWithdrawnWhenItsThresholdClears(t *testing.T) {
	w := live(t, 5*time.Minute, false, []eviction.Threshold{soft()}, func(w *world) {
		w.ending = time.Hour
		p := w.add("polite", 600*mib)
		p.polite, p.FromAPI = true, true
		other := w.add("other", 200*mib)
		other.rate, other.since, other.until, other.then = 1, time.Now(), time.Now().Add(100*time.Second), 10*mib
	})
	if w.count(SoftEvicting) != 1 || w.count(Withdrawn) != 1 || len(w.pods) != 2 {
		t.Errorf("told %+v", w.told)
	}
}

func TestANodeThatShutsDownIsLeftAlone(t *testing.T) {
	w := liveIn(t, 25*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{hard()}}, func(w *world, p *Parts) {
		w.add("big", 950*mib)
		p.Draining = func() string { return "node is shutting down" }
	})
	if got := w.evicted(); len(got) != 0 {
		t.Errorf("evicted %v", got)
	}
}

func TestAPolicyIsAdoptedWithItsTimers(t *testing.T) {
	var late *eviction.Policy
	w := liveIn(t, 65*time.Second, Settings{}, eviction.Settings{Thresholds: []eviction.Threshold{soft()}}, func(w *world, p *Parts) {
		w.add("big", 800*mib)
		begun, first := time.Now(), p.Machine.Policy()
		late = newPolicy(t, eviction.Settings{Thresholds: []eviction.Threshold{soft()}, Layout: signals.Dedicated})
		p.Policy = func() *eviction.Policy {
			if time.Since(begun) < 35*time.Second {
				return first
			}
			return late
		}
	})
	if w.count(SoftEvicting) != 1 {
		t.Errorf("told %+v: the grace period began before the policy changed", w.told)
	}
}

// A new policy does not drop the wait for freed disk space.
func TestAPolicyIsAdoptedWhenNothingIsUnderWay(t *testing.T) {
	w := liveIn(t, 40*time.Second, Settings{}, eviction.Settings{Thresholds: full()}, func(w *world, p *Parts) {
		w.disk, w.collects = 20*gib, 3*time.Second
		big := w.add("big", 1)
		big.disk, big.removed = 9*gib, 20*time.Second
		w.add("small", 1).disk = 5 * gib
		begun, policies := time.Now(), []*eviction.Policy{p.Machine.Policy()}
		for range 3 {
			policies = append(policies, newPolicy(t, eviction.Settings{Thresholds: full(), Layout: signals.Dedicated}))
		}
		p.Policy = func() *eviction.Policy { return policies[min(int(time.Since(begun)/time.Second), 3)] }
	})
	if got := w.evicted(); !slices.Equal(got, []string{"default/big"}) || w.count(CollectingGarbage) != 1 {
		t.Errorf("evicted %v, told %+v", got, w.told)
	}
}

// Exhausted memory does not fall any more, which leaves no time.
func TestThePatienceWithTheServer(t *testing.T) {
	falling := signals.Rate{By: 100 * mib, Over: 100 * time.Millisecond}
	for _, tc := range []struct {
		available signals.Amount
		fell      signals.Rate
		want      time.Duration
	}{
		{100 * mib, signals.Rate{}, maxPatience},
		{100 * mib, falling, 25 * time.Millisecond},
		{20 * mib, falling, 0},
		{0, signals.Rate{}, 0},
		{-mib, signals.Rate{}, 0},
	} {
		var s signals.Snapshot
		s.Node[signals.MemoryAvailable] = signals.Observed(tc.available, gib, time.Now())
		s.Rates[signals.MemoryAvailable] = tc.fell
		if got := patienceFor(&s); got != tc.want {
			t.Errorf("%d MiB, %+v: %s, want %s", tc.available/mib, tc.fell, got, tc.want)
		}
	}
}

// The server hangs, and memory begins to fall only during the wait for it.
func TestAServerIsNotWaitedForAnyMoreWhenMemoryBeginsToFall(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.mute = true
		w.add("big", 700*mib).FromAPI = true
		other := w.add("other", 250*mib)
		other.MemoryRequest = signals.Quantity{Value: gib}
		other.rate, other.since, other.until, other.then = 200*mib, time.Now().Add(500*time.Millisecond), time.Now().Add(time.Second), 350*mib
	})
	if w.least < 0 {
		t.Errorf("memory was used up: %d bytes left at worst", w.least)
	}
	if got := w.evicted(); !slices.Contains(got, "default/big") {
		t.Errorf("evicted %v", got)
	}
}
