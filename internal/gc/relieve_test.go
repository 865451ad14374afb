package gc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

var (
	everything     = []signals.Garbage{signals.DeadContainers, signals.UnusedImages}
	onlyImages     = []signals.Garbage{signals.UnusedImages}
	onlyContainers = []signals.Garbage{signals.DeadContainers}
)

// seenLongAgo lets the collector list the images, and waits until none is new.
func (w *world) seenLongAgo(c *Collector) {
	w.t.Helper()
	if _, _, err := c.look(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	pass(10 * time.Minute)
}

func TestAReliefStopsWhenThereIsEnough(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a", "b", "c", "d")
		w.seenLongAgo(c)
		r := c.Relieve(t.Context(), everything, w.atLeast(750*mib))
		w.expect("RemoveImage a", "RemoveImage b")
		if !r.Enough || r.Images != 2 || r.FreedBytes != 200*mib || r.Err != nil || !slices.Equal(r.Ran, everything) {
			t.Errorf("relief: %+v", r)
		}
		if w.counts["space"] != 2 || w.freed[signals.UnusedImages] != 200*mib {
			t.Errorf("told: %v, freed %v", w.counts, w.freed)
		}
	})
}

func TestAReliefWithEnoughDoesNothing(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a")
		w.seenLongAgo(c)
		r := c.Relieve(t.Context(), everything, w.atLeast(0))
		w.expect()
		if !r.Enough || len(r.Ran) > 0 || r.Err != nil {
			t.Errorf("relief: %+v", r)
		}
	})
}

func TestContainersGoBeforeImages(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.pods["p"], w.pods["e"] = Active, Ended
		w.hold("a", "b")
		w.ended("newest", "p", time.Hour, 50*mib)
		w.ended("old", "p", 2*time.Hour, 50*mib)
		w.ended("of ended", "e", time.Hour, 50*mib)
		w.sandboxes = []cri.Sandbox{{ID: "s", UID: "e"}}
		w.seenLongAgo(c)
		// 650 MiB are available: both collectable containers are not enough.
		r := c.Relieve(t.Context(), everything, w.atLeast(800*mib))
		w.expect("RemoveContainer of ended", "RemoveContainer old", "StopSandbox s", "RemoveSandbox s", "RemoveImage a")
		if !r.Enough || r.Containers != 2 || r.Sandboxes != 1 || r.Images != 1 || r.FreedBytes != 200*mib {
			t.Errorf("relief: %+v", r)
		}
		if w.freed[signals.DeadContainers] != 100*mib || w.freed[signals.UnusedImages] != 100*mib {
			t.Errorf("freed %v", w.freed)
		}
	})
}

func TestContainersThatAreEnoughSpareImages(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a")
		w.ended("1", "gone", 2*time.Hour, 50*mib)
		w.ended("2", "gone", time.Hour, 50*mib)
		w.seenLongAgo(c)
		r := c.Relieve(t.Context(), everything, w.atLeast(850*mib))
		w.expect("RemoveContainer 1")
		if !r.Enough || !slices.Equal(r.Ran, onlyContainers) {
			t.Errorf("relief: %+v", r)
		}
	})
}

func TestARuntimeThatFreesLateIsWaitedFor(t *testing.T) {
	for _, lag := range []time.Duration{0, 300 * time.Millisecond, 2 * time.Second, 4500 * time.Millisecond} {
		in(t, func(t *testing.T, w *world) {
			c := w.collector(nil)
			w.hold("a", "b", "c")
			w.lag = lag
			w.seenLongAgo(c)
			begun := time.Now()
			r := c.Relieve(t.Context(), onlyImages, w.atLeast(800*mib))
			w.expect("RemoveImage a")
			if took := time.Since(begun); !r.Enough || r.FreedBytes != 100*mib || took < lag || took > lag+pollEvery {
				t.Errorf("lag %v: %+v after %v", lag, r, took)
			}
		})
	}
}

