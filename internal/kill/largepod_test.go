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

// newLargePod returns an env with a pod of this many tiny processes and their parent.
func newLargePod(t *testing.T, processes int) *env {
	t.Helper()
	e := onMemory(t)
	e.node = sandbox.Make(t, "crowd", 2<<30)
	e.node.AwaitReaped(t)
	e.pod = addPod(t, e.node, uid)
	e.hog(e.pod, "main", fmt.Sprintf("crowd %d", processes))
	e.grown(processes + 1)
	return e
}

// onRealtimeThread runs f like the agent's checks and kills: on a thread of the real-time class,
// which no process of a pod can delay.
func onRealtimeThread(t *testing.T, f func()) {
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
func TestImmediate_ReturnsAtDeadlineWithManyProcesses(t *testing.T) {
	sandbox.Need(t)
	detected, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	if detected.Version == cgroup.V2 {
		t.Skip("v2 ends all processes in one system call")
	}
	e := newLargePod(t, 16_000)
	before, target := e.limits(), e.target(e.pod.Path())
	var result, second Result
	var begun time.Time
	var took time.Duration
	var ended bool
	var secondErr error
	onRealtimeThread(t, func() { // a thread of the ordinary class would wait for thousands of processes that exit
		ctx := e.within(100 * time.Millisecond) // the deadline of a call on an idle machine
		begun = time.Now()
		result, err = e.killer.Immediate(ctx, target)
		took = time.Since(begun)
		ended = e.killer.Ended(target)
		second, secondErr = e.killer.Immediate(e.within(patience), target)
	})
	t.Logf("returned after %s: %+v", took, result)
	if !errors.Is(err, ErrTimeout) || result.Continued == nil || ended {
		t.Fatalf("got %+v, error %v, want a continued kill", result, err)
	}
	if result.Signalled >= 16_000 { // a busy machine may return late, but not after all signals
		t.Errorf("got %d processes signalled before the return, want less than 16000", result.Signalled)
	}
	if secondErr != nil || second.Signalled != 16_001 || second.Continued != nil {
		t.Errorf("got %+v, error %v, want all 16,001 signalled", second, secondErr)
	}
	<-result.Continued
	t.Logf("empty after %s: %+v", time.Since(begun), second)
	e.mustBeEmpty(second)
	if after := e.limits(); after != before || !e.killer.Ended(target) {
		t.Errorf("got pids.max %q, want %q", after, before)
	}
}

// With more directories than files may be open, a kill finds the process in the last one: within
// its time or, on a slow machine, concurrently.
func TestImmediate_FindsProcessAmongManyDirectories(t *testing.T) {
	onEachTree(t, func(e *env) {
		deep := e.hierarchy.Dir("memory", e.pod.Path()) + "/main"
		dirs := []string{deep}
		for i := range 3000 {
			dirs = append(dirs, fmt.Sprint(deep, "/d", i))
		}
		for range 20 {
			dirs = append(dirs, dirs[len(dirs)-1]+"/deeper")
		}
		for _, dir := range dirs[1:] {
			if err := os.Mkdir(dir, 0o755); err != nil {
				e.Fatal(err)
			}
		}
		h, last := e.hog(e.pod, "side"), e.hog(e.pod, "side")
		move(e.T, last.Process.PID, dirs[len(dirs)-1])
		limitFiles(e.T, 2000)
		begun := time.Now()
		var result Result
		var err error
		onRealtimeThread(e.T, func() { result, err = e.killer.Immediate(e.within(time.Second), e.target(e.pod.Path())) })
		e.Logf("%s: %+v, %v", time.Since(begun), result, err)
		if err != nil && (!errors.Is(err, ErrTimeout) || result.Continued == nil) || result.Signalled > 2 {
			e.Errorf("got %+v, error %v, want an empty pod or a continued kill", result, err)
		}
		if result.Continued != nil {
			select {
			case <-result.Continued:
			case <-e.within(patience).Done():
				e.Error("the continued kill did not end")
			}
		}
		e.killedBy(h, syscall.SIGKILL)
		e.killedBy(last, syscall.SIGKILL)
	})
}

// Beside an exempt sandbox, the processes of each other directory are killed.
func TestImmediate_ExemptsSandboxAmongManyDirectories(t *testing.T) {
	onEachTree(t, func(e *env) {
		pod := e.hierarchy.Dir("memory", e.pod.Path())
		for i := range 3000 {
			if err := os.Mkdir(fmt.Sprint(pod, "/d", i), 0o755); err != nil {
				e.Fatal(err)
			}
		}
		box, last := e.hog(e.pod, "side"), e.hog(e.pod, "main")
		move(e.T, last.Process.PID, fmt.Sprint(pod, "/d", 2999))
		limitFiles(e.T, 2000)
		target := e.target(e.pod.Path())
		target.Exempt = []string{"side"}
		result, err := e.killer.Immediate(e.within(patience), target)
		if err != nil || result.Signalled != 1 || !box.Process.Alive() {
			e.Errorf("got %+v, error %v, the sandbox lives: %t, want 1 signalled and true", result, err, box.Process.Alive())
		}
		e.killedBy(last, syscall.SIGKILL)
	})
}

func limitFiles(t *testing.T, limit uint64) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	lower := syscall.Rlimit{Cur: limit, Max: was.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) })
}

