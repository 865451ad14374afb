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
	w.n.SetPods(w.pods)
	return w
}

// set writes the usage, anonymous memory and inactive page cache of a cgroup.
func (w *laggingNode) set(dir string, usage, anon, inactive uint64) {
	w.t.Helper()
	write(w.t, dir, "memory.current", fmt.Sprintln(usage))
	write(w.t, dir, "memory.stat", fmt.Sprintf("anon %d\nfile %d\nactive_file 0\ninactive_file %d\n", anon, inactive, inactive))
}

// expectWorkingSet observes the node and checks the working set of kubepods.
func (w *laggingNode) expectWorkingSet(what string, want uint64) signals.Observation {
	w.t.Helper()
	var seen signals.Observations
	w.n.Observe(signals.Early, time.Now(), &seen)
	o := seen[signals.AllocatableMemoryAvailable]
	got := tib - int64(o.Available)
	if off := got - int64(want); !o.Known || max(off, -off) > int64(2*unnoticed) {
		w.t.Errorf("%s: got a working set of %d MiB, want %d: %+v", what, got/mib, want/mib, o)
	}
	return o
}

// TestUsageOf_CountsPageCacheOfEndedPods checks that page cache of ended pods counts for
// kubepods.
func TestUsageOf_CountsPageCacheOfEndedPods(t *testing.T) {
	w, unit := newLaggingNode(t), 100*unnoticed
	w.set(w.kubepods, 100*unit, 91*unit, 9*unit)
	w.set(w.pod, 91*unit, 91*unit, 0)
	for range 3 {
		w.expectWorkingSet("page cache of ended pods", 91*unit)
	}
}

// TestUsageOf_UsesPodCountersOnce checks that pod counters apply to one check only, and a later
// check uses its own.
func TestUsageOf_UsesPodCountersOnce(t *testing.T) {
	w, unit := newLaggingNode(t), 100*unnoticed
	w.set(w.kubepods, 20*unit, 10*unit, 10*unit)
	w.set(w.pod, 20*unit, 10*unit, 10*unit)
	w.expectWorkingSet("first check", 10*unit)
	w.set(w.kubepods, 22*unit, 10*unit, 12*unit)
	w.set(w.pod, 22*unit, 10*unit, 12*unit)
	w.expectWorkingSet("more page cache", 10*unit)
}

// TestUsageOf_DropsOutdatedCorrection checks that an outdated correction is not reported after a
// failed reading of the pods.
func TestUsageOf_DropsOutdatedCorrection(t *testing.T) {
	w, unit := newLaggingNode(t), 100*unnoticed
	w.set(w.kubepods, 20*unit, 10*unit, 10*unit)
	w.set(w.pod, 20*unit, 10*unit, 10*unit)
	w.expectWorkingSet("first check", 10*unit)
	w.n.podsOwn.lastCorrectAt = w.n.podsOwn.lastCorrectAt.Add(-time.Hour)
	w.pods.countedAt = time.Time{} // the next check reads the pods
	for used := range uint64(3) {
		w.set(w.kubepods, (60+10*used)*unit, 10*unit, 10*unit)
		if o := w.expectWorkingSet("memory outside of pods", (50+10*used)*unit); time.Since(o.Time) > time.Minute {
			t.Errorf("the observation has the time %s", o.Time)
		}
		w.pods.counting = time.Second
	}
}

// TestUsageOf_ReportsCorrectionOfSuspendedCheck checks that a correction counts as current while its pod counters do, even
// if the thread was suspended for hours between the begin of its check and the read of the pods.
func TestUsageOf_ReportsCorrectionOfSuspendedCheck(t *testing.T) {
	w, unit := newLaggingNode(t), 100*unnoticed
	w.set(w.kubepods, 20*unit, 5*unit, 15*unit) // 5 units of anonymous memory are missing
	w.set(w.pod, 20*unit, 10*unit, 10*unit)
	var seen signals.Observations
	w.n.Observe(signals.Early, time.Now().Add(-5*time.Hour), &seen)
	w.pods.counting = time.Hour // pauses of three hours
	w.set(w.kubepods, 22*unit, 5*unit, 15*unit)
	w.expectWorkingSet("while memory.stat stands still", 10*unit)
}

// TestUsageOf_PreservesEpochBetweenCorrections checks that two corrected observations have a
// rate, however far memory.stat lags behind.
func TestUsageOf_PreservesEpochBetweenCorrections(t *testing.T) {
	w, unit := newLaggingNode(t), 100*unnoticed
	w.set(w.kubepods, 20*unit, 5*unit, 15*unit) // 5 units of anonymous memory are missing
	w.set(w.pod, 20*unit, 10*unit, 10*unit)
	first := w.expectWorkingSet("first check", 10*unit)
	w.set(w.kubepods, 22*unit, 5*unit, 15*unit)
	w.set(w.pod, 22*unit, 12*unit, 10*unit)
	w.pods.MeasureMemory([]signals.Pod{{UID: "ab"}}, nil)
	if second := w.expectWorkingSet("after a measurement", 12*unit); second.Epoch != first.Epoch {
		t.Errorf("the epoch changed from %+v to %+v", first, second)
	}
}

func TestCountProcessors_ParsesList(t *testing.T) {
	for list, want := range map[string]int{"0\n": 1, "0-1\n": 2, "0-3,8,10-11\n": 7, "": 0, "\n": 0, "3-1": 0, "0-x": 0, "-1": 0} {
		if got := countProcessors(list); got != want {
			t.Errorf("countProcessors(%q) = %d, want %d", list, got, want)
		}
	}
}

// TestUnnoticed_DependsOnMachineProcessors checks that the unnoticed amount depends on the
// machine's processors, not on those available to this process.
func TestUnnoticed_DependsOnMachineProcessors(t *testing.T) {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		t.Fatal(err)
	}
	if want := uint64(64 * countProcessors(string(text)) * os.Getpagesize()); unnoticed != want {
		t.Errorf("got %d bytes, want %d", unnoticed, want)
	}
}
