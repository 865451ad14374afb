package kill

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// newCrowd returns a rig with a pod of this many tiny processes and their parent.
func newCrowd(t *testing.T, processes int) *rig {
	t.Helper()
	r := onMemory(t)
	r.node = sandbox.Make(t, "crowd", 2<<30)
	r.pod = addPod(t, r.node, uid)
	r.hog(r.pod, "main", fmt.Sprintf("crowd %d", processes))
	r.grown(processes + 1)
	return r
}

// asTheLoop runs f like the agent's checks and kills: on a thread of the real-time class, which no
// process of a pod can delay.
func asTheLoop(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		attr := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
		err := unix.SchedSetAttr(0, attr, 0)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("SCHED_RR: %v", err)
	}
}

// A kill of more processes than the time allows returns at its deadline, and continues until the
// pod is empty. Another call for the pod waits for that. With cgroup.kill the kernel ends all of
// them in one system call, regardless of their number.
func TestImmediate_CrowdKeepsTheDeadline(t *testing.T) {
	sandbox.Need(t)
	detected, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	if detected.Version == cgroup.V2 {
		t.Skip("v2 ends all processes in one system call")
	}
	r := newCrowd(t, 16_000)
	before, target := r.limits(), r.target(r.pod.Path())
	var result Result
	var begun time.Time
	var took time.Duration
	asTheLoop(t, func() {
		ctx := r.within(100 * time.Millisecond) // of a call with a CPU of its own
		begun = time.Now()
		result, err = r.killer.Immediate(ctx, target)
		took = time.Since(begun)
	})
	t.Logf("returned after %s: %+v", took, result)
	if !errors.Is(err, ErrTimeout) || result.Rest == nil || r.killer.Ended(target) {
		t.Fatalf("%+v, %v: want a kill that goes on", result, err)
	}
	if result.Signalled >= 16_000 { // a busy machine may return late, but not after the whole work
		t.Errorf("%d processes were signalled before the return: the deadline was not kept", result.Signalled)
	}
	whole, err := r.killer.Immediate(r.within(patience), target)
	if err != nil || whole.Signalled != 16_001 || whole.Rest != nil {
		t.Errorf("%+v, %v: want all 16,001 signalled", whole, err)
	}
	<-result.Rest
	t.Logf("empty after %s: %+v", time.Since(begun), whole)
	r.mustBeEmpty(whole)
	if after := r.limits(); after != before || !r.killer.Ended(target) {
		t.Errorf("pids.max was %q, is %q", before, after)
	}
}

// With more directories than files may be open, a kill finds the process in the last one: within
// its time or, on a slow machine, concurrently.
func TestImmediate_ManyDirectories(t *testing.T) {
	onEach(t, func(r *rig) {
		deep := r.hierarchy.Dir("memory", r.pod.Path()) + "/main"
		dirs := []string{deep}
		for i := range 3000 {
			dirs = append(dirs, fmt.Sprint(deep, "/d", i))
		}
		for range 20 {
			dirs = append(dirs, dirs[len(dirs)-1]+"/deeper")
		}
		for _, dir := range dirs[1:] {
			if err := os.Mkdir(dir, 0o755); err != nil {
				r.Fatal(err)
			}
		}
		h, last := r.hog(r.pod, "side"), r.hog(r.pod, "side")
		move(r.T, last.Process.PID, dirs[len(dirs)-1])
		limitFiles(r.T, 2000)
		begun := time.Now()
		var result Result
		var err error
		asTheLoop(r.T, func() { result, err = r.killer.Immediate(r.within(time.Second), r.target(r.pod.Path())) })
		r.Logf("%s: %+v, %v", time.Since(begun), result, err)
		if err != nil && (!errors.Is(err, ErrTimeout) || result.Rest == nil) || result.Signalled > 2 {
			r.Errorf("%+v, %v: want an end, or a kill that goes on", result, err)
		}
		if result.Rest != nil {
			select {
			case <-result.Rest:
			case <-r.within(patience).Done():
				r.Error("what went on does not end")
			}
		}
		r.killedBy(h, syscall.SIGKILL)
		r.killedBy(last, syscall.SIGKILL)
	})
}