// The processes of an incomplete listing are signalled. On v1 their end is not
// known, so that the kill returns at its deadline.
func TestImmediate_SignalsProcessesOfPartialListing(t *testing.T) {
	onEachTree(t, func(e *env) {
		h := e.hog(e.pod, "main")
		dir := e.hierarchy.Dir("memory", e.pod.Path()) + "/main"
		for range maxDepth + 1 {
			dir += "/d"
			if err := os.Mkdir(dir, 0o755); err != nil {
				e.Fatal(err)
			}
		}
		v2, wait := e.killer.mounts.version == cgroup.V2, 300*time.Millisecond
		if v2 { // reports the end
			wait = patience
		}
		result, err := e.killer.Immediate(e.within(wait), e.target(e.pod.Path()))
		if result.Signalled != 1 || (err == nil) != v2 {
			e.Errorf("got %+v, error %v, want 1 signalled, and on v1 an error", result, err)
		}
		e.killedBy(h, syscall.SIGKILL)
	})
}

// deep creates nested cgroups, deeper than a walk enters, and returns the last.
func (e *env) deep(container string) string {
	e.Helper()
	dir := e.hierarchy.Dir("memory", e.pod.Path()) + "/" + container + strings.Repeat("/d", maxDepth+2)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		e.Fatal(err)
	}
	return dir
}

// A pod with cgroups deeper than a walk enters has ended when v2 reports that. A kill of the
// processes in them ends before its deadline, also beside a sandbox.
func TestImmediate_EndsPodDeeperThanMaxDepth(t *testing.T) {
	onEachTree(t, func(e *env) {
		if e.killer.mounts.oneByOne {
			e.Skip("without cgroup.kill no signal reaches processes that cannot be listed")
		}
		target := e.target(e.pod.Path())
		dir := e.deep("main")
		for _, exempt := range [][]string{nil, {"side"}} {
			if target.Exempt = exempt; exempt != nil {
				e.hog(e.pod, "side")
			}
			h := e.hog(e.pod, "main")
			move(e.T, h.Process.PID, dir)
			if e.killer.Ended(target) {
				e.Errorf("exempt %v: Ended returned true before the kill", exempt)
			}
			result, err := e.killer.Immediate(e.within(patience), target)
			if err != nil || result.Signalled != 1 || result.ToEmpty <= 0 || result.Continued != nil || !e.killer.Ended(target) {
				e.Errorf("exempt %v: got %+v, error %v, want an empty pod", exempt, result, err)
			}
			e.killedBy(h, syscall.SIGKILL)
			if err := e.killer.Await(e.within(patience), target); err != nil {
				e.Errorf("exempt %v: got error %v of Await", exempt, err)
			}
		}
	})
}

// Without cgroup.kill nothing reaches such processes. The error has the cause.
func TestImmediate_ReportsDirectoriesDeeperThanMaxDepthWithoutCgroupKill(t *testing.T) {
	onEachTree(t, func(e *env) {
		if e.killer.mounts.version == cgroup.V1 {
			e.Skip("v1 does not report processes that cannot be listed")
		}
		e.withoutCgroupKill(e.killer)
		h := e.hog(e.pod, "main")
		move(e.T, h.Process.PID, e.deep("main"))
		result, err := e.killer.Immediate(e.within(300*time.Millisecond), e.target(e.pod.Path()))
		if !errors.Is(err, ErrTimeout) || !errors.Is(err, errDepth) || result.Signalled != 0 {
			e.Errorf("got %+v, error %v, want 0 signalled and error %v", result, err, errDepth)
		}
	})
}

// Unlisted processes count as one for a whole kill. Counted anew in each round, a process that
// cannot die would let the kill continue forever.
func TestKillAtOnce_UnlistedCountsOnce(t *testing.T) {
	onEachTree(t, func(e *env) {
		if e.killer.mounts.oneByOne {
			e.Skip("no cgroup.kill")
		}
		a, err := e.killer.begin(e.killer.immediateWorkspaces[0], e.target(e.pod.Path()))
		if err != nil {
			e.Fatal(err)
		}
		defer a.end()
		for round := range 3 {
			h := e.hog(e.pod, "main")
			a.w.pids, a.w.partial = a.w.pids[:0], errDepth
			if killed, err := a.killAtOnce(); !killed || err != nil || a.result.Signalled != 1 {
				e.Errorf("round %d: got %t, error %v, %+v, want 1 signalled in total", round, killed, err, a.result)
			}
			e.killedBy(h, syscall.SIGKILL)
		}
	})
}

