package kill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// foreign is the variable that makes this binary kill one pod from a PID namespace of its own,
// in which the pod's processes are listed as 0.
const foreign = "PLIMSOLL_KILL_FOREIGN"

// killForeign is the whole program of that process.
func killForeign(order string) {
	var version int
	var root string
	t := Target{UID: uid, Exempt: []string{""}}
	if _, err := fmt.Sscan(order, &version, &root, &t.Path, &t.Inode, &t.Exempt[0]); err != nil {
		fmt.Println("order", err)
		os.Exit(1)
	}
	k, err := New(cgroup.At(cgroup.Version(version), root))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	result, err := k.Immediate(ctx, t)
	fmt.Printf("invisible=%d empty=%v notVisible=%v ended=%v err=%v\n", result.Invisible, result.ToEmpty > 0, errors.Is(err, ErrNotVisible), k.Ended(t), err)
	for _, lack := range k.SelfTest(ctx) {
		fmt.Println("lack:", lack)
	}
	os.Exit(0)
}

// Only cgroup.kill reaches processes of a foreign PID namespace.
func TestImmediate_KillsInvisibleProcessesByCgroupKillAlone(t *testing.T) {
	onEachTree(t, func(e *env) {
		h, sandbox := e.hog(e.pod, "main"), e.hog(e.pod, "side")
		target := e.target(e.pod.Path())
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s %d side", foreign, e.hierarchy.Version, e.hierarchy.Root, target.Path, target.Inode))
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		out, err := cmd.CombinedOutput()
		if err != nil {
			e.Fatalf("%v: %s", err, out)
		}
		want := "invisible=1 empty=true notVisible=false ended=true err=<nil>"
		if e.killer.mounts.oneByOne {
			want = "empty=false notVisible=true ended=false"
		}
		if !strings.Contains(string(out), want) || !strings.Contains(string(out), "hostPID: true") {
			e.Errorf("got %s\nwant %s, and the remedy", out, want)
		}
		if e.killer.mounts.oneByOne {
			if !h.Process.Alive() {
				e.Error("an invisible process was killed without cgroup.kill")
			}
			return
		}
		e.killedBy(h, syscall.SIGKILL)
		if !sandbox.Process.Alive() {
			e.Error("the exempt process was killed")
		}
	})
}

// A read-only cgroup file system only disables cgroup.kill: visible processes are signalled.
func TestImmediate_SignalsOnReadOnlyCgroups(t *testing.T) {
	onEachTree(t, func(e *env) {
		dir := e.TempDir()
		for _, flags := range []uintptr{unix.MS_BIND, unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY} {
			if err := unix.Mount(e.hierarchy.Root, dir, "", flags|unix.MS_REC, ""); err != nil {
				e.Fatal(err)
			}
		}
		killer, err := New(cgroup.At(e.hierarchy.Version, dir))
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil { // open files remain valid
			e.Fatal(err)
		}
		if err != nil {
			e.Fatal(err)
		}
		defer killer.Close()
		h, side := e.hog(e.pod, "main", "fork 20"), e.hog(e.pod, "side")
		target := e.target(e.pod.Path())
		for _, target.Exempt = range [][]string{{"side"}, nil} {
			if result, err := killer.Immediate(e.within(patience), target); err != nil || result.Signalled == 0 {
				e.Fatalf("exempt %v: got %+v, error %v", target.Exempt, result, err)
			}
		}
		e.killedBy(h, syscall.SIGKILL)
		e.killedBy(side, syscall.SIGKILL)
	})
}

// withoutCgroupKill makes the killer one of a kernel before Linux 5.14. v1 never has cgroup.kill.
func (e *env) withoutCgroupKill(k *Killer) {
	if !k.mounts.oneByOne {
		k.mounts.signalOneByOne(e.hierarchy)
	}
}

// Before Linux 5.14 there is no cgroup.kill, and v2 is killed like v1: forks are refused meanwhile.
func TestImmediate_WorksWithoutCgroupKill(t *testing.T) {
	onEachTree(t, func(e *env) {
		e.withoutCgroupKill(e.killer)
		before := e.limits()
		h, bystander := e.hog(e.pod, "main", "fork 20"), e.hog(addPod(e.T, e.node, "bystander"), "main")
		e.mustKill()
		e.killedBy(h, syscall.SIGKILL)
		if !bystander.Process.Alive() {
			e.Error("the process of another pod was killed")
		}
		if after := e.limits(); after != before {
			e.Errorf("got pids.max %q, want %q", after, before)
		}
	})
}

// Without cgroup.kill nothing reaches processes of a foreign PID namespace: the error has the remedy.
func TestImmediate_ReportsInvisibleProcessesWithoutCgroupKill(t *testing.T) {
	onEachTree(t, func(e *env) {
		e.withoutCgroupKill(e.killer)
		a, err := e.killer.begin(e.killer.immediateWorkspaces[0], e.target(e.pod.Path()))
		if err != nil {
			e.Fatal(err)
		}
		defer a.end()
		a.w.pids, a.w.invisible = a.w.pids[:0], 3
		if err := a.refuse(); !errors.Is(err, ErrNotVisible) {
			e.Errorf("got %v, want %v", err, ErrNotVisible)
		}
	})
}

func TestSelfTest_ReportsMissingCgroupKill(t *testing.T) {
	onEachTree(t, func(e *env) {
		e.withoutCgroupKill(e.killer)
		e.expectLacks(true)
	})
}

// Kills work in a container with a PID namespace shared with the pods, such as a node in a
// container. The count of tasks shows whether a pod is empty.
func TestKiller_KillsVisibleProcessesInAnyNamespace(t *testing.T) {
	e := onMemory(t)
	e.killer.mounts.blind = e.hierarchy.Version == cgroup.V1
	e.mustKill() // empty
	h := e.hog(e.pod, "main", "fork 20")
	e.mustKill()
	e.killedBy(h, syscall.SIGKILL)
	h = e.hog(e.pod, "main")
	result, err := e.killer.Graceful(e.within(patience), e.target(e.pod.Path()), 10*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.mustBeEmpty(result)
	e.killedBy(h, syscall.SIGTERM)
}
