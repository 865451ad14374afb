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

// ageImages makes the collector list the images, and waits until none is new.
func (e *env) ageImages(c *Collector) {
	e.t.Helper()
	if _, _, err := c.listImages(e.t.Context()); err != nil {
		e.t.Fatal(err)
	}
	pass(10 * time.Minute)
}

func TestRelieve_StopsWhenEnough(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a", "b", "c", "d")
		e.ageImages(c)
		r := c.Free(t.Context(), everything, e.atLeast(750*mib))
		e.expect("RemoveImage a", "RemoveImage b")
		if !r.Enough || r.Images != 2 || r.FreedBytes != 200*mib || r.Err != nil || !slices.Equal(r.Ran, everything) {
			t.Errorf("got %+v", r)
		}
		if e.counts["space"] != 2 || e.freed[signals.UnusedImages] != 200*mib {
			t.Errorf("got counts %v, freed %v, want 2 images and 200 MiB", e.counts, e.freed)
		}
	})
}

func TestRelieve_DoesNothingWithEnoughSpace(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a")
		e.ageImages(c)
		r := c.Free(t.Context(), everything, e.atLeast(0))
		e.expect()
		if !r.Enough || len(r.Ran) > 0 || r.Err != nil {
			t.Errorf("got %+v", r)
		}
	})
}

func TestRelieve_RemovesContainersBeforeImages(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.pods["p"], e.pods["e"] = Active, Ended
		e.addImages("a", "b")
		e.addDead("newest", "p", time.Hour, 50*mib)
		e.addDead("old", "p", 2*time.Hour, 50*mib)
		e.addDead("of ended", "e", time.Hour, 50*mib)
		e.sandboxes = []cri.Sandbox{{ID: "s", UID: "e"}}
		e.ageImages(c)
		// 650 MiB are available: both collectable containers are not enough.
		r := c.Free(t.Context(), everything, e.atLeast(800*mib))
		e.expect("RemoveContainer of ended", "RemoveContainer old", "StopSandbox s", "RemoveSandbox s", "RemoveImage a")
		if !r.Enough || r.Containers != 2 || r.Sandboxes != 1 || r.Images != 1 || r.FreedBytes != 200*mib {
			t.Errorf("got %+v", r)
		}
		if e.freed[signals.DeadContainers] != 100*mib || e.freed[signals.UnusedImages] != 100*mib {
			t.Errorf("got freed %v, want 100 MiB of each kind", e.freed)
		}
	})
}

func TestRelieve_KeepsImagesIfContainersSuffice(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a")
		e.addDead("1", "gone", 2*time.Hour, 50*mib)
		e.addDead("2", "gone", time.Hour, 50*mib)
		e.ageImages(c)
		r := c.Free(t.Context(), everything, e.atLeast(850*mib))
		e.expect("RemoveContainer 1")
		if !r.Enough || !slices.Equal(r.Ran, onlyContainers) {
			t.Errorf("got %+v", r)
		}
	})
}

func TestRelieve_WaitsForLateFrees(t *testing.T) {
	for _, lag := range []time.Duration{0, 300 * time.Millisecond, 2 * time.Second, 4500 * time.Millisecond} {
		inBubble(t, func(t *testing.T, e *env) {
			c := e.collector(nil)
			e.addImages("a", "b", "c")
			e.lag = lag
			e.ageImages(c)
			begun := time.Now()
			r := c.Free(t.Context(), onlyImages, e.atLeast(800*mib))
			e.expect("RemoveImage a")
			if took := time.Since(begun); !r.Enough || r.FreedBytes != 100*mib || took < lag || took > lag+pollEvery {
				t.Errorf("lag %v: got %+v after %v", lag, r, took)
			}
		})
	}
}

func TestRelieve_KeepsImagesIfContainersAreFreedLate(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a")
		e.addDead("1", "gone", time.Hour, 100*mib)
		e.lag = 3 * time.Second
		e.ageImages(c)
		r := c.Free(t.Context(), everything, e.atLeast(900*mib))
		e.expect("RemoveContainer 1")
		if !r.Enough || r.FreedBytes != 100*mib {
			t.Errorf("got %+v", r)
		}
	})
}