// Beside a spared sandbox each of the other directories is ended, too.
func TestImmediate_ManyDirectoriesBesideASandbox(t *testing.T) {
	onEach(t, func(r *rig) {
		pod := r.hierarchy.Dir("memory", r.pod.Path())
		for i := range 3000 {
			if err := os.Mkdir(fmt.Sprint(pod, "/d", i), 0o755); err != nil {
				r.Fatal(err)
			}
		}
		box, last := r.hog(r.pod, "side"), r.hog(r.pod, "main")
		move(r.T, last.Process.PID, fmt.Sprint(pod, "/d", 2999))
		limitFiles(r.T, 2000)
		target := r.target(r.pod.Path())
		target.Spare = []string{"side"}
		result, err := r.killer.Immediate(r.within(patience), target)
		if err != nil || result.Signalled != 1 || !box.Process.Alive() {
			r.Errorf("%+v, %v, the sandbox lives: %t", result, err, box.Process.Alive())
		}
		r.killedBy(last, syscall.SIGKILL)
	})
}

func limitFiles(t *testing.T, most uint64) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	lower := syscall.Rlimit{Cur: most, Max: was.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) })
}

// The processes of an incomplete listing are signalled.
func TestImmediate_SignalsWhatAPartialListingFound(t *testing.T) {
	onEach(t, func(r *rig) {
		h := r.hog(r.pod, "main")
		dir := r.hierarchy.Dir("memory", r.pod.Path()) + "/main"
		for range maxDepth + 1 {
			dir += "/d"
			if err := os.Mkdir(dir, 0o755); err != nil {
				r.Fatal(err)
			}
		}
		result, err := r.killer.Immediate(r.within(300*time.Millisecond), r.target(r.pod.Path()))
		if result.Signalled != 1 || (err == nil) != (r.killer.mounts.version == cgroup.V2) {
			r.Errorf("%+v, %v: want 1 signalled, and nothing called empty on v1", result, err)
		}
		r.killedBy(h, syscall.SIGKILL)
	})
}

// deep creates nested cgroups, deeper than a walk enters, and returns the last.
func (r *rig) deep(container string) string {
	r.Helper()
	dir := r.hierarchy.Dir("memory", r.pod.Path()) + "/" + container + strings.Repeat("/d", maxDepth+2)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.Fatal(err)
	}
	return dir
}

// A pod with cgroups deeper than a walk enters has ended when v2 reports so: a kill of the
// processes in them, beside a sandbox too, ends before its deadline.
func TestImmediate_DeeperThanAWalk(t *testing.T) {
	onEach(t, func(r *rig) {
		if r.killer.mounts.version == cgroup.V1 {
			r.Skip("v1 has no count of what can not be listed")
		}
		target := r.target(r.pod.Path())
		dir := r.deep("main")
		for _, spare := range [][]string{nil, {"side"}} {
			if target.Spare = spare; spare != nil {
				r.hog(r.pod, "side")
			}
			h := r.hog(r.pod, "main")
			move(r.T, h.Process.PID, dir)
			if r.killer.Ended(target) {
				r.Errorf("sparing %v: it has ended before the kill", spare)
			}
			result, err := r.killer.Immediate(r.within(patience), target)
			if err != nil || result.Signalled != 1 || result.ToEmpty <= 0 || result.Rest != nil || !r.killer.Ended(target) {
				r.Errorf("sparing %v: %+v, %v: want an end", spare, result, err)
			}
			r.killedBy(h, syscall.SIGKILL)
			if err := r.killer.Await(r.within(patience), target); err != nil {
				r.Errorf("sparing %v: %v", spare, err)
			}
		}
	})
}

// Unlisted processes count as one for a whole kill. Counted anew in each round, a process that
// cannot die would let the kill continue forever.
func TestKillAtOnce_UnlistedCountsOnce(t *testing.T) {
	onEach(t, func(r *rig) {
		if r.killer.mounts.version == cgroup.V1 {
			r.Skip("v1 has no cgroup.kill")
		}
		a, err := r.killer.begin(r.killer.urgent[0], r.target(r.pod.Path()))
		if err != nil {
			r.Fatal(err)
		}
		defer a.end()
		for round := range 3 {
			h := r.hog(r.pod, "main")
			a.w.pids, a.w.partial = a.w.pids[:0], errDepth
			if signalled, err := a.killAtOnce(); !signalled || err != nil || a.result.Signalled != 1 {
				r.Errorf("round %d: %t, %v, %+v", round, signalled, err, a.result)
			}
			r.killedBy(h, syscall.SIGKILL)
		}
	})
}

