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
func TestGarbage_LimitedThresholdDoesNotBlockOthersOfDisk(t *testing.T) {
	thresholds := append(full(), eviction.Threshold{Signal: signals.NodefsInodesFree, Value: quantity(1000)})
	var at time.Time
	w := limitedRun(t, 5*time.Minute, limiter.Policy{OwnerBackoff: 30 * time.Minute}, thresholds, func(w *env) {
		crashLoop(w, 6*gib, 0)
		w.inodes = 100_000
		at = time.Now().Add(3 * time.Minute)
		w.later(3*time.Minute, func() {
			w.add("inodes", mib).inodes = 99_990
		})
	})
	got := w.lines(Evicted)
	if len(got) == 0 || got[len(got)-1].Pod != "default/inodes" || got[len(got)-1].Time.Sub(at) > 15*time.Second {
		t.Errorf("evicted %v; reported %v", w.evicted(), w.verbs())
	}
	if w.count(Limited) != 1 {
		t.Errorf("the limit of the owner's pod was reported %d times, want once", w.count(Limited))
	}
	if w.collected > 40 {
		t.Errorf("collected %d times", w.collected)
	}
}

// requester requests collections from an agent. Each takes a second.
type requester struct {
	*Agent
	t     *testing.T
	met   signals.Set
	asked Outcome             // the requests of the present check
	begun [][]signals.Garbage // the kinds collected
}

// runCollections runs a test with thresholds on nodefs and imagefs.
func runCollections(t *testing.T, setup func(*requester)) (begun [][]signals.Garbage) {
	t.Helper()
	r := &requester{}
	synctest.Test(t, func(t *testing.T) {
		collector := collects(func(_ context.Context, what []signals.Garbage) {
			r.begun = append(r.begun, what)
			<-time.After(time.Second)
		})
		r.t, r.Agent = t, New(Settings{}, Parts{Machine: eviction.New(newPolicy(t, eviction.Settings{})), Reporter: &env{}, Collector: collector})
		r.see(signals.NodefsAvailable, signals.ImagefsAvailable)
		setup(r)
	})
	return r.begun
}

// see changes the set of met signals.
func (r *requester) see(met ...signals.Signal) {
	r.met = 0
	for _, s := range met {
		r.met.Add(s)
	}
}

func (r *requester) verdict(of signals.Signal, what ...signals.Garbage) eviction.Verdict {
	return eviction.Verdict{GracePassed: r.met, Target: &eviction.Threshold{Signal: of, Value: quantity(gib)}, Garbage: what}
}

// ask reports whether a collection was done for the threshold.
func (r *requester) ask(of signals.Signal, what ...signals.Garbage) (done bool) {
	o := Outcome{Verdict: r.verdict(of, what...)}
	begin, _, done := r.garbage.of(&o.Verdict)
	if begin {
		r.beginGarbage(r.t.Context(), &o.Verdict, what)
		return false
	}
	o.garbageAsked = true
	r.asked.Passed = append(r.asked.Passed, o)
	return done
}

func (r *requester) nodefs() bool  { return r.ask(signals.NodefsAvailable, signals.DeadContainers) }
func (r *requester) imagefs() bool { return r.ask(signals.ImagefsAvailable, signals.UnusedImages) }

// endCheck ends a check, and the collection in flight, if any.
func (r *requester) endCheck() {
	r.asked.Snapshot, r.asked.Verdict = &signals.Snapshot{At: time.Now(), Kind: signals.Periodic}, r.verdict(signals.NodefsAvailable)
	r.concludeGarbage(r.t.Context(), &r.asked)
	r.asked = Outcome{}
	<-time.After(2 * time.Second)
	r.applyResults()
}

// The collection for one filesystem is not enough for another. The next one is for both, so that
// neither uses up the result for the other.
func TestGarbage_ResultNotUsedByThresholdThatNeedsMore(t *testing.T) {
	begun := runCollections(t, func(r *requester) {
		if r.nodefs() || r.imagefs() {
			t.Error("a collection was done at once")
		}
		r.endCheck()
		for range 2 { // each of its thresholds
			if !r.nodefs() {
				t.Error("the result of collecting containers was not used")
			}
		}
		if r.imagefs() {
			t.Error("done without collecting images")
		}
		r.endCheck()
		if !r.nodefs() || !r.imagefs() || !r.ask(signals.NodefsAvailable) {
			t.Error("the result of collecting both was not used")
		}
		if r.endCheck(); r.garbage.run != nil {
			t.Error("the result remained after the check that used it")
		}
	})
	want := [][]signals.Garbage{{signals.DeadContainers}, {signals.DeadContainers, signals.UnusedImages}}
	if !slices.EqualFunc(begun, want, slices.Equal) {
		t.Errorf("collected %v, want %v", begun, want)
	}
}

// The first threshold requests a collection right after one for the second has ended.
func TestGarbage_FlappingThresholdDoesNotDropOtherResult(t *testing.T) {
	runCollections(t, func(r *requester) {
		r.imagefs()
		r.endCheck()
		if r.nodefs() || !r.imagefs() {
			t.Error("the result of collecting images was not used for images alone")
		}
		r.endCheck()
		if !r.imagefs() {
			t.Error("the result of collecting images was dropped")
		}
	})
}

// A collection ended with enough space for the thresholds met at its start. A threshold met since
// then needs its own collection.
func TestGarbage_ResultNotUsedByThresholdMetLater(t *testing.T) {
	begun := runCollections(t, func(r *requester) {
		r.see(signals.NodefsAvailable)
		r.nodefs()
		r.endCheck()
		r.see(signals.NodefsInodesFree)
		if r.ask(signals.NodefsInodesFree, signals.DeadContainers) {
			t.Error("done without a collection for inodes")
		}
		r.endCheck()
		if !r.ask(signals.NodefsInodesFree, signals.DeadContainers) {
			t.Error("the result of collecting containers was not used for inodes")
		}
	})
	if len(begun) != 2 {
		t.Errorf("collected %v", begun)
	}
}

// After disarming during a check, no collection remains and none is reported.
func TestGarbage_DisarmingDuringCheckDropsResult(t *testing.T) {
	begun := runCollections(t, func(r *requester) {
		r.nodefs()
		r.endCheck()
		r.nodefs()
		r.imagefs()
		r.arming = never{}
		if r.mayAct() || r.garbage.run != nil || r.isReported(CollectingGarbage, &Outcome{Snapshot: &signals.Snapshot{Kind: signals.Periodic}, Collecting: true}) {
			t.Errorf("collection remains after disarming: %+v", r.garbage.run)
		}
		if r.nodefs() || r.garbage.run == nil {
			t.Error("the disarmed agent did not start a new measurement")
		}
		r.endCheck()
		if !r.nodefs() {
			t.Error("the result of the disarmed agent was not used for the requested kinds")
		}
	})
	if len(begun) != 2 || len(begun[1]) != 0 {
		t.Errorf("collected %v", begun)
	}
}
