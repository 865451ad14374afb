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

func TestRoundsComeAtTheirPeriods(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		c := w.collector(nil)
		looks := map[string]int{}
		w.on = func(call string) { w.change(func() { looks[call]++ }) }
		is := func(when string, sandboxes, images int) {
			t.Helper()
			w.change(func() {
				if looks["Sandboxes"] != sandboxes || looks["Images"] != images {
					t.Errorf("%s: %v", when, looks)
				}
			})
		}
		stop := w.run(c)
		is("at once", 1, 1)
		pass(5*time.Minute + time.Second)
		is("after 5 minutes", 6, 7) // images are listed with containers, too
		stop()
		pass(time.Hour)
		is("after the end of its context", 6, 7)
	})
}

func TestARoundRemovesWhatTheLimitsDoNotKeep(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.pods["p"], w.pods["e"], w.pods["evicted"] = Active, Ended, Evicted
		w.ended("newest", "p", time.Hour, 0)
		w.ended("old", "p", 2*time.Hour, 0)
		w.ended("of ended", "e", time.Hour, 0)
		w.ended("of evicted", "evicted", time.Hour, 0)
		w.ended("of gone", "gone", time.Hour, 0)
		w.containers = append(w.containers, cri.Container{ID: "lost", PodUID: "gone", Name: "x", State: cri.UnknownState, Created: time.Now()})
		w.sandboxes = []cri.Sandbox{{ID: "s", UID: "gone"}, {ID: "ready", UID: "gone", Ready: true}}
		defer w.run(w.collector(nil))()
		w.expect("RemoveContainer of evicted", "RemoveContainer of gone", "Stop lost", "RemoveContainer lost", "RemoveContainer old", "StopSandbox s", "RemoveSandbox s")
		if len(w.told()) > 0 {
			t.Errorf("events %v", w.told())
		}
	})
}

func TestAsLongAsPodsAreNotKnownNoneIsGone(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.complete = false
		w.ended("1", "p", time.Hour, 0)
		w.sandboxes = []cri.Sandbox{{ID: "s", UID: "q"}}
		w.ended("old", "p", 2*time.Hour, 0)
		c := w.collector(nil)
		defer w.run(c)()
		w.expect("RemoveContainer old") // the limits do not depend on the owners
		if r := c.Relieve(t.Context(), onlyContainers, w.atLeast(2000*mib)); r.Err != nil {
			t.Error(r.Err)
		}
		w.expect()
		w.change(func() { w.complete = true })
		pass(time.Minute)
		w.expect("RemoveContainer 1", "StopSandbox s", "RemoveSandbox s")
	})
}

func TestACreatedContainerThatHasStartedStays(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.containers = []cri.Container{{ID: "1", PodUID: "gone", State: cri.Created}, {ID: "2", PodUID: "gone", State: cri.Created}}
		w.on = func(call string) {
			if call == "Status 1" {
				w.change(func() { w.containers[0].State = cri.Running })
			}
		}
		defer w.run(w.collector(nil))()
		w.expect("RemoveContainer 2")
	})
}

func TestContainersThatCanNotBeRemovedAreAnEvent(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		for _, id := range []string{"1", "2", "3", "4", "5"} {
			w.ended(id, "gone", time.Hour, 0)
			w.fail["RemoveContainer "+id] = errors.New("busy")
		}
		defer w.run(w.collector(nil))()
		if len(w.told()) != 1 || !strings.HasPrefix(w.told()[0], "ContainerGCFailed: remove container 1 ") ||
			!strings.HasSuffix(w.told()[0], "busy; and 2 more") || strings.Contains(w.told()[0], "\n") {
			t.Errorf("events %q", w.told())
		}
		if w.counts["space"]+w.counts["age"] > 0 {
			t.Errorf("images were removed: %v", w.counts)
		}
	})
}

func TestImagesGoFromHighToLow(t *testing.T) {
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
		in(t, func(t *testing.T, w *world) {
			w.hold(strings.Fields(tc.images)...)
			defer w.run(w.collector(func(o *Options) { o.ImageHigh, o.ImageLow = tc.high, 50 }))()
			w.expect() // all were present at the start
			pass(5 * time.Minute)
			w.expect(tc.want...)
			if len(w.told()) > 0 || w.counts["space"] != len(tc.want) || w.freed[signals.UnusedImages] != int64(len(tc.want))*100*mib {
				t.Errorf("%s: events %v, counts %v, freed %v", tc.name, w.told(), w.counts, w.freed)
			}
		})
	}
}

