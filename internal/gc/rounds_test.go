package gc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

func TestRun_CollectsPeriodically(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		c := e.collector(nil)
		counts := map[string]int{}
		e.on = func(call string) { e.change(func() { counts[call]++ }) }
		checkCounts := func(when string, sandboxes, images int) {
			t.Helper()
			e.change(func() {
				if counts["Sandboxes"] != sandboxes || counts["Images"] != images {
					t.Errorf("%s: got calls %v, want %d of Sandboxes, %d of Images", when, counts, sandboxes, images)
				}
			})
		}
		stop := e.run(c)
		checkCounts("immediately", 1, 1)
		pass(5*time.Minute + time.Second)
		checkCounts("after 5 minutes", 6, 7) // images are listed with containers, too
		stop()
		pass(time.Hour)
		checkCounts("after the context ended", 6, 7)
	})
}

func TestContainerRound_RemovesContainersBeyondLimits(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		e.pods["p"], e.pods["e"], e.pods["evicted"] = Active, Ended, Evicted
		e.addDead("newest", "p", time.Hour, 0)
		e.addDead("old", "p", 2*time.Hour, 0)
		e.addDead("of ended", "e", time.Hour, 0)
		e.addDead("of evicted", "evicted", time.Hour, 0)
		e.addDead("of gone", "gone", time.Hour, 0)
		e.containers = append(e.containers, cri.Container{ID: "lost", PodUID: "gone", Name: "x", State: cri.UnknownState, Created: time.Now()})
		e.sandboxes = []cri.Sandbox{{ID: "s", UID: "gone"}, {ID: "ready", UID: "gone", Ready: true}}
		defer e.run(e.collector(nil))()
		e.expect("RemoveContainer of evicted", "RemoveContainer of gone", "Stop lost", "RemoveContainer lost", "RemoveContainer old", "StopSandbox s", "RemoveSandbox s")
		if len(e.reportedEvents()) > 0 {
			t.Errorf("got events %v, want none", e.reportedEvents())
		}
	})
}

func TestCollector_TreatsPodsAsActiveUntilComplete(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		e.complete = false
		e.addDead("1", "p", time.Hour, 0)
		e.sandboxes = []cri.Sandbox{{ID: "s", UID: "q"}}
		e.addDead("old", "p", 2*time.Hour, 0)
		c := e.collector(nil)
		defer e.run(c)()
		e.expect("RemoveContainer old") // the limits apply without complete owners
		if r := c.Free(t.Context(), onlyContainers, e.atLeast(2000*mib)); r.Err != nil {
			t.Error(r.Err)
		}
		e.expect()
		e.change(func() { e.complete = true })
		pass(time.Minute)
		e.expect("RemoveContainer 1", "StopSandbox s", "RemoveSandbox s")
	})
}

func TestRemoveContainer_SkipsContainerStartedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		e.containers = []cri.Container{{ID: "1", PodUID: "gone", State: cri.Created}, {ID: "2", PodUID: "gone", State: cri.Created}}
		e.on = func(call string) {
			if call == "Status 1" {
				e.change(func() { e.containers[0].State = cri.Running })
			}
		}
		defer e.run(e.collector(nil))()
		e.expect("RemoveContainer 2")
	})
}

func TestContainerRound_ReportsFailedRemovals(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		for _, id := range []string{"1", "2", "3", "4", "5"} {
			e.addDead(id, "gone", time.Hour, 0)
			e.fail["RemoveContainer "+id] = errors.New("busy")
		}
		defer e.run(e.collector(nil))()
		if len(e.reportedEvents()) != 1 || !strings.HasPrefix(e.reportedEvents()[0], "ContainerGCFailed: remove container 1 ") ||
			!strings.HasSuffix(e.reportedEvents()[0], "busy; and 2 more") || strings.Contains(e.reportedEvents()[0], "\n") {
			t.Errorf("got events %q, want one with 3 errors and the number of the others", e.reportedEvents())
		}
		if e.counts["space"]+e.counts["age"] > 0 {
			t.Errorf("got image removals %v, want none", e.counts)
		}
	})
}

func TestImageRound_RemovesFromHighToLow(t *testing.T) {
	for _, tc := range []struct {
		name   string
		images string // of 100 MiB each
		high   int
		want   []string
	}{
		{"below high", "a b c d e f g h", 81, nil},
		{"at high", "a b c d e f g h", 80, []string{"RemoveImage a", "RemoveImage b", "RemoveImage c"}},
		{"switched off", "a b c d e f g h i j", 100, nil},
	} {
		inBubble(t, func(t *testing.T, e *env) {
			e.addImages(strings.Fields(tc.images)...)
			defer e.run(e.collector(func(o *Options) { o.ImageHigh, o.ImageLow = tc.high, 50 }))()
			e.expect()                        // the TTL of images present at the start has just begun
			pass(5*time.Minute + time.Second) // a removal waits for the end of the one before
			e.expect(tc.want...)
			if len(e.reportedEvents()) > 0 || e.counts["space"] != len(tc.want) || e.freed[signals.UnusedImages] != int64(len(tc.want))*100*mib {
				t.Errorf("%s: got events %v, counts %v, freed %v", tc.name, e.reportedEvents(), e.counts, e.freed)
			}
		})
	}
}

