package kill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

func TestMain(m *testing.M) {
	hog.RunIfSet()
	if order := os.Getenv(foreign); order != "" {
		killForeign(order)
	}
	os.Exit(m.Run())
}

// env is a node with one pod and a Killer for the tree of the test.
type env struct {
	*testing.T
	node      *sandbox.Node
	pod       *sandbox.Pod
	hierarchy cgroup.Hierarchy
	killer    *Killer
}

const uid = "6f1d0d7c-2b4e-4a51-9c8a-000000000001"

// trees returns the hierarchies of this machine that support a kill: that of the memory controller,
// and on a hybrid machine the unified one.
func trees(t testing.TB) map[string]cgroup.Hierarchy {
	t.Helper()
	sandbox.Need(t)
	h, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]cgroup.Hierarchy{h.Version.String(): h}
	unified := filepath.Join(h.Root, sandbox.Unified)
	if _, err := os.Stat(filepath.Join(unified, "cgroup.procs")); h.Version == cgroup.V1 && err == nil {
		found["unified"] = cgroup.At(cgroup.V2, unified)
	}
	return found
}

// onEachTree runs a test in every tree, on a fresh node.
func onEachTree(t *testing.T, test func(e *env)) {
	for name, h := range trees(t) {
		t.Run(name, func(t *testing.T) { test(newEnv(t, h)) })
	}
}

// onMemory runs a test in the memory controller's tree.
func onMemory(t *testing.T) *env {
	t.Helper()
	for _, h := range trees(t) {
		if h.Root == "/sys/fs/cgroup" {
			return newEnv(t, h)
		}
	}
	t.Fatal("no memory controller")
	return nil
}

func newEnv(t *testing.T, h cgroup.Hierarchy) *env {
	t.Helper()
	node := sandbox.Make(t, "kill", 512<<20, sandbox.PidsMax(500))
	e := &env{T: t, node: node, hierarchy: h, pod: addPod(t, node, uid)}
	err := e.pod.LimitPids(300) // a fork bomb must not use up the node's limit
	if err != nil {
		t.Fatal(err)
	}
	if e.killer, err = New(h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.killer.Close() })
	return e
}

func addPod(t *testing.T, n *sandbox.Node, uid string) *sandbox.Pod {
	t.Helper()
	p, err := n.AddPod(uid, sandbox.Burstable, "main", "side")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (e *env) hog(pod *sandbox.Pod, container string, orders ...string) *sandbox.Hog {
	e.Helper()
	h, err := e.node.StartHog(e.Context(), pod, container)
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _ = h.Close() })
	for _, order := range orders {
		if _, err := h.Do(e.Context(), order); err != nil {
			e.Fatal(err)
		}
	}
	return h
}

// grown waits until the pod has this many processes: forks double.
func (e *env) grown(processes int) {
	e.Helper()
	for len(mustPIDs(e)) < processes {
	}
}

func (e *env) target(path string) Target {
	e.Helper()
	info, err := os.Lstat(e.hierarchy.Dir("memory", path))
	if err != nil {
		e.Fatal(err)
	}
	return Target{UID: uid, Path: path, Inode: info.Sys().(*syscall.Stat_t).Ino}
}

// patience bounds kills on a slow machine: thousands of processes that exit on an
// emulated processor.
const patience = time.Minute

func (e *env) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(e.Context(), d)
	e.Cleanup(cancel)
	return ctx
}

// mustKill kills the pod and checks that no process remains.
func (e *env) mustKill() Result {
	e.Helper()
	result, err := e.killer.Immediate(e.within(patience), e.target(e.pod.Path()))
	if err != nil {
		e.Fatalf("Immediate: %v (%+v)", err, result)
	}
	e.mustBeEmpty(result)
	return result
}

func (e *env) mustBeEmpty(result Result) {
	e.Helper()
	if pids, err := e.pod.PIDs(); err != nil || len(pids) > 0 {
		e.Errorf("got processes %v in the pod, error %v, want none", pids, err)
	}
	if result.ToEmpty < result.ToSignal || result.ToEmpty <= 0 {
		e.Errorf("got ToEmpty %v, ToSignal %v", result.ToEmpty, result.ToSignal)
	}
}

func (e *env) killedBy(h *sandbox.Hog, want syscall.Signal) {
	e.Helper()
	<-h.Process.Done()
	status := h.Process.State().Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != want {
		e.Errorf("process %d: got %v, want %v", h.Process.PID, h.Process.State(), want)
	}
}