func TestALateRuntimeDoesNotMakeARoundOvershoot(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.lag = 2 * time.Second
		w.hold("a", "b", "c", "d", "e", "f", "g", "h", "i")
		defer w.run(w.collector(nil))()
		pass(6 * time.Minute)
		w.expect("RemoveImage a")
	})
}

func TestWhatComesLateIsNotToldAsMissing(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.lag = 9 * time.Second
		w.hold("a", "b", "c", "d", "e", "f", "g", "h", "i")
		w.containers = []cri.Container{{ID: "1", State: cri.Running, PodUID: "p"}}
		w.mounts["1"] = []string{"b", "c", "d", "e", "f", "g", "h", "i"}
		defer w.run(w.collector(nil))()
		pass(6 * time.Minute)
		w.expect("RemoveImage a")
		if got := w.told(); len(got) > 0 || w.freed[signals.UnusedImages] != 100*mib {
			t.Errorf("events %q, freed %v", got, w.freed)
		}
	})
}

func TestTooLittleToRemoveIsTold(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.hold("a", "b", "c", "d", "e", "f", "g", "h", "i")
		w.containers = []cri.Container{{ID: "1", State: cri.Running, PodUID: "p"}}
		w.mounts["1"] = []string{"b", "c", "d", "e", "f", "g", "h", "i"}
		defer w.run(w.collector(func(o *Options) { o.ImageLow = 50 }))()
		want := "FreeDiskSpaceFailed: Insufficient free disk space on the node's image filesystem (80% of 1000Mi used). " +
			"Failed to free sufficient space by deleting unused images (freed 104857600 bytes). " +
			"Investigate disk usage: images in use, logs, volumes and writable layers are left."
		pass(6 * time.Minute)
		w.expect("RemoveImage a")
		if !slices.Equal(w.told(), []string{want}) {
			t.Errorf("events:\n%s\nwant\n%s", strings.Join(w.told(), "\n"), want)
		}
		w.change(func() { w.available -= 100 * mib })
		pass(5 * time.Minute) // no garbage remains: the second consecutive failure
		w.expect()
		if len(w.told()) != 3 || !strings.Contains(w.told()[1], "(90% of 1000Mi used)") || !strings.Contains(w.told()[1], "(freed 0 bytes)") ||
			w.told()[2] != "ImageGCFailed"+strings.TrimPrefix(w.told()[1], "FreeDiskSpaceFailed") {
			t.Errorf("events:\n%s", strings.Join(w.told(), "\n"))
		}
	})
}

func TestImagesUnusedForTooLongGo(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.hold("used", "unused", "pinned")
		w.images[2].Pinned = true
		w.containers = []cri.Container{{ID: "1", PodUID: "p", State: cri.Running, ImageID: "used"}}
		defer w.run(w.collector(func(o *Options) { o.ImageHigh, o.MaximumImageAge = 100, time.Hour }))()
		pass(59 * time.Minute)
		w.expect()
		w.change(func() {
			w.containers = nil
			w.hold("pulled just now")
		})
		pass(6 * time.Minute)
		w.expect("RemoveImage unused")
		pass(time.Hour) // last seen in use at 59 minutes, first seen a minute later
		w.expect("RemoveImage used", "RemoveImage pulled just now")
		if w.counts["age"] != 3 || w.counts["space"] != 0 {
			t.Errorf("counts %v", w.counts)
		}
	})
}

func TestImageFailuresAreToldFromTheSecondInARowOn(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		broken := errors.New("no space left in the database")
		w.fail["Images"] = broken
		defer w.run(w.collector(nil))()
		tell := func(after string, want int) {
			t.Helper()
			if len(w.told()) != want {
				t.Errorf("after %s: events %q, want %d", after, w.told(), want)
			}
		}
		pass(5 * time.Minute)
		tell("the first failure", 0)
		pass(5 * time.Minute)
		tell("the second", 1)
		pass(5 * time.Minute)
		tell("the third", 2)
		w.change(func() { w.fail = map[string]error{} })
		pass(5 * time.Minute)
		w.change(func() { w.fail["Images"] = broken })
		pass(5 * time.Minute)
		tell("one in between went well", 2)
		if !strings.HasPrefix(w.told()[0], "ImageGCFailed: look for unused images: no space left") {
			t.Errorf("event %q", w.told()[0])
		}
	})
}