func TestImageRound_WaitsForLateFrees(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		e.lag = 2 * time.Second
		e.addImages("a", "b", "c", "d", "e", "f", "g", "h", "i")
		defer e.run(e.collector(nil))()
		pass(6 * time.Minute)
		e.expect("RemoveImage a")
	})
}

func TestImageRound_CountsLateFreesBeforeReport(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		e.lag = 9 * time.Second
		e.addImages("a", "b", "c", "d", "e", "f", "g", "h", "i")
		e.containers = []cri.Container{{ID: "1", State: cri.Running, PodUID: "p"}}
		e.mounts["1"] = []string{"b", "c", "d", "e", "f", "g", "h", "i"}
		defer e.run(e.collector(nil))()
		pass(6 * time.Minute)
		e.expect("RemoveImage a")
		if got := e.reportedEvents(); len(got) > 0 || e.freed[signals.UnusedImages] != 100*mib {
			t.Errorf("got events %q, freed %v, want no event and 100 MiB", got, e.freed)
		}
	})
}

func TestImageRound_ReportsInsufficientSpace(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		e.addImages("a", "b", "c", "d", "e", "f", "g", "h", "i")
		e.containers = []cri.Container{{ID: "1", State: cri.Running, PodUID: "p"}}
		e.mounts["1"] = []string{"b", "c", "d", "e", "f", "g", "h", "i"}
		defer e.run(e.collector(func(o *Options) { o.ImageLow = 50 }))()
		want := "FreeDiskSpaceFailed: Insufficient free disk space on the node's image filesystem (80% of 1000Mi used). " +
			"Failed to free sufficient space by deleting unused images (freed 104857600 bytes). " +
			"Investigate disk usage: images in use, logs, volumes and writable layers are left."
		pass(6 * time.Minute)
		e.expect("RemoveImage a")
		if !slices.Equal(e.reportedEvents(), []string{want}) {
			t.Errorf("got events\n%s\nwant\n%s", strings.Join(e.reportedEvents(), "\n"), want)
		}
		e.change(func() { e.available -= 100 * mib })
		pass(5 * time.Minute) // no garbage remains: the second consecutive failure
		e.expect()
		if len(e.reportedEvents()) != 3 || !strings.Contains(e.reportedEvents()[1], "(90% of 1000Mi used)") || !strings.Contains(e.reportedEvents()[1], "(freed 0 bytes)") ||
			e.reportedEvents()[2] != "ImageGCFailed"+strings.TrimPrefix(e.reportedEvents()[1], "FreeDiskSpaceFailed") {
			t.Errorf("got events\n%s", strings.Join(e.reportedEvents(), "\n"))
		}
	})
}

func TestImageRound_RemovesImagesBeyondMaximumAge(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		e.addImages("used", "unused", "pinned")
		e.images[2].Pinned = true
		e.containers = []cri.Container{{ID: "1", PodUID: "p", State: cri.Running, ImageID: "used"}}
		defer e.run(e.collector(func(o *Options) { o.ImageHigh, o.MaximumImageAge = 100, time.Hour }))()
		pass(59 * time.Minute)
		e.expect()
		e.change(func() {
			e.containers = nil
			e.addImages("pulled just now")
		})
		pass(6 * time.Minute)
		e.expect("RemoveImage unused")
		pass(time.Hour) // last seen in use at 59 minutes, first seen a minute later
		e.expect("RemoveImage used", "RemoveImage pulled just now")
		if e.counts["age"] != 3 || e.counts["space"] != 0 {
			t.Errorf("got counts %v, want 3 by age", e.counts)
		}
	})
}

func TestImageRound_ReportsSecondConsecutiveFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		broken := errors.New("no space left in the database")
		e.fail["Images"] = broken
		defer e.run(e.collector(nil))()
		checkEvents := func(after string, want int) {
			t.Helper()
			if len(e.reportedEvents()) != want {
				t.Errorf("after %s: got events %q, want %d", after, e.reportedEvents(), want)
			}
		}
		pass(5 * time.Minute)
		checkEvents("the first failure", 0)
		pass(5 * time.Minute)
		checkEvents("the second", 1)
		pass(5 * time.Minute)
		checkEvents("the third", 2)
		e.change(func() { e.fail = map[string]error{} })
		pass(5 * time.Minute)
		e.change(func() { e.fail["Images"] = broken })
		pass(5 * time.Minute)
		checkEvents("a success and another failure", 2)
		if !strings.HasPrefix(e.reportedEvents()[0], "ImageGCFailed: look for unused images: no space left") {
			t.Errorf("got event %q", e.reportedEvents()[0])
		}
	})
}