// The wait for the last removal may use all of the remaining patience.
func TestRelieve_WaitsLongerForLastRemoval(t *testing.T) {
	for _, what := range [][]signals.Garbage{onlyContainers, onlyImages} {
		inBubble(t, func(t *testing.T, e *env) {
			c := e.collector(nil)
			if what[0] == signals.DeadContainers {
				e.addDead("1", "gone", time.Hour, 100*mib)
			} else {
				e.addImages("1")
			}
			e.lag = 9 * time.Second
			e.ageImages(c)
			if r := c.Free(t.Context(), what, e.atLeast(1000*mib)); !r.Enough || r.FreedBytes != 100*mib || r.Err != nil {
				t.Errorf("%v: got %+v", what, r)
			}
		})
	}
}

// Space freed before the runtime stopped answering is reported nevertheless.
func TestRelieve_ReportsFreedBytesOnError(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a", "b")
		e.ageImages(c)
		e.hang["RemoveImage b"] = true
		if r := c.Free(t.Context(), onlyImages, e.atLeast(1000*mib)); r.FreedBytes != 100*mib || r.Images != 1 || !errors.Is(r.Err, errSilent) {
			t.Errorf("got %+v", r)
		}
	})
}

// Images with shared layers free nothing: the wait for them is bounded, and does not use up the
// wait for the one that frees space.
func TestRelieve_BoundsWaitForSharedLayers(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a", "b", "c", "d", "e")
		e.layers = map[string]int64{"e": 100 * mib}
		e.lag = time.Second
		e.ageImages(c)
		begun := time.Now()
		r := c.Free(t.Context(), onlyImages, e.atLeast(600*mib))
		if took := time.Since(begun); !r.Enough || r.Images != 5 || took > patience+minFinalWait+time.Second {
			t.Errorf("got %+v after %v", r, took)
		}
		e.addImages("f")
		e.layers["f"] = 0
		e.ageImages(c)
		begun = time.Now()
		if r := c.Free(t.Context(), onlyImages, e.atLeast(1000*mib)); r.Enough || r.FreedBytes != 0 || time.Since(begun) > patience+minFinalWait+time.Second {
			t.Errorf("nothing freed: got %+v after %v", r, time.Since(begun))
		}
	})
}

func TestRelieve_SplitsWaitBetweenRemovals(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a", "b", "c")
		e.layers["a"] = 0
		e.lag = 2 * time.Second
		e.ageImages(c)
		r := c.Free(t.Context(), onlyImages, e.atLeast(800*mib))
		e.expect("RemoveImage a", "RemoveImage b")
		if !r.Enough || r.Err != nil {
			t.Errorf("got %+v", r)
		}
	})
}

func TestRelieve_NeedsMountsOfEveryContainer(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a")
		e.ageImages(c)
		e.containers = []cri.Container{{ID: "1", PodUID: "p", State: cri.Running}}
		broken := errors.New("task is corrupt")
		e.fail["Status 1"] = broken
		if r := c.Free(t.Context(), onlyImages, e.atLeast(1000*mib)); r.Images != 0 || !errors.Is(r.Err, broken) {
			t.Errorf("unknown mounts: got %+v, want no removal", r)
		}
		e.fail["Status 1"] = cri.ErrNotFound
		if r := c.Free(t.Context(), onlyImages, e.atLeast(1000*mib)); r.Images != 1 || r.Err != nil {
			t.Errorf("removed container: got %+v, want 1 removal", r)
		}
	})
}

// An image that was pulled again is a new one, even without a listing in between.
func TestRelieve_TreatsRepulledImageAsNew(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a")
		e.ageImages(c)
		c.Free(t.Context(), onlyImages, e.atLeast(1000*mib))
		e.expect("RemoveImage a")
		e.addImages("a")
		c.Free(t.Context(), onlyImages, e.atLeast(1000*mib))
		e.expect()
	})
}