func TestARoundThatCanNotMeasureRemovesNothing(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.hold("a", "b", "c", "d", "e", "f", "g", "h", "i")
		w.diskErr = errors.New("input/output error")
		defer w.run(w.collector(nil))()
		pass(11 * time.Minute)
		w.expect()
		if got := w.told(); len(got) != 1 || got[0] != "ImageGCFailed: the image filesystem can not be measured: input/output error" {
			t.Errorf("events %q", got)
		}
		// The failure occurs during a round.
		w.change(func() {
			w.diskErr = nil
			w.on = func(call string) {
				if strings.HasPrefix(call, "RemoveImage") {
					w.change(func() { w.diskErr = errors.New("input/output error") })
				}
			}
		})
		pass(5 * time.Minute)
		w.expect("RemoveImage a")
	})
}

func TestDisksThatCanNotBe(t *testing.T) {
	for _, tc := range []struct {
		capacity, available int64
		event               string
	}{
		{0, 0, "InvalidDiskCapacity: the image filesystem can not be measured: invalid capacity 0"}, {-1, 0, "InvalidDiskCapacity"},
	} {
		in(t, func(t *testing.T, w *world) {
			w.hold("a")
			w.capacity, w.available = tc.capacity, tc.available
			defer w.run(w.collector(nil))()
			pass(6 * time.Minute)
			w.expect()
			if len(w.told()) != 1 || !strings.HasPrefix(w.told()[0], tc.event) {
				t.Errorf("events %q", w.told())
			}
		})
	}
	in(t, func(t *testing.T, w *world) {
		c := New(w, func(context.Context) (int64, int64, error) { return -1, 1000, nil }, w, w, w.collector(nil).log, kubeletOptions)
		if _, _, err := c.measure(t.Context()); !errors.Is(err, errUnmeasured) {
			t.Errorf("-1 bytes available: %v", err)
		}
	})
}

func TestARoundGivesWayToARelief(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.hold("a", "b", "c", "d", "e", "f", "g", "h", "i")
		c := w.collector(nil)
		w.seenLongAgo(c)
		w.lag = 8 * time.Second // the round waits for the first image to show
		go func() { c.imageRound(t.Context()) }()
		synctest.Wait()
		w.expect("RemoveImage a")
		begun := time.Now()
		r := c.Relieve(t.Context(), onlyImages, w.atLeast(0))
		if took := time.Since(begun); took > 0 || r.Err != nil || !r.Enough {
			t.Errorf("a relief waited %v for the round: %+v", took, r)
		}
		synctest.Wait()
		if len(w.told()) > 0 || c.failures > 0 {
			t.Errorf("a round that gave way counts as failed: %v", w.told())
		}
		pass(10 * time.Second)
		c.imageRound(t.Context())
		w.expect() // a has shown by now, which is enough
	})
}

func TestRoundsAndReliefsThatMeet(t *testing.T) {
	turns, broken := newTurns(), errors.New("broken")
	// A Relieve call that waits when the round gets the turn goes first.
	turns.want(1)
	if err := turns.round(t.Context(), func(context.Context) error { return broken }); !errors.Is(err, errGaveWay) {
		t.Errorf("a round while a relief waits: %v", err)
	}
	turns.want(-1)
	// The error of a cancelled round is replaced by the cause.
	err := turns.round(t.Context(), func(context.Context) error {
		turns.want(1)
		defer turns.want(-1)
		return broken
	})
	if !errors.Is(err, errGaveWay) || errors.Is(err, broken) {
		t.Errorf("a round that was cut short: %v", err)
	}
	if err := turns.round(t.Context(), func(ctx context.Context) error { return errors.Join(ctx.Err(), broken) }); !errors.Is(err, broken) || errors.Is(err, errGaveWay) {
		t.Errorf("a round that nobody disturbed: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := turns.relief(t.Context()); err != nil {
		t.Error(err)
	}
	if err := turns.relief(over); !errors.Is(err, context.Canceled) {
		t.Errorf("a relief whose caller has gone: %v", err)
	}
}

func TestOneReliefAtATime(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.hold("a", "b")
		c := w.collector(nil)
		w.seenLongAgo(c)
		w.lag = 2 * time.Second
		done := make(chan Relief, 2)
		for range 2 {
			go func() { done <- c.Relieve(t.Context(), onlyImages, w.atLeast(900*mib)) }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r := c.Relieve(ctx, onlyImages, w.atLeast(900*mib)); !errors.Is(r.Err, context.DeadlineExceeded) || len(r.Ran) > 0 {
			t.Errorf("a relief that waits for another: %+v", r)
		}
		first, second := <-done, <-done
		w.expect("RemoveImage a")
		if first.Images+second.Images != 1 || !first.Enough || !second.Enough {
			t.Errorf("reliefs %+v and %+v", first, second)
		}
	})
}

