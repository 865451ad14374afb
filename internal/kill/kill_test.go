package kill

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
	hog.RunIfAsked()
	if order := os.Getenv(foreign); order != "" {
		killForeign(order)
	}
	os.Exit(m.Run())
}

// rig is a node with one pod and a Killer for the tree of the test.
type rig struct {
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

// onEach runs a test in every tree, on a fresh node.
func onEach(t *testing.T, test func(r *rig)) {
	for name, h := range trees(t) {
		t.Run(name, func(t *testing.T) { test(newRig(t, h)) })
	}
}

// onMemory runs a test in the memory controller's tree.
func onMemory(t *testing.T) *rig {
	t.Helper()
	for _, h := range trees(t) {
		if h.Root == "/sys/fs/cgroup" {
			return newRig(t, h)
		}
	}
	t.Fatal("no memory controller")
	return nil
}

func newRig(t *testing.T, h cgroup.Hierarchy) *rig {
	t.Helper()
	node := sandbox.Make(t, "kill", 512<<20, sandbox.PidsMax(500))
	r := &rig{T: t, node: node, hierarchy: h, pod: addPod(t, node, uid)}
	err := r.pod.LimitPids(300) // a bomb leaves the other pods room
	if err != nil {
		t.Fatal(err)
	}
	if r.killer, err = New(h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.killer.Close() })
	return r
}

func addPod(t *testing.T, n *sandbox.Node, uid string) *sandbox.Pod {
	t.Helper()
	p, err := n.AddPod(uid, sandbox.Burstable, "main", "side")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (r *rig) hog(pod *sandbox.Pod, container string, orders ...string) *sandbox.Hog {
	r.Helper()
	h, err := r.node.StartHog(r.Context(), pod, container)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = h.Close() })
	for _, order := range orders {
		if _, err := h.Do(r.Context(), order); err != nil {
			r.Fatal(err)
		}
	}
	return h
}

// grown waits until the pod has this many processes: forks double.
func (r *rig) grown(processes int) {
	r.Helper()
	for len(mustPIDs(r)) < processes {
	}
}

func (r *rig) target(path string) Target {
	r.Helper()
	info, err := os.Lstat(r.hierarchy.Dir("memory", path))
	if err != nil {
		r.Fatal(err)
	}
	return Target{UID: uid, Path: path, Inode: info.Sys().(*syscall.Stat_t).Ino}
}

// patience bounds kills that only wait for a slow machine: thousands of processes that die on an
// emulated processor.
const patience = time.Minute

func (r *rig) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(r.Context(), d)
	r.Cleanup(cancel)
	return ctx
}

// mustKill kills the pod and checks that no process remains.
func (r *rig) mustKill() Result {
	r.Helper()
	result, err := r.killer.Immediate(r.within(patience), r.target(r.pod.Path()))
	if err != nil {
		r.Fatalf("Immediate: %v (%+v)", err, result)
	}
	r.mustBeEmpty(result)
	return result
}

func (r *rig) mustBeEmpty(result Result) {
	r.Helper()
	if pids, err := r.pod.PIDs(); err != nil || len(pids) > 0 {
		r.Errorf("left in the pod: %v, %v", pids, err)
	}
	if result.ToEmpty < result.ToSignal || result.ToEmpty <= 0 {
		r.Errorf("empty after %v, signalled after %v", result.ToEmpty, result.ToSignal)
	}
}

func (r *rig) killedBy(h *sandbox.Hog, want syscall.Signal) {
	r.Helper()
	<-h.Process.Done()
	status := h.Process.State().Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != want {
		r.Errorf("process %d ended with %v, want %v", h.Process.PID, h.Process.State(), want)
	}
}

func TestImmediate(t *testing.T) {
	for name, c := range map[string]struct {
		orders []string
		least  int // number of processes when the kill begins
	}{
		"one process":          {nil, 1},
		"one large process":    {[]string{"fill 100MiB"}, 1},
		"threads":              {[]string{"threads 50"}, 1},
		"deaf to SIGTERM":      {[]string{"term ignore"}, 1},
		"forks":                {[]string{"fork 100"}, 1},
		"forks beyond limit":   {[]string{"fork 5000"}, 250},
		"runs from PID to PID": {[]string{"chain 100000"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(r *rig) {
				h := r.hog(r.pod, "main", c.orders...)
				bystander := r.hog(addPod(r.T, r.node, "bystander"), "main")
				before := r.limits()
				for len(mustPIDs(r)) < c.least { // they double: no need to wait between
				}
				result := r.mustKill()
				r.killedBy(h, syscall.SIGKILL)
				if result.Signalled < c.least || result.Rounds < 1 {
					r.Errorf("%+v, want at least %d signalled", result, c.least)
				}
				if !bystander.Process.Alive() {
					r.Error("the process of another pod is dead")
				}
				if after := r.limits(); after != before {
					r.Errorf("pids.max was %q, is %q", before, after)
				}
			})
		})
	}
}