func TestRise_ShowsExpectedOrFinalGrowth(t *testing.T) {
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
		"no growth":                      {full, []sample{{0, 500 * mib}, {time.Minute, 500 * mib}}, false},
		"half of the expected size":      {full, []sample{{0, 550 * mib}, {pollEvery, 550 * mib}}, true},
		"half of it, a tick early":       {full, []sample{{0, 550 * mib}, {pollEvery - time.Millisecond, 550 * mib}}, true},
		"half of it, growing":            {full, []sample{{0, 550 * mib}}, false},
		"half of it, still growing":      {full, []sample{{0, 550 * mib}, {pollEvery, 560 * mib}}, false},
		"less than half, growing":        {full, []sample{{0, 549 * mib}}, false},
		"less than half, final":          {full, []sample{{0, 549 * mib}, {quiet, 549 * mib}}, true},
		"continued growth":               {full, []sample{{0, 510 * mib}, {quiet - 1, 520 * mib}, {quiet, 520 * mib}}, false},
		"unknown size, growing":          {0, []sample{{0, 900 * mib}}, false},
		"unknown size, final":            {0, []sample{{0, 900 * mib}, {quiet, 900 * mib}}, true},
		"below noise":                    {0, []sample{{0, 500*mib + noise - 1}, {quiet, 500*mib + noise - 1}}, false},
		"concurrent writes":              {full, []sample{{0, 300 * mib}, {time.Millisecond, 350 * mib}, {pollEvery + time.Millisecond, 350 * mib}}, true},
		"growth used up by other writes": {0, []sample{{0, 600 * mib}, {quiet, 400 * mib}}, true},
	} {
		r := rise{waits: usualWaits, lowest: 500 * mib}
		got := false
		for _, s := range tc.samples {
			now := start.Add(s.after)
			r.note(s.available, now)
			got = r.shows(tc.expected, now)
		}
		if got != tc.shows {
			t.Errorf("%s: shows returned %v, want %v", name, got, tc.shows)
		}
	}
}

func TestRelieve_SubtractsConcurrentWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a")
		e.layers["a"] = 10 * mib
		e.ageImages(c)
		e.begun, e.fillRate, e.lag = time.Now(), 20*mib, time.Second
		if r := c.Free(t.Context(), onlyImages, e.atLeast(1000*mib)); r.Enough || r.FreedBytes != 0 || r.Images != 1 {
			t.Errorf("10 MiB freed while 20 MiB/s are written: got %+v, want 0 bytes freed", r)
		}
	})
}

func TestRelieve_RemovesOnlyUnusedImages(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(func(o *Options) { o.Keep = func() []string { return []string{"pause:1"} } })
		e.addImages("running", "dead", "volume", "pinned", "pause", "free")
		e.images[3].Pinned = true
		e.images[4].Tags = []string{"pause:1"}
		e.pods["p"] = Active
		e.containers = []cri.Container{
			{ID: "1", PodUID: "p", Name: "a", State: cri.Running, ImageID: "running"}, {ID: "2", PodUID: "p", Name: "b", State: cri.Exited, ImageID: "dead", Created: time.Now()},
		}
		e.mounts["1"] = []string{"volume"}
		e.ageImages(c)
		e.addImages("new")
		r := c.Free(t.Context(), onlyImages, e.atLeast(1000*mib))
		e.expect("RemoveImage free")
		if r.Enough || r.Images != 1 || r.Err != nil {
			t.Errorf("got %+v", r)
		}
		e.images[slices.IndexFunc(e.images, func(i cri.Image) bool { return i.Pinned })].Pinned = false
		delete(e.mounts, "1")
		e.containers[1].ImageID = ""
		c.Free(t.Context(), onlyImages, e.atLeast(1000*mib))
		e.expect("RemoveImage pinned", "RemoveImage dead") // the container that mounts the volume still exists
	})
}