// Ended runs on the thread of the loop: without a walk on v2, and in bounded time on v1, where an
// unknown state counts as not ended.
func TestEnded_IsBounded(t *testing.T) {
	onEachTree(t, func(e *env) {
		for i := range 2 * clockEvery {
			if err := os.Mkdir(fmt.Sprint(e.hierarchy.Dir("memory", e.pod.Path()), "/main/d", i), 0o755); err != nil {
				e.Fatal(err)
			}
		}
		for _, exempt := range [][]string{nil, {"side"}} {
			target := e.target(e.pod.Path())
			target.Exempt = exempt
			for _, late := range []bool{false, true} {
				a, err := e.killer.begin(e.killer.immediateWorkspaces[0], target)
				if err != nil {
					e.Fatal(err)
				}
				if late {
					a.begun = a.begun.Add(-time.Hour)
				} else {
					a.begun = a.begun.Add(time.Hour) // never late, regardless of the test's duration
				}
				if left, want := a.anyLeft(), late && e.killer.mounts.version == cgroup.V1; left != want {
					e.Errorf("exempt %v, late %t: got %t, want %t", exempt, late, left, want)
				}
				a.end()
			}
		}
	})
}

// An agent that is killed during a kill cannot restore pids.max: its successor does.
func TestRestore_ResetsPidsMaxOfInterruptedKill(t *testing.T) {
	e := onMemory(t)
	e.withoutCgroupKill(e.killer)
	e.hog(e.pod, "main")
	before, target := e.limits(), e.target(e.pod.Path())
	a, err := e.killer.begin(e.killer.immediateWorkspaces[0], target)
	if err != nil {
		t.Fatal(err)
	}
	a.stopForks()
	a.end() // without allowForks: the state of an interrupted kill
	if stopped := e.limits(); stopped == before {
		t.Fatal("pids.max was not changed")
	}
	successor, err := New(e.hierarchy)
	if err != nil {
		t.Fatal(err)
	}
	defer successor.Close()
	e.withoutCgroupKill(successor)
	successor.gracefulWorkspace.busy.Store(true) // in use for the grace period of another pod
	for i, want := range []bool{true, false} {
		if restored, err := successor.Restore(target); restored != want || err != nil {
			t.Errorf("call %d: got %t, error %v, want %t", i, restored, err, want)
		}
		if after := e.limits(); after != before {
			t.Errorf("got pids.max %q, want %q", after, before)
		}
	}
	// A limit of 0 from another program is not changed, by a kill either.
	own := filepath.Join(e.pod.Dir("pids"), "pids.max")
	if err := os.WriteFile(own, []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	if restored, err := successor.Restore(target); restored || err != nil {
		t.Errorf("pids.max 0 of another program: got %t, error %v, want false", restored, err)
	}
	e.mustKill()
	if text, _ := os.ReadFile(own); string(text) != "0\n" {
		t.Errorf("got pids.max %q, want 0", text)
	}
}

// Two concurrent kills of one pod, as when a soft eviction escalates: the value found by the
// second is not the pod's own limit.
func TestStopForks_RestoresLimitAfterTwoKills(t *testing.T) {
	e := onMemory(t)
	e.withoutCgroupKill(e.killer)
	before, target := e.limits(), e.target(e.pod.Path())
	var both [2]*attempt
	for i, w := range []*workspace{e.killer.immediateWorkspaces[0], e.killer.gracefulWorkspace} {
		a, err := e.killer.begin(w, target)
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
	if after := e.limits(); after != before {
		t.Errorf("got pids.max %q, want %q", after, before)
	}
}

// A process that a signal cannot end does not occupy a workspace forever, even if listings remain
// incomplete.
func TestContinuedKill_EndsWhenNothingIsLeftToSignal(t *testing.T) {
	last, k := time.Now(), &Killer{stuckTime: stuckTime}
	for _, incomplete := range []bool{false, true} {
		for _, a := range []*attempt{{k: k, continued: &continuedKill{}}, {k: k, graceful: true}} {
			a.lastSignalAt, a.incomplete = last, incomplete
			if a.stuck(last.Add(stuckTime)) || !a.stuck(last.Add(stuckTime+1)) {
				t.Errorf("incomplete %t, graceful %t: the kill is not stuck exactly after %s without a new signal", incomplete, a.graceful, stuckTime)
			}
		}
	}
	if a := (&attempt{k: k, lastSignalAt: last}); a.stuck(last.Add(time.Hour)) {
		t.Error("an immediate kill that was not continued counts as stuck")
	}
}