func TestImageRound_RemovesNothingWithoutMeasurement(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		e.addImages("a", "b", "c", "d", "e", "f", "g", "h", "i")
		e.diskErr = errors.New("input/output error")
		defer e.run(e.collector(nil))()
		pass(11 * time.Minute)
		e.expect()
		if got := e.reportedEvents(); len(got) != 1 || got[0] != "ImageGCFailed: the image filesystem can not be measured: input/output error" {
			t.Errorf("got events %q, want one ImageGCFailed", got)
		}
		// The measurement fails during a round.
		e.change(func() {
			e.diskErr = nil
			e.on = func(call string) {
				if strings.HasPrefix(call, "RemoveImage") {
					e.change(func() { e.diskErr = errors.New("input/output error") })
				}
			}
		})
		pass(5 * time.Minute)
		e.expect("RemoveImage a")
	})
}

func TestMeasure_RejectsImplausibleDisk(t *testing.T) {
	for _, tc := range []struct {
		capacity, available int64
		event               string
	}{
		{0, 0, "InvalidDiskCapacity: the image filesystem can not be measured: invalid capacity 0"}, {-1, 0, "InvalidDiskCapacity"},
	} {
		inBubble(t, func(t *testing.T, e *env) {
			e.addImages("a")
			e.capacity, e.available = tc.capacity, tc.available
			defer e.run(e.collector(nil))()
			pass(6 * time.Minute)
			e.expect()
			if len(e.reportedEvents()) != 1 || !strings.HasPrefix(e.reportedEvents()[0], tc.event) {
				t.Errorf("got events %q, want %q", e.reportedEvents(), tc.event)
			}
		})
	}
	inBubble(t, func(t *testing.T, e *env) {
		c := New(e, func(context.Context) (int64, int64, error) { return -1, 1000, nil }, e, e, e.collector(nil).log, kubeletOptions)
		if _, _, err := c.measure(t.Context()); !errors.Is(err, errUnmeasured) {
			t.Errorf("-1 bytes available: got error %v, want errUnmeasured", err)
		}
	})
}

func TestRelieve_CancelsRound(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		e.addImages("a", "b", "c", "d", "e", "f", "g", "h", "i")
		c := e.collector(nil)
		e.ageImages(c)
		e.lag = 8 * time.Second // the round waits for the space of the first image
		go func() { c.imageRound(t.Context()) }()
		synctest.Wait()
		e.expect("RemoveImage a")
		begun := time.Now()
		r := c.Free(t.Context(), onlyImages, e.atLeast(0))
		if took := time.Since(begun); took > 0 || r.Err != nil || !r.Enough {
			t.Errorf("Free returned after %v: %+v, want no wait for the round", took, r)
		}
		synctest.Wait()
		if len(e.reportedEvents()) > 0 || c.failures > 0 {
			t.Errorf("a cancelled round counts as failed: %v", e.reportedEvents())
		}
		pass(10 * time.Second)
		c.imageRound(t.Context())
		e.expect() // the space of a is available by now, and enough
	})
}

func TestTurns_PrefersRelieve(t *testing.T) {
	turns, broken := newTurns(), errors.New("broken")
	// A waiting Free call precedes a round that gets the turn.
	turns.want(1)
	if err := turns.round(t.Context(), func(context.Context) error { return broken }); !errors.Is(err, errGaveWay) {
		t.Errorf("round while a Free call waits: got error %v, want errGaveWay", err)
	}
	turns.want(-1)
	// The error of a cancelled round is replaced by the cause.
	err := turns.round(t.Context(), func(context.Context) error {
		turns.want(1)
		defer turns.want(-1)
		return broken
	})
	if !errors.Is(err, errGaveWay) || errors.Is(err, broken) {
		t.Errorf("cancelled round: got error %v, want errGaveWay only", err)
	}
	if err := turns.round(t.Context(), func(ctx context.Context) error { return errors.Join(ctx.Err(), broken) }); !errors.Is(err, broken) || errors.Is(err, errGaveWay) {
		t.Errorf("undisturbed round: got error %v, want its own", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := turns.relief(t.Context()); err != nil {
		t.Error(err)
	}
	if err := turns.relief(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Free with a cancelled context: got error %v, want context.Canceled", err)
	}
}

func TestRelieve_RunsOneAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		e.addImages("a", "b")
		c := e.collector(nil)
		e.ageImages(c)
		e.lag = 2 * time.Second
		done := make(chan Result, 2)
		for range 2 {
			go func() { done <- c.Free(t.Context(), onlyImages, e.atLeast(900*mib)) }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r := c.Free(ctx, onlyImages, e.atLeast(900*mib)); !errors.Is(r.Err, context.DeadlineExceeded) || len(r.Ran) > 0 {
			t.Errorf("second Free call: got %+v, want a timeout of its wait", r)
		}
		first, second := <-done, <-done
		e.expect("RemoveImage a")
		if first.Images+second.Images != 1 || !first.Enough || !second.Enough {
			t.Errorf("got %+v and %+v, want 1 image removed and enough space for both", first, second)
		}
	})
}