func TestContainersFreedLateSpareImages(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a")
		w.ended("1", "gone", time.Hour, 100*mib)
		w.lag = 3 * time.Second
		w.seenLongAgo(c)
		r := c.Relieve(t.Context(), everything, w.atLeast(900*mib))
		w.expect("RemoveContainer 1")
		if !r.Enough || r.FreedBytes != 100*mib {
			t.Errorf("relief: %+v", r)
		}
	})
}

// The wait for the last removal may use all remaining patience.
func TestTheLastRemovalIsWaitedForLonger(t *testing.T) {
	for _, what := range [][]signals.Garbage{onlyContainers, onlyImages} {
		in(t, func(t *testing.T, w *world) {
			c := w.collector(nil)
			if what[0] == signals.DeadContainers {
				w.ended("1", "gone", time.Hour, 100*mib)
			} else {
				w.hold("1")
			}
			w.lag = 9 * time.Second
			w.seenLongAgo(c)
			if r := c.Relieve(t.Context(), what, w.atLeast(1000*mib)); !r.Enough || r.FreedBytes != 100*mib || r.Err != nil {
				t.Errorf("%v: %+v", what, r)
			}
		})
	}
}

// Space freed before the runtime stopped answering is reported nevertheless.
func TestWhatWasFreedIsToldOfAReliefThatFailed(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a", "b")
		w.seenLongAgo(c)
		w.hang["RemoveImage b"] = true
		if r := c.Relieve(t.Context(), onlyImages, w.atLeast(1000*mib)); r.FreedBytes != 100*mib || r.Images != 1 || !errors.Is(r.Err, errSilent) {
			t.Errorf("relief: %+v", r)
		}
	})
}

// Images with shared layers free nothing: the wait for them is bounded, and does not use up the
// wait for the one that frees space.
func TestSharedLayersAreNotWaitedForWithoutEnd(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a", "b", "c", "d", "e")
		w.layers = map[string]int64{"e": 100 * mib}
		w.lag = time.Second
		w.seenLongAgo(c)
		begun := time.Now()
		r := c.Relieve(t.Context(), onlyImages, w.atLeast(600*mib))
		if took := time.Since(begun); !r.Enough || r.Images != 5 || took > patience+atLast+time.Second {
			t.Errorf("%+v after %v", r, took)
		}
		w.hold("f")
		w.layers["f"] = 0
		w.seenLongAgo(c)
		begun = time.Now()
		if r := c.Relieve(t.Context(), onlyImages, w.atLeast(1000*mib)); r.Enough || r.FreedBytes != 0 || time.Since(begun) > patience+atLast+time.Second {
			t.Errorf("nothing is freed: %+v after %v", r, time.Since(begun))
		}
	})
}

func TestAWaitInVainLeavesPatienceForTheNext(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a", "b", "c")
		w.layers["a"] = 0
		w.lag = 2 * time.Second
		w.seenLongAgo(c)
		r := c.Relieve(t.Context(), onlyImages, w.atLeast(800*mib))
		w.expect("RemoveImage a", "RemoveImage b")
		if !r.Enough || r.Err != nil {
			t.Errorf("relief: %+v", r)
		}
	})
}

func TestAContainerThatCanNotBeAskedForItsMounts(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a")
		w.seenLongAgo(c)
		w.containers = []cri.Container{{ID: "1", PodUID: "p", State: cri.Running}}
		broken := errors.New("task is corrupt")
		w.fail["Status 1"] = broken
		if r := c.Relieve(t.Context(), onlyImages, w.atLeast(1000*mib)); r.Images != 0 || !errors.Is(r.Err, broken) {
			t.Errorf("it may mount any image: %+v", r)
		}
		w.fail["Status 1"] = cri.ErrNotFound
		if r := c.Relieve(t.Context(), onlyImages, w.atLeast(1000*mib)); r.Images != 1 || r.Err != nil {
			t.Errorf("it is gone meanwhile: %+v", r)
		}
	})
}