func (r *rig) limits() string {
	text, err := os.ReadFile(filepath.Join(r.pod.Dir("pids"), "pids.max"))
	if err != nil {
		r.Fatal(err)
	}
	return string(text)
}

// A bomb that still grows when the kill begins, bounded by the node.
func TestImmediateWhileForking(t *testing.T) {
	for _, order := range []string{"fork 100000", "chain 100000"} {
		onEach(t, func(r *rig) {
			h := r.hog(r.pod, "main")
			if err := h.Send(order); err != nil {
				r.Fatal(err)
			}
			if _, err := h.Await(r.Context(), order); err != nil { // its first child runs
				r.Fatal(err)
			}
			result := r.mustKill()
			r.Logf("%s: %+v", order, result)
		})
	}
}

func TestImmediateAllContainersAndBelow(t *testing.T) {
	onEach(t, func(r *rig) {
		hogs := []*sandbox.Hog{r.hog(r.pod, "main"), r.hog(r.pod, "main"), r.hog(r.pod, "side"), r.hog(r.pod, "side")}
		for i, place := range []string{"main/deep/deeper", "side/a"} { // as systemd in a pod creates them
			for _, controller := range []string{"memory", sandbox.Unified} {
				dir := filepath.Join(r.pod.Dir(controller), place)
				if err := os.MkdirAll(dir, 0o755); err != nil {
					r.Fatal(err)
				}
				move(r.T, hogs[2*i].Process.PID, dir)
			}
		}
		if result := r.mustKill(); result.Signalled != len(hogs) {
			r.Errorf("signalled %d, want %d", result.Signalled, len(hogs))
		}
		for _, h := range hogs {
			r.killedBy(h, syscall.SIGKILL)
		}
	})
}

func move(t *testing.T, pid int, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		t.Fatal(err)
	}
}

func TestImmediateMoreThanABatch(t *testing.T) {
	onEach(t, func(r *rig) {
		node := sandbox.Make(r, "kill", 1<<30, sandbox.PidsMax(2*batch+500))
		r.node, r.pod = node, addPod(r.T, node, uid)
		r.hog(r.pod, "main", "fork 2500")
		for len(mustPIDs(r)) < 2*batch+100 { // they double: no need to wait between
		}
		if result := r.mustKill(); result.Signalled < 2*batch {
			r.Errorf("%+v, want more than %d signalled", result, 2*batch)
		}
	})
}

func mustPIDs(r *rig) []int {
	r.Helper()
	pids, err := r.pod.PIDs()
	if err != nil {
		r.Fatal(err)
	}
	return pids
}

func TestImmediateFrozen(t *testing.T) {
	onEach(t, func(r *rig) {
		h := r.hog(r.pod, "main", "fill 20MiB")
		if err := r.pod.Freeze(); err != nil {
			r.Fatal(err)
		}
		if r.hierarchy.Version == cgroup.V2 && r.node.Version() == 1 {
			// A v1 freezer holds back cgroup.kill; only v1's kill thaws it.
			_, err := r.killer.Immediate(r.within(300*time.Millisecond), r.target(r.pod.Path()))
			if !errors.Is(err, ErrTimeout) {
				r.Errorf("error %v, want %v", err, ErrTimeout)
			}
			return
		}
		r.mustKill()
		r.killedBy(h, syscall.SIGKILL)
	})
}

// A container may be frozen individually, which thawing the pod does not undo.
func TestImmediateFrozenContainer(t *testing.T) {
	r := onMemory(t)
	h := r.hog(r.pod, "main")
	if r.node.Version() == 1 {
		file := filepath.Join(r.pod.ContainerDir("freezer", "main"), "freezer.state")
		if err := os.WriteFile(file, []byte("FROZEN"), 0); err != nil {
			t.Fatal(err)
		}
	}
	r.mustKill()
	r.killedBy(h, syscall.SIGKILL)
}