func TestImmediate_KillsEveryProcess(t *testing.T) {
	for name, c := range map[string]struct {
		orders       []string
		minProcesses int // number of processes when the kill begins
	}{
		"one process":        {nil, 1},
		"one large process":  {[]string{"fill 100MiB"}, 1},
		"threads":            {[]string{"threads 50"}, 1},
		"ignores SIGTERM":    {[]string{"term ignore"}, 1},
		"forks":              {[]string{"fork 100"}, 1},
		"forks beyond limit": {[]string{"fork 5000"}, 250},
		"changes its PID":    {[]string{"chain 100000"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			onEachTree(t, func(e *env) {
				h := e.hog(e.pod, "main", c.orders...)
				bystander := e.hog(addPod(e.T, e.node, "bystander"), "main")
				before := e.limits()
				for len(mustPIDs(e)) < c.minProcesses { // the number doubles: no pause is needed
				}
				result := e.mustKill()
				e.killedBy(h, syscall.SIGKILL)
				if result.Signalled < c.minProcesses || result.Rounds < 1 {
					e.Errorf("got %+v, want at least %d signalled", result, c.minProcesses)
				}
				if !bystander.Process.Alive() {
					e.Error("the process of another pod was killed")
				}
				if after := e.limits(); after != before {
					e.Errorf("got pids.max %q, want %q", after, before)
				}
			})
		})
	}
}

func (e *env) limits() string {
	text, err := os.ReadFile(filepath.Join(e.pod.Dir("pids"), "pids.max"))
	if err != nil {
		e.Fatal(err)
	}
	return string(text)
}

// A fork bomb that still grows when the kill begins, bounded by the node.
func TestImmediate_EndsForkBomb(t *testing.T) {
	for _, order := range []string{"fork 100000", "daemons 250", "chain 100000"} {
		onEachTree(t, func(e *env) {
			h := e.hog(e.pod, "main")
			if err := h.Send(order); err != nil {
				e.Fatal(err)
			}
			if _, err := h.Await(e.Context(), order); err != nil { // until its first child runs
				e.Fatal(err)
			}
			result := e.mustKill()
			e.Logf("%s: %+v", order, result)
		})
	}
}

func TestImmediate_KillsNestedCgroups(t *testing.T) {
	onEachTree(t, func(e *env) {
		hogs := []*sandbox.Hog{e.hog(e.pod, "main"), e.hog(e.pod, "main"), e.hog(e.pod, "side"), e.hog(e.pod, "side")}
		for i, place := range []string{"main/deep/deeper", "side/a"} { // like those of systemd in a pod
			for _, controller := range []string{"memory", sandbox.Unified} {
				dir := filepath.Join(e.pod.Dir(controller), place)
				if err := os.MkdirAll(dir, 0o755); err != nil {
					e.Fatal(err)
				}
				move(e.T, hogs[2*i].Process.PID, dir)
			}
		}
		if result := e.mustKill(); result.Signalled != len(hogs) {
			e.Errorf("got %d signalled, want %d", result.Signalled, len(hogs))
		}
		for _, h := range hogs {
			e.killedBy(h, syscall.SIGKILL)
		}
	})
}

func move(t *testing.T, pid int, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		t.Fatal(err)
	}
}

func TestImmediate_KillsMoreThanOneBatch(t *testing.T) {
	onEachTree(t, func(e *env) {
		node := sandbox.Make(e, "kill", 1<<30, sandbox.PidsMax(2*batch+500))
		e.node, e.pod = node, addPod(e.T, node, uid)
		e.hog(e.pod, "main", "fork 2500")
		for len(mustPIDs(e)) < 2*batch+100 { // the number doubles: no pause is needed
		}
		if result := e.mustKill(); result.Signalled < 2*batch {
			e.Errorf("got %+v, want at least %d signalled", result, 2*batch)
		}
	})
}

func mustPIDs(e *env) []int {
	e.Helper()
	pids, err := e.pod.PIDs()
	if err != nil {
		e.Fatal(err)
	}
	return pids
}

func TestImmediate_KillsFrozenPod(t *testing.T) {
	onEachTree(t, func(e *env) {
		h := e.hog(e.pod, "main", "fill 20MiB")
		if err := e.pod.Freeze(); err != nil {
			e.Fatal(err)
		}
		if e.hierarchy.Version == cgroup.V2 && e.node.Version() == 1 {
			// A v1 freezer blocks cgroup.kill. Only the kill of v1 thaws the pod.
			_, err := e.killer.Immediate(e.within(300*time.Millisecond), e.target(e.pod.Path()))
			if !errors.Is(err, ErrTimeout) {
				e.Errorf("got error %v, want %v", err, ErrTimeout)
			}
			return
		}
		e.mustKill()
		e.killedBy(h, syscall.SIGKILL)
	})
}

