package agent

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// One owner's pods use up the disk, and the eviction of the last one is limited. Meanwhile
// another pod uses up the inodes of the same disk.
func TestReclaim_HeldThresholdKeepsNoOtherOneOfTheDiskWaiting(t *testing.T) {
	thresholds := append(full(), eviction.Threshold{Signal: signals.NodefsInodesFree, Value: quantity(1000)})
	var at time.Time
	w := restrained(t, 5*time.Minute, limiter.Policy{OwnerBackoff: 30 * time.Minute}, thresholds, func(w *world) {
		crashLoop(w, 6*gib, 0)
		w.inodes = 100_000
		at = time.Now().Add(3 * time.Minute)
		w.later(3*time.Minute, func() {
			w.add("inodes", mib).inodes = 99_990
			w.pods[len(w.pods)-1].writes(1)
		})
	})
	got := w.lines(Evicted)
	if len(got) == 0 || got[len(got)-1].Pod != "default/inodes" || got[len(got)-1].Time.Sub(at) > 15*time.Second {
		t.Errorf("evicted %v; told %v", w.evicted(), w.verbs())
	}
	if w.count(Limited) != 1 {
		t.Errorf("the owner's pod was told to be spared %d times", w.count(Limited))
	}
	if w.collected > 40 {
		t.Errorf("collected %d times", w.collected)
	}
}

// asker requests collections from an agent, each of which takes a second.
type asker struct {
	*Agent
	t     *testing.T
	met   signals.Set
	asked Outcome             // the requests of the present check
	begun [][]signals.Garbage // the kinds collected
}

// reliefs runs a story with thresholds on nodefs and imagefs.
func reliefs(t *testing.T, story func(*asker)) (begun [][]signals.Garbage) {
	t.Helper()
	r := &asker{}
	synctest.Test(t, func(t *testing.T) {
		collector := collects(func(_ context.Context, what []signals.Garbage) {
			r.begun = append(r.begun, what)
			<-time.After(time.Second)
		})
		r.t, r.Agent = t, New(Settings{}, Parts{Machine: eviction.New(newPolicy(t, eviction.Settings{})), Reporter: &world{}, Collector: collector})
		r.see(signals.NodefsAvailable, signals.ImagefsAvailable)
		story(r)
	})
	return r.begun
}

// see changes the set of met signals.
func (r *asker) see(met ...signals.Signal) {
	r.met = 0
	for _, s := range met {
		r.met.Add(s)
	}
}

func (r *asker) verdict(of signals.Signal, what ...signals.Garbage) eviction.Verdict {
	return eviction.Verdict{Met: r.met, Target: &eviction.Threshold{Signal: of, Value: quantity(gib)}, Garbage: what}
}

// ask reports whether a collection was done for the threshold.
func (r *asker) ask(of signals.Signal, what ...signals.Garbage) (done bool) {
	o := Outcome{Verdict: r.verdict(of, what...)}
	begin, _, done := r.garbage.of(&o.Verdict)
	if begin {
		r.beginGarbage(r.t.Context(), &o.Verdict, what)
		return false
	}
	o.asked = true
	r.asked.Passed = append(r.asked.Passed, o)
	return done
}

func (r *asker) nodefs() bool  { return r.ask(signals.NodefsAvailable, signals.DeadContainers) }
func (r *asker) imagefs() bool { return r.ask(signals.ImagefsAvailable, signals.UnusedImages) }

// look ends a check, and the collection in flight, if any.
func (r *asker) look() {
	r.asked.Snapshot, r.asked.Verdict = &signals.Snapshot{At: time.Now(), Kind: signals.Periodic}, r.verdict(signals.NodefsAvailable)
	r.forgetGarbage(r.t.Context(), &r.asked)
	r.asked = Outcome{}
	<-time.After(2 * time.Second)
	r.collectResults()
}

// The collection for one filesystem is not enough for another. The next one is for both, so that
// neither uses up the result for the other.
func TestReclaim_ReliefIsForNoThresholdThatNeedsMore(t *testing.T) {
	begun := reliefs(t, func(r *asker) {
		if r.nodefs() || r.imagefs() {
			t.Error("done at once")
		}
		r.look()
		for range 2 { // each of its thresholds
			if !r.nodefs() {
				t.Error("containers were collected")
			}
		}
		if r.imagefs() {
			t.Error("no images were collected")
		}
		r.look()
		if !r.nodefs() || !r.imagefs() || !r.ask(signals.NodefsAvailable) {
			t.Error("both were collected")
		}
		if r.look(); r.garbage.run != nil {
			t.Error("its result outlives the look that has made use of it")
		}
	})
	want := [][]signals.Garbage{{signals.DeadContainers}, {signals.DeadContainers, signals.UnusedImages}}
	if !slices.EqualFunc(begun, want, slices.Equal) {
		t.Errorf("collected %v, want %v", begun, want)
	}
}

// The first threshold requests a collection when one for the second threshold has just ended.
func TestReclaim_ThresholdThatComesAndGoesDoesNotDropTheReliefOfAnother(t *testing.T) {
	reliefs(t, func(r *asker) {
		r.imagefs()
		r.look()
		if r.nodefs() || !r.imagefs() {
			t.Error("images were collected, and no containers")
		}
		r.look()
		if !r.imagefs() {
			t.Error("images were collected again")
		}
	})
}

// A collection ended with enough space for the thresholds met at its start. A threshold met since
// then needs its own collection.
func TestReclaim_ReliefIsForNoThresholdThatWasNotMet(t *testing.T) {
	begun := reliefs(t, func(r *asker) {
		r.see(signals.NodefsAvailable)
		r.nodefs()
		r.look()
		r.see(signals.NodefsInodesFree)
		if r.ask(signals.NodefsInodesFree, signals.DeadContainers) {
			t.Error("nothing was collected for inodes")
		}
		r.look()
		if !r.ask(signals.NodefsInodesFree, signals.DeadContainers) {
			t.Error("containers were collected for inodes")
		}
	})
	if len(begun) != 2 {
		t.Errorf("collected %v", begun)
	}
}

// After disarming during a check, no collection remains, and nothing is reported.
func TestReclaim_DisarmingInTheLookDropsTheRelief(t *testing.T) {
	begun := reliefs(t, func(r *asker) {
		r.nodefs()
		r.look()
		r.nodefs()
		r.imagefs()
		r.arming = never{}
		if r.mayAct() || r.garbage.run != nil || r.isReported(CollectingGarbage, &Outcome{Collecting: true}, true) {
			t.Errorf("left: %+v", r.garbage.run)
		}
		if r.nodefs() || r.garbage.run == nil {
			t.Error("a disarmed agent measures anew")
		}
		r.look()
		if !r.nodefs() {
			t.Error("the relief of a disarmed agent is not for what an armed one would collect")
		}
	})
	if len(begun) != 2 || len(begun[1]) != 0 {
		t.Errorf("collected %v", begun)
	}
}