// Ended runs on the thread of the loop: without a walk on v2, and in bounded time on v1, where an
// unknown state counts as not ended.
func TestEnded_IsBounded(t *testing.T) {
	onEach(t, func(r *rig) {
		for i := range 2 * clockEvery {
			if err := os.Mkdir(fmt.Sprint(r.hierarchy.Dir("memory", r.pod.Path()), "/main/d", i), 0o755); err != nil {
				r.Fatal(err)
			}
		}
		for _, spare := range [][]string{nil, {"side"}} {
			target := r.target(r.pod.Path())
			target.Spare = spare
			for _, late := range []bool{false, true} {
				a, err := r.killer.begin(r.killer.urgent[0], target)
				if err != nil {
					r.Fatal(err)
				}
				if late {
					a.begun = a.begun.Add(-time.Hour)
				} else {
					a.begun = a.begun.Add(time.Hour) // the clock of the test is irrelevant here
				}
				if left, want := a.anyLeft(), late && r.killer.mounts.version == cgroup.V1; left != want {
					r.Errorf("sparing %v, late %t: left %t, want %t", spare, late, left, want)
				}
				a.end()
			}
		}
	})
}

// An agent that is killed during a kill cannot restore pids.max: its successor does.
func TestRestore(t *testing.T) {
	r := onMemory(t)
	if r.node.Version() != 1 {
		t.Skip("v2 ends a pod without pids.max")
	}
	r.hog(r.pod, "main")
	before, target := r.limits(), r.target(r.pod.Path())
	a, err := r.killer.begin(r.killer.urgent[0], target)
	if err != nil {
		t.Fatal(err)
	}
	a.stopForks()
	a.end() // without allowForks: the state of an interrupted kill
	if stopped := r.limits(); stopped == before {
		t.Fatal("pids.max was not changed")
	}
	successor, err := New(r.hierarchy)
	if err != nil {
		t.Fatal(err)
	}
	defer successor.Close()
	successor.patient.busy.Store(true) // in use for the grace period of another pod
	for i, want := range []bool{true, false} {
		if restored, err := successor.Restore(target); restored != want || err != nil {
			t.Errorf("call %d: %t, %v", i, restored, err)
		}
		if after := r.limits(); after != before {
			t.Errorf("pids.max was %q, is %q", before, after)
		}
	}
	// A limit of 0 from another program is not changed, by a kill either.
	own := filepath.Join(r.pod.Dir("pids"), "pids.max")
	if err := os.WriteFile(own, []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	if restored, err := successor.Restore(target); restored || err != nil {
		t.Errorf("%t, %v", restored, err)
	}
	r.mustKill()
	if text, _ := os.ReadFile(own); string(text) != "0\n" {
		t.Errorf("pids.max is %q", text)
	}
}

// Two concurrent kills of one pod, as of a soft eviction that escalates: the value found by the
// second is not the pod's own limit.
func TestStopForks_TwoKills(t *testing.T) {
	r := onMemory(t)
	if r.node.Version() != 1 {
		t.Skip("v2 ends a pod without pids.max")
	}
	before, target := r.limits(), r.target(r.pod.Path())
	var both [2]*attempt
	for i, w := range []*workspace{r.killer.urgent[0], r.killer.patient} {
		a, err := r.killer.begin(w, target)
		if err != nil {
			t.Fatal(err)
		}
		defer a.end()
		a.stopForks()
		both[i] = a
	}
	for _, a := range both {
		a.allowForks()
	}
	if after := r.limits(); after != before {
		t.Errorf("pids.max was %q, is %q", before, after)
	}
}

// A process that a signal cannot end does not occupy a workspace forever, even if listings remain
// incomplete.
func TestRest_EndsWhenNothingIsLeftToSignal(t *testing.T) {
	last := time.Now()
	for _, cut := range []bool{false, true} {
		a := &attempt{rest: &rest{}, signalled: last, cut: cut}
		if a.stuck(last.Add(stuckTime)) || !a.stuck(last.Add(stuckTime+1)) {
			t.Errorf("cut %t: a kill that goes on does not end after %s without a new signal", cut, stuckTime)
		}
	}
	if a := (&attempt{signalled: last}); a.stuck(last.Add(time.Hour)) {
		t.Error("a kill with a caller ended before its deadline")
	}
}