// An image that was pulled again is a new one, even without a listing in between.
func TestAnImageThatIsPulledAgainIsNew(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a")
		w.seenLongAgo(c)
		c.Relieve(t.Context(), onlyImages, w.atLeast(1000*mib))
		w.expect("RemoveImage a")
		w.hold("a")
		c.Relieve(t.Context(), onlyImages, w.atLeast(1000*mib))
		w.expect()
	})
}

func TestWhatShowsInTheSpace(t *testing.T) {
	const full = 100 * mib
	type sample struct {
		after     time.Duration
		available int64
	}
	for name, tc := range map[string]struct {
		expected int64
		samples  []sample
		shows    bool
	}{
		"nothing grew":                      {full, []sample{{0, 500 * mib}, {time.Minute, 500 * mib}}, false},
		"half of it":                        {full, []sample{{0, 550 * mib}}, true},
		"less than half, just now":          {full, []sample{{0, 549 * mib}}, false},
		"less than half, and no more comes": {full, []sample{{0, 549 * mib}, {quiet, 549 * mib}}, true},
		"it grows on":                       {full, []sample{{0, 510 * mib}, {quiet - 1, 520 * mib}, {quiet, 520 * mib}}, false},
		"unknown size, just now":            {0, []sample{{0, 900 * mib}}, false},
		"unknown size, and no more comes":   {0, []sample{{0, 900 * mib}, {quiet, 900 * mib}}, true},
		"logs that others rotate":           {0, []sample{{0, 500*mib + noise - 1}, {quiet, 500*mib + noise - 1}}, false},
		"while others take more":            {full, []sample{{0, 300 * mib}, {time.Millisecond, 350 * mib}}, true},
		"others have taken it":              {0, []sample{{0, 600 * mib}, {quiet, 400 * mib}}, true},
	} {
		r := rise{lowest: 500 * mib}
		got := false
		for _, s := range tc.samples {
			now := start.Add(s.after)
			r.note(s.available, now)
			got = r.shows(tc.expected, now)
		}
		if got != tc.shows {
			t.Errorf("%s: shows is %v", name, got)
		}
	}
}

func TestWhatOthersWriteIsNotFreed(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a")
		w.layers["a"] = 10 * mib
		w.seenLongAgo(c)
		w.begun, w.fills, w.lag = time.Now(), 20*mib, time.Second
		if r := c.Relieve(t.Context(), onlyImages, w.atLeast(1000*mib)); r.Enough || r.FreedBytes != 0 || r.Images != 1 {
			t.Errorf("while 20 MiB/s are written, 10 MiB came back: %+v", r)
		}
	})
}

func TestPressureTakesOnlyWhatIsUnused(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(func(o *Options) { o.Keep = func() []string { return []string{"pause:1"} } })
		w.hold("running", "dead", "volume", "pinned", "pause", "free")
		w.images[3].Pinned = true
		w.images[4].Tags = []string{"pause:1"}
		w.pods["p"] = Active
		w.containers = []cri.Container{
			{ID: "1", PodUID: "p", Name: "a", State: cri.Running, ImageID: "running"}, {ID: "2", PodUID: "p", Name: "b", State: cri.Exited, ImageID: "dead", Created: time.Now()},
		}
		w.mounts["1"] = []string{"volume"}
		w.seenLongAgo(c)
		w.hold("new")
		r := c.Relieve(t.Context(), onlyImages, w.atLeast(1000*mib))
		w.expect("RemoveImage free")
		if r.Enough || r.Images != 1 || r.Err != nil {
			t.Errorf("relief: %+v", r)
		}
		w.images[slices.IndexFunc(w.images, func(i cri.Image) bool { return i.Pinned })].Pinned = false
		delete(w.mounts, "1")
		w.containers[1].ImageID = ""
		c.Relieve(t.Context(), onlyImages, w.atLeast(1000*mib))
		w.expect("RemoveImage pinned", "RemoveImage dead") // the container that mounts the volume still exists
	})
}