func TestAnEvictedPodIsRemoved(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.pods["p"] = Evicted
		w.containers = []cri.Container{
			{ID: "dead", PodUID: "p", State: cri.Exited}, {ID: "alive", PodUID: "p", State: cri.Running}, {ID: "new", PodUID: "p", State: cri.Created},
			{ID: "unknown", SandboxID: "s", State: cri.UnknownState}, {ID: "other", PodUID: "q", State: cri.Exited, SandboxID: "t"},
		}
		w.sandboxes = []cri.Sandbox{{ID: "s", UID: "p", Ready: true}, {ID: "t", UID: "q"}}
		c := w.collector(nil)
		if err := c.RemovePod(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		w.expect("RemoveContainer dead", "Stop alive", "RemoveContainer alive", "RemoveContainer new", "Stop unknown", "RemoveContainer unknown", "StopSandbox s", "RemoveSandbox s")
		if err := c.RemovePod(t.Context(), "p"); err != nil {
			t.Errorf("nothing is left of it: %v", err)
		}
		w.expect()
		if err := c.RemovePod(t.Context(), ""); err == nil {
			t.Error("a pod without a UID was removed")
		}
	})
}

func TestWhatIsLeftOfAPodIsTold(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.containers = []cri.Container{{ID: "1", PodUID: "p", State: cri.Running}, {ID: "2", PodUID: "p", State: cri.Exited}, {ID: "3", PodUID: "p", State: cri.Exited}}
		w.sandboxes = []cri.Sandbox{{ID: "s", UID: "p"}}
		w.fail["Stop 1"] = errors.New("no such shim")
		w.fail["RemoveContainer 2"] = cri.ErrNotFound // removed concurrently
		c := w.collector(nil)
		if err := c.RemovePod(t.Context(), "p"); err == nil || !strings.Contains(err.Error(), "remove pod p") || !strings.Contains(err.Error(), "no such shim") || strings.Contains(err.Error(), "container 2") {
			t.Errorf("RemovePod: %v", err)
		}
		w.expect("RemoveContainer 3", "StopSandbox s", "RemoveSandbox s")
		w.hang["Sandboxes"] = true
		if err := c.RemovePod(t.Context(), "p"); !errors.Is(err, errSilent) {
			t.Errorf("RemovePod of a runtime that hangs: %v", err)
		}
		w.hang = map[string]bool{"Stop": true}
		begun := time.Now()
		if err := c.RemovePod(t.Context(), "p"); !errors.Is(err, errSilent) || time.Since(begun) > cri.DefaultTimeout {
			t.Errorf("RemovePod of a runtime that hangs when asked to stop: %v after %v", err, time.Since(begun))
		}
	})
}

func TestLogsOfGonePodsGo(t *testing.T) {
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
	in(t, func(t *testing.T, w *world) {
		w.pods["u2"], w.complete = Active, false
		w.sandboxes = []cri.Sandbox{{ID: "s", UID: "u3", Ready: true}}
		c := w.collector(func(o *Options) { o.PodLogs = dir })
		before := left()
		c.containerRound(t.Context())
		if got := left(); !slices.Equal(got, before) {
			t.Errorf("before all pods are known, %v are left", got)
		}
		w.complete = true
		c.containerRound(t.Context())
		if got, want := left(), []string{"else", "ns_active_u2", "ns_boxed_u3", "ns_link_u4"}; !slices.Equal(got, want) {
			t.Errorf("%v are left, want %v", got, want)
		}
		if _, err := os.Stat(outside); err != nil {
			t.Errorf("what a link led to: %v", err)
		}
		c = w.collector(func(o *Options) { o.PodLogs = filepath.Join(dir, "none") })
		if c.containerRound(t.Context()); len(w.told()) > 0 {
			t.Errorf("events %v", w.told())
		}
	})
}