// A freeze above the pod is not undone: other pods are there too. The error reports it, and the
// changes of the kill are undone.
func TestImmediateFrozenAbove(t *testing.T) {
	r := onMemory(t)
	if r.node.Version() != 1 {
		t.Skip("only the v1 freezer holds SIGKILL back")
	}
	h := r.hog(r.pod, "main")
	state := filepath.Join(r.node.Dir("freezer"), "kubepods", "freezer.state")
	if err := os.WriteFile(state, []byte("FROZEN"), 0); err != nil {
		t.Fatal(err)
	}
	before := r.limits()
	_, err := r.killer.Immediate(r.within(150*time.Millisecond), r.target(r.pod.Path()))
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v, want a TimeoutError", err)
	}
	if timeout.Left != 1 || len(timeout.Stragglers) != 1 || timeout.Stragglers[0].PID != h.Process.PID || timeout.Stragglers[0].State != 'D' {
		t.Errorf("%+v, want process %d in state D", timeout, h.Process.PID)
	}
	if !strings.Contains(err.Error(), "above the pod is frozen") {
		t.Errorf("the error does not name the freeze: %v", err)
	}
	if err := r.killer.Close(); err != nil { // the kill continues until then
		t.Error(err)
	}
	if after := r.limits(); after != before {
		t.Errorf("pids.max was %q, is %q", before, after)
	}
	if text, _ := os.ReadFile(state); !strings.HasPrefix(string(text), "FROZEN") {
		t.Errorf("kubepods is %s", text)
	}
}

// A process that leaves the pod after its pidfd was opened must live.
func TestImmediateSparesWhoLeft(t *testing.T) {
	r := onMemory(t)
	if r.node.Version() != 1 {
		t.Skip("cgroup.kill chooses and kills in one act")
	}
	stays, leaves := r.hog(r.pod, "main"), r.hog(r.pod, "side")
	other := addPod(t, r.node, "other")
	r.killer.urgent[0].between = func() {
		r.killer.urgent[0].between = nil
		move(t, leaves.Process.PID, other.ContainerDir("memory", "main"))
	}
	result := r.mustKill()
	r.killedBy(stays, syscall.SIGKILL)
	if !leaves.Process.Alive() || result.Signalled != 1 {
		t.Errorf("%+v, the process that left lives: %v", result, leaves.Process.Alive())
	}
	if _, err := leaves.Do(t.Context(), "fill 1MiB"); err != nil {
		t.Error(err)
	}
}

// A process that joins the pod after the listing is found in the next round.
func TestImmediateGetsWhoJoined(t *testing.T) {
	r := onMemory(t)
	if r.node.Version() != 1 {
		t.Skip("cgroup.kill chooses and kills in one act")
	}
	first, joins := r.hog(r.pod, "main"), r.hog(addPod(t, r.node, "other"), "main")
	r.killer.urgent[0].between = func() {
		r.killer.urgent[0].between = nil
		move(t, joins.Process.PID, r.pod.ContainerDir("memory", "side"))
	}
	result := r.mustKill()
	r.killedBy(first, syscall.SIGKILL)
	r.killedBy(joins, syscall.SIGKILL)
	if result.Signalled != 2 || result.Rounds < 2 {
		t.Errorf("%+v, want 2 signalled in 2 rounds", result)
	}
}

func TestImmediateEmptyPod(t *testing.T) {
	onEach(t, func(r *rig) {
		if result := r.mustKill(); result.Signalled != 0 || result.Rounds != 0 {
			r.Errorf("%+v, want nothing signalled", result)
		}
	})
}

func TestImmediateAfterTheEnd(t *testing.T) {
	onEach(t, func(r *rig) {
		h := r.hog(r.pod, "main")
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		if _, err := r.killer.Immediate(ctx, r.target(r.pod.Path())); !errors.Is(err, ErrTimeout) || !errors.Is(err, context.Canceled) {
			r.Errorf("error %v, want %v", err, ErrTimeout)
		}
		if !h.Process.Alive() {
			r.Error("killed though the context had ended")
		}
	})
}

func TestSelfTestFindsNothingMissing(t *testing.T) {
	onEach(t, func(r *rig) {
		if lacks := r.killer.SelfTest(r.within(5 * time.Second)); len(lacks) > 0 {
			r.Errorf("lacks %v", lacks)
		}
		// Its child is gone, and its zombie.
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WNOWAIT, nil); err == nil && pid > 0 {
			r.Errorf("process %d waits to be reaped", pid)
		}
	})
}

func TestSelfTestNamesWhatIsMissing(t *testing.T) {
	r := onMemory(t)
	if r.node.Version() != 1 {
		t.Skip("v1")
	}
	_ = unix.Close(r.killer.mounts.freezer)
	r.killer.mounts.freezer = -1
	lacks := r.killer.SelfTest(t.Context())
	if len(lacks) != 1 || lacks[0].Fatal || !strings.Contains(lacks[0].Error(), "freezer") {
		t.Errorf("lacks %v, want the freezer", lacks)
	}
}