// A container may be frozen individually, which thawing the pod does not undo.
func TestImmediate_KillsFrozenContainer(t *testing.T) {
	e := onMemory(t)
	h := e.hog(e.pod, "main")
	if e.node.Version() == 1 {
		file := filepath.Join(e.pod.ContainerDir("freezer", "main"), "freezer.state")
		if err := os.WriteFile(file, []byte("FROZEN"), 0); err != nil {
			t.Fatal(err)
		}
	}
	e.mustKill()
	e.killedBy(h, syscall.SIGKILL)
}

// A freeze above the pod is not undone: other pods are there too. The error reports it, and the
// changes of the kill are undone.
func TestImmediate_ReportsFreezeAbovePod(t *testing.T) {
	e := onMemory(t)
	if e.node.Version() != 1 {
		t.Skip("only the v1 freezer blocks SIGKILL")
	}
	h := e.hog(e.pod, "main")
	state := filepath.Join(e.node.Dir("freezer"), "kubepods", "freezer.state")
	if err := os.WriteFile(state, []byte("FROZEN"), 0); err != nil {
		t.Fatal(err)
	}
	// A task that waits for a processor is not frozen yet, and in state R.
	for text := []byte(nil); string(text) != "FROZEN\n"; {
		var err error
		if text, err = os.ReadFile(state); err != nil {
			t.Fatal(err)
		}
	}
	before := e.limits()
	_, err := e.killer.Immediate(e.within(150*time.Millisecond), e.target(e.pod.Path()))
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got error %v, want a TimeoutError", err)
	}
	if timeout.Left != 1 || len(timeout.Stragglers) != 1 || timeout.Stragglers[0].PID != h.Process.PID || timeout.Stragglers[0].State != 'D' {
		t.Errorf("got %+v, want process %d in state D", timeout, h.Process.PID)
	}
	if !strings.Contains(err.Error(), "above the pod is frozen") {
		t.Errorf("the error does not name the freeze: %v", err)
	}
	if err := e.killer.Close(); err != nil { // the kill continues until then
		t.Error(err)
	}
	if after := e.limits(); after != before {
		t.Errorf("got pids.max %q, want %q", after, before)
	}
	if text, _ := os.ReadFile(state); !strings.HasPrefix(string(text), "FROZEN") {
		t.Errorf("got freezer state %s of kubepods, want FROZEN", text)
	}
}

// A process that leaves the pod after its pidfd was opened is not killed.
func TestImmediate_IgnoresProcessThatLeft(t *testing.T) {
	e := onMemory(t)
	if !e.killer.mounts.oneByOne {
		t.Skip("cgroup.kill lists and kills in one step")
	}
	stays, leaves := e.hog(e.pod, "main"), e.hog(e.pod, "side")
	other := addPod(t, e.node, "other")
	e.killer.immediateWorkspaces[0].between = func() {
		e.killer.immediateWorkspaces[0].between = nil
		move(t, leaves.Process.PID, other.ContainerDir("memory", "main"))
	}
	result := e.mustKill()
	e.killedBy(stays, syscall.SIGKILL)
	if !leaves.Process.Alive() || result.Signalled != 1 {
		t.Errorf("got %+v, the process that left lives: %v, want 1 signalled and true", result, leaves.Process.Alive())
	}
	if _, err := leaves.Do(t.Context(), "fill 1MiB"); err != nil {
		t.Error(err)
	}
}

// A process that joins the pod after the listing is found in the next round.
func TestImmediate_KillsProcessThatJoined(t *testing.T) {
	e := onMemory(t)
	if !e.killer.mounts.oneByOne {
		t.Skip("cgroup.kill lists and kills in one step")
	}
	first, joins := e.hog(e.pod, "main"), e.hog(addPod(t, e.node, "other"), "main")
	e.killer.immediateWorkspaces[0].between = func() {
		e.killer.immediateWorkspaces[0].between = nil
		move(t, joins.Process.PID, e.pod.ContainerDir("memory", "side"))
	}
	result := e.mustKill()
	e.killedBy(first, syscall.SIGKILL)
	e.killedBy(joins, syscall.SIGKILL)
	if result.Signalled != 2 || result.Rounds < 2 {
		t.Errorf("got %+v, want 2 signalled in 2 rounds", result)
	}
}