func TestRemovePod_RemovesContainersAndSandboxes(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		e.pods["p"] = Evicted
		e.containers = []cri.Container{
			{ID: "dead", PodUID: "p", State: cri.Exited}, {ID: "alive", PodUID: "p", State: cri.Running}, {ID: "new", PodUID: "p", State: cri.Created},
			{ID: "unknown", SandboxID: "s", State: cri.UnknownState}, {ID: "other", PodUID: "q", State: cri.Exited, SandboxID: "t"},
		}
		e.sandboxes = []cri.Sandbox{{ID: "s", UID: "p", Ready: true}, {ID: "t", UID: "q"}}
		c := e.collector(nil)
		if err := c.RemovePod(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		e.expect("RemoveContainer dead", "Stop alive", "RemoveContainer alive", "RemoveContainer new", "Stop unknown", "RemoveContainer unknown", "StopSandbox s", "RemoveSandbox s")
		if err := c.RemovePod(t.Context(), "p"); err != nil {
			t.Errorf("removed pod: got error %v, want none", err)
		}
		e.expect()
		if err := c.RemovePod(t.Context(), ""); err == nil {
			t.Error("empty UID: got no error")
		}
	})
}

func TestRemovePod_ReturnsErrorsOfFailedRemovals(t *testing.T) {
	inBubble(t, func(t *testing.T, e *env) {
		e.containers = []cri.Container{{ID: "1", PodUID: "p", State: cri.Running}, {ID: "2", PodUID: "p", State: cri.Exited}, {ID: "3", PodUID: "p", State: cri.Exited}}
		e.sandboxes = []cri.Sandbox{{ID: "s", UID: "p"}}
		e.fail["Stop 1"] = errors.New("no such shim")
		e.fail["RemoveContainer 2"] = cri.ErrNotFound // removed concurrently
		c := e.collector(nil)
		if err := c.RemovePod(t.Context(), "p"); err == nil || !strings.Contains(err.Error(), "remove pod p") || !strings.Contains(err.Error(), "no such shim") || strings.Contains(err.Error(), "container 2") {
			t.Errorf("got error %v, want only that of container 1", err)
		}
		e.expect("RemoveContainer 3", "StopSandbox s", "RemoveSandbox s")
		e.hang["Sandboxes"] = true
		if err := c.RemovePod(t.Context(), "p"); !errors.Is(err, errSilent) {
			t.Errorf("runtime hangs: got error %v, want errSilent", err)
		}
		e.hang = map[string]bool{"Stop": true}
		begun := time.Now()
		if err := c.RemovePod(t.Context(), "p"); !errors.Is(err, errSilent) || time.Since(begun) > cri.DefaultTimeout {
			t.Errorf("runtime hangs in StopContainer: got error %v after %v, want errSilent", err, time.Since(begun))
		}
	})
}

func TestRemovePodLogs_RemovesLogsOfGonePods(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "0.log")
	for _, name := range []string{"ns_gone_u1", "ns_active_u2", "ns_boxed_u3", "else"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "c"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(outside, nil, 0o600), os.Symlink(filepath.Dir(outside), filepath.Join(dir, "ns_link_u4")),
		os.Symlink(outside, filepath.Join(dir, "ns_gone_u1", "c", "0.log"))); err != nil {
		t.Fatal(err)
	}
	left := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	inBubble(t, func(t *testing.T, e *env) {
		e.pods["u2"], e.complete = Active, false
		e.sandboxes = []cri.Sandbox{{ID: "s", UID: "u3", Ready: true}}
		c := e.collector(func(o *Options) { o.PodLogs = dir })
		before := left()
		c.containerRound(t.Context())
		if got := left(); !slices.Equal(got, before) {
			t.Errorf("incomplete owners: got %v, want all directories", got)
		}
		e.complete = true
		c.containerRound(t.Context())
		if got, want := left(), []string{"else", "ns_active_u2", "ns_boxed_u3", "ns_link_u4"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if _, err := os.Stat(outside); err != nil {
			t.Errorf("the target of a link was removed: %v", err)
		}
		c = e.collector(func(o *Options) { o.PodLogs = filepath.Join(dir, "none") })
		if c.containerRound(t.Context()); len(e.reportedEvents()) > 0 {
			t.Errorf("got events %v, want none", e.reportedEvents())
		}
	})
}