func TestRelieve_KeepsImageUsedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a", "b", "c")
		e.ageImages(c)
		e.on = func(call string) {
			if call == "RemoveImage a" {
				e.change(func() { e.containers = []cri.Container{{ID: "1", PodUID: "p", ImageID: "b", State: cri.Running}} })
			}
		}
		r := c.Free(t.Context(), onlyImages, e.atLeast(1000*mib))
		e.expect("RemoveImage a", "RemoveImage c")
		if r.Images != 2 || r.Err != nil {
			t.Errorf("got %+v", r)
		}
	})
}

func TestRelieve_ContinuesAfterFailedRemoval(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a", "b")
		e.addDead("1", "gone", 2*time.Hour, 0)
		e.addDead("2", "gone", time.Hour, 0)
		e.ageImages(c)
		broken := errors.New("device is busy")
		e.fail["RemoveContainer 1"], e.fail["RemoveImage a"] = broken, broken
		r := c.Free(t.Context(), everything, e.atLeast(1000*mib))
		e.expect("RemoveContainer 2", "RemoveImage b")
		if r.Containers != 1 || r.Images != 1 || !errors.Is(r.Err, broken) || strings.Count(r.Err.Error(), "device is busy") != 2 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestRelieve_EndsIfRuntimeHangs(t *testing.T) {
	for _, call := range []string{"Containers", "Images", "Sandboxes", "RemoveContainer", "StopSandbox", "RemoveImage a", "Status"} {
		inBubble(t, func(t *testing.T, e *env) {
			c := e.collector(func(o *Options) { o.CallTimeout = 30 * time.Second })
			e.addImages("a", "b")
			e.ageImages(c)
			e.addDead("1", "gone", time.Hour, 0)
			e.addDead("2", "gone", time.Hour, 0)
			e.containers = append(e.containers, cri.Container{ID: "r", PodUID: "p", State: cri.Running})
			e.sandboxes = []cri.Sandbox{{ID: "s", UID: "gone"}}
			seen := len(c.seen)
			e.hang[call] = true
			begun := time.Now()
			r := c.Free(t.Context(), everything, e.atLeast(1000*mib))
			if took := time.Since(begun); !errors.Is(r.Err, errSilent) || !strings.Contains(r.Err.Error(), call) || took < 30*time.Second || took > 41*time.Second {
				t.Errorf("%s hangs: got error %v after %v, want errSilent after 30 to 41 s", call, r.Err, took)
			}
			if len(c.seen) != seen {
				t.Errorf("%s hangs: got %d sightings, want %d", call, len(c.seen), seen)
			}
			e.takeCalls()
			e.hang = map[string]bool{}
			if r := c.Free(t.Context(), everything, e.atLeast(1000*mib)); r.Err != nil || !r.Enough {
				t.Errorf("%s responds again: got %+v", call, r)
			}
		})
	}
}

func TestRelieve_EndsIfRuntimeIsUnavailable(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a", "b")
		e.ageImages(c)
		e.fail["RemoveImage"] = cri.ErrUnavailable
		if r := c.Free(t.Context(), everything, e.atLeast(1000*mib)); !errors.Is(r.Err, cri.ErrUnavailable) || strings.Contains(r.Err.Error(), "b") && strings.Contains(r.Err.Error(), "image b") {
			t.Errorf("got %+v", r)
		}
	})
}

func TestRelieve_RemovesNothingWithoutMeasurement(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a", "b")
		e.ageImages(c)
		e.diskErr = errors.New("input/output error")
		r := c.Free(t.Context(), everything, func() bool { return false })
		e.expect()
		if !errors.Is(r.Err, e.diskErr) || r.Enough || len(r.Ran) != 1 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestRelieve_EndsWithContext(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		e.addImages("a", "b")
		e.lag = time.Hour
		e.ageImages(c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := c.Free(ctx, onlyImages, e.atLeast(1000*mib))
		e.expect("RemoveImage a")
		if !errors.Is(r.Err, context.DeadlineExceeded) || r.Images != 1 || r.Enough {
			t.Errorf("got %+v", r)
		}
	})
}