func TestAnImageThatComesIntoUseMeanwhileStays(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a", "b", "c")
		w.seenLongAgo(c)
		w.on = func(call string) {
			if call == "RemoveImage a" {
				w.change(func() { w.containers = []cri.Container{{ID: "1", PodUID: "p", ImageID: "b", State: cri.Running}} })
			}
		}
		r := c.Relieve(t.Context(), onlyImages, w.atLeast(1000*mib))
		w.expect("RemoveImage a", "RemoveImage c")
		if r.Images != 2 || r.Err != nil {
			t.Errorf("relief: %+v", r)
		}
	})
}

func TestWhatCanNotBeRemovedDoesNotKeepTheRest(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a", "b")
		w.ended("1", "gone", 2*time.Hour, 0)
		w.ended("2", "gone", time.Hour, 0)
		w.seenLongAgo(c)
		broken := errors.New("device is busy")
		w.fail["RemoveContainer 1"], w.fail["RemoveImage a"] = broken, broken
		r := c.Relieve(t.Context(), everything, w.atLeast(1000*mib))
		w.expect("RemoveContainer 2", "RemoveImage b")
		if r.Containers != 1 || r.Images != 1 || !errors.Is(r.Err, broken) || strings.Count(r.Err.Error(), "device is busy") != 2 {
			t.Errorf("relief: %+v", r)
		}
	})
}

func TestARuntimeThatHangsEndsTheRelief(t *testing.T) {
	for _, call := range []string{"Containers", "Images", "Sandboxes", "RemoveContainer", "StopSandbox", "RemoveImage a", "Status"} {
		in(t, func(t *testing.T, w *world) {
			c := w.collector(func(o *Options) { o.CallTimeout = 30 * time.Second })
			w.hold("a", "b")
			w.seenLongAgo(c)
			w.ended("1", "gone", time.Hour, 0)
			w.ended("2", "gone", time.Hour, 0)
			w.containers = append(w.containers, cri.Container{ID: "r", PodUID: "p", State: cri.Running})
			w.sandboxes = []cri.Sandbox{{ID: "s", UID: "gone"}}
			seen := len(c.seen)
			w.hang[call] = true
			begun := time.Now()
			r := c.Relieve(t.Context(), everything, w.atLeast(1000*mib))
			if took := time.Since(begun); !errors.Is(r.Err, errSilent) || !strings.Contains(r.Err.Error(), call) || took < 30*time.Second || took > 41*time.Second {
				t.Errorf("%s hangs: %v after %v", call, r.Err, took)
			}
			if len(c.seen) != seen {
				t.Errorf("%s hangs: %d images are remembered, %d before", call, len(c.seen), seen)
			}
			w.did()
			w.hang = map[string]bool{}
			if r := c.Relieve(t.Context(), everything, w.atLeast(1000*mib)); r.Err != nil || !r.Enough {
				t.Errorf("%s does not hang any more: %+v", call, r)
			}
		})
	}
}

func TestARuntimeThatIsDownEndsTheRelief(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a", "b")
		w.seenLongAgo(c)
		w.fail["RemoveImage"] = cri.ErrUnavailable
		if r := c.Relieve(t.Context(), everything, w.atLeast(1000*mib)); !errors.Is(r.Err, cri.ErrUnavailable) || strings.Contains(r.Err.Error(), "b") && strings.Contains(r.Err.Error(), "image b") {
			t.Errorf("relief: %+v", r)
		}
	})
}

func TestADiskThatCanNotBeMeasuredRemovesNothing(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a", "b")
		w.seenLongAgo(c)
		w.diskErr = errors.New("input/output error")
		r := c.Relieve(t.Context(), everything, func() bool { return false })
		w.expect()
		if !errors.Is(r.Err, w.diskErr) || r.Enough || len(r.Ran) != 1 {
			t.Errorf("relief: %+v", r)
		}
	})
}

func TestAReliefEndsWithItsContext(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		w.hold("a", "b")
		w.lag = time.Hour
		w.seenLongAgo(c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := c.Relieve(ctx, onlyImages, w.atLeast(1000*mib))
		w.expect("RemoveImage a")
		if !errors.Is(r.Err, context.DeadlineExceeded) || r.Images != 1 || r.Enough {
			t.Errorf("relief: %+v", r)
		}
	})
}