func TestImmediate_SignalsNothingInEmptyPod(t *testing.T) {
	onEachTree(t, func(e *env) {
		if result := e.mustKill(); result.Signalled != 0 || result.Rounds != 0 {
			e.Errorf("got %+v, want nothing signalled", result)
		}
	})
}

func TestImmediate_KillsNothingAfterCancellation(t *testing.T) {
	onEachTree(t, func(e *env) {
		h := e.hog(e.pod, "main")
		ctx, cancel := context.WithCancel(e.Context())
		cancel()
		if _, err := e.killer.Immediate(ctx, e.target(e.pod.Path())); !errors.Is(err, ErrTimeout) || !errors.Is(err, context.Canceled) {
			e.Errorf("got error %v, want %v", err, ErrTimeout)
		}
		if !h.Process.Alive() {
			e.Error("the process was killed after the context had ended")
		}
	})
}

// The thread of a call may have waited for a processor until its deadline has passed. It signals
// itself, even if no further kill may continue beside it.
func TestImmediate_SignalsIfItBeginsLate(t *testing.T) {
	onEachTree(t, func(e *env) {
		late, cancel := context.WithDeadline(e.Context(), time.Now().Add(-time.Second))
		defer cancel()
		givenUp, giveUp := context.WithCancelCause(e.Context())
		giveUp(context.DeadlineExceeded)
		all := &e.killer.continued
		all.list = append(all.list, &continuedKill{}, &continuedKill{})
		defer func() { all.list = nil }()
		for name, ctx := range map[string]context.Context{"after the deadline": late, "after the wait was given up": givenUp} {
			h := e.hog(e.pod, "main")
			result, err := e.killer.Immediate(ctx, e.target(e.pod.Path()))
			if result.Signalled == 0 || result.ToSignal == 0 || result.Continued != nil || err != nil && !errors.Is(err, ErrTimeout) {
				e.Fatalf("%s: got %+v, error %v, want a signal", name, result, err)
			}
			e.killedBy(h, syscall.SIGKILL)
		}
	})
}

func TestSelfTest_PassesOnThisMachine(t *testing.T) {
	onEachTree(t, func(e *env) {
		before := children(e.T)
		e.expectLacks(kernelBefore(t, 5, 14))
		for pid := range children(e.T) {
			if !before[pid] {
				e.Errorf("process %d of the self-test remains, or was not reaped", pid)
			}
		}
	})
}

// expectLacks fails the test unless the self-test reports exactly what an old kernel lacks: process_mrelease,
// and on v2 cgroup.kill, if that is missing.
func (e *env) expectLacks(noCgroupKill bool) {
	e.Helper()
	var want, got []string
	if kernelBefore(e.T, 5, 15) {
		want = append(want, "no process_mrelease")
	}
	if noCgroupKill && e.hierarchy.Version == cgroup.V2 {
		want = append(want, "no cgroup.kill")
	}
	missing := e.killer.SelfTest(e.within(patience))
	for _, l := range missing {
		got = append(got, l.What)
	}
	if !slices.Equal(got, want) || slices.ContainsFunc(missing, func(l Lack) bool { return l.Fatal }) {
		e.Errorf("got missing prerequisites %v, want %q, none of them fatal", missing, want)
	}
}

// kernelBefore reports whether this machine's kernel is older than a release of Linux.
func kernelBefore(t *testing.T, major, minor int) bool {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	var x, y int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &x, &y); err != nil {
		t.Fatal(err)
	}
	return x < major || x == major && y < minor
}

// children returns the children of this process, with zombies.
func children(t *testing.T) map[int]bool {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]bool{}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		_, after, _ := strings.Cut(string(text), ") ") // the state, and the parent
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			found[pid] = true
		}
	}
	return found
}

func TestSelfTest_ReportsMissingFreezer(t *testing.T) {
	e := onMemory(t)
	if e.node.Version() != 1 {
		t.Skip("v1")
	}
	_ = unix.Close(e.killer.mounts.freezer)
	e.killer.mounts.freezer = -1
	missing := e.killer.SelfTest(t.Context())
	if len(missing) != 1 || missing[0].Fatal || !strings.Contains(missing[0].Error(), "freezer") {
		t.Errorf("got missing prerequisites %v, want the freezer", missing)
	}
}
