package stats

import (
	"fmt"
	"os"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

const tib = 1 << 40

// laggingNode is a tree of plain files: kubepods with a limit of 1 TiB, and one pod.
type laggingNode struct {
	t        *testing.T
	n        *Node
	pods     *Pods
	kubepods string
	pod      string
}

func newLaggingNode(t *testing.T) *laggingNode {
	t.Helper()
	o := Options{ProcRoot: "testdata/proc", Hierarchy: cgroup.At(cgroup.V2, t.TempDir())}
	w := &laggingNode{t: t, kubepods: o.Hierarchy.Dir("memory", "/kubepods")}
	w.pod = w.kubepods + "/podab"
	if err := os.MkdirAll(w.pod, 0o750); err != nil {
		t.Fatal(err)
	}
	write(t, w.kubepods, "memory.max", fmt.Sprintln(uint64(tib)))
	w.set(w.kubepods, 0, 0, 0)
	w.set(w.pod, 0, 0, 0)
	w.n = openNode(t, o)
	w.pods = OpenPods(o.Hierarchy, "/")
	t.Cleanup(w.pods.Close)
	w.n.Among(w.pods)
	return w
}

// set writes the usage, anonymous memory and inactive page cache of a cgroup.
func (w *laggingNode) set(dir string, usage, anon, inactive uint64) {
	w.t.Helper()
	write(w.t, dir, "memory.current", fmt.Sprintln(usage))
	write(w.t, dir, "memory.stat", fmt.Sprintf("anon %d\nfile %d\nactive_file 0\ninactive_file %d\n", anon, inactive, inactive))
}

// uses observes the node and expects a working set in kubepods.
func (w *laggingNode) uses(what string, want uint64) signals.Observation {
	w.t.Helper()
	var seen signals.Observations
	w.n.Look(signals.Early, time.Now(), &seen)
	o := seen[signals.AllocatableMemoryAvailable]
	got := tib - int64(o.Available)
	if off := got - int64(want); !o.Known || max(off, -off) > int64(2*unnoticed) {
		w.t.Errorf("%s: a working set of %d MiB is seen, want %d: %+v", what, got/mib, want/mib, o)
	}
	return o
}

// TestWhatEndedPodsLeaveIsSeen checks that page cache of ended pods counts for kubepods.
func TestWhatEndedPodsLeaveIsSeen(t *testing.T) {
	w, unit := newLaggingNode(t), 100*unnoticed
	w.set(w.kubepods, 100*unit, 91*unit, 9*unit)
	w.set(w.pod, 91*unit, 91*unit, 0)
	for range 3 {
		w.uses("with page cache of none", 91*unit)
	}
}

// TestPodsCountersAreUsedOnce checks that pod counters apply to one check only, and a later
// check uses its own.
func TestPodsCountersAreUsedOnce(t *testing.T) {
	w, unit := newLaggingNode(t), 100*unnoticed
	w.set(w.kubepods, 20*unit, 10*unit, 10*unit)
	w.set(w.pod, 20*unit, 10*unit, 10*unit)
	w.uses("at first", 10*unit)
	w.set(w.kubepods, 22*unit, 10*unit, 12*unit)
	w.set(w.pod, 22*unit, 10*unit, 12*unit)
	w.uses("with more page cache", 10*unit)
}

// TestWhatWasRightLongAgoIsNotTold checks that an outdated correction is not reported after a
// failed reading of the pods.
func TestWhatWasRightLongAgoIsNotTold(t *testing.T) {
	w, unit := newLaggingNode(t), 100*unnoticed
	w.set(w.kubepods, 20*unit, 10*unit, 10*unit)
	w.set(w.pod, 20*unit, 10*unit, 10*unit)
	w.uses("at first", 10*unit)
	w.n.podsOwn.rightAt = w.n.podsOwn.rightAt.Add(-time.Hour)
	for used := range uint64(3) {
		w.set(w.kubepods, (60+10*used)*unit, 10*unit, 10*unit)
		if o := w.uses("with memory that nobody counts", (50+10*used)*unit); time.Since(o.Time) > time.Minute {
			t.Errorf("the observation is of %s", o.Time)
		}
		w.pods.counting = time.Second
	}
}

// TestARateIsTakenBetweenCorrections checks that two corrected observations have a rate,
// however far memory.stat lags behind.
func TestARateIsTakenBetweenCorrections(t *testing.T) {
	w, unit := newLaggingNode(t), 100*unnoticed
	w.set(w.kubepods, 20*unit, 5*unit, 15*unit) // 5 units of anonymous memory are missing
	w.set(w.pod, 20*unit, 10*unit, 10*unit)
	first := w.uses("at first", 10*unit)
	w.set(w.kubepods, 22*unit, 5*unit, 15*unit)
	w.set(w.pod, 22*unit, 12*unit, 10*unit)
	w.pods.MeasureMemory([]signals.Pod{{UID: "ab"}}, nil)
	if second := w.uses("after a measurement", 12*unit); second.Epoch != first.Epoch {
		t.Errorf("no rate is taken from %+v to %+v", first, second)
	}
}

func TestProcessorsAreCounted(t *testing.T) {
	for list, want := range map[string]int{"0\n": 1, "0-1\n": 2, "0-3,8,10-11\n": 7, "": 0, "\n": 0, "3-1": 0, "0-x": 0, "-1": 0} {
		if got := countProcessors(list); got != want {
			t.Errorf("%q: %d, want %d", list, got, want)
		}
	}
}

// TestWhatGoesUnnoticedIsTheMachines checks that the unnoticed amount depends on the machine's
// processors, not on those available to this process.
func TestWhatGoesUnnoticedIsTheMachines(t *testing.T) {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		t.Fatal(err)
	}
	if want := uint64(64 * countProcessors(string(text)) * os.Getpagesize()); unnoticed != want {
		t.Errorf("%d bytes, want %d", unnoticed, want)
	}
}
