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

// foreign makes this binary kill one pod and print the result, from a PID namespace of its own,
// where the pod's processes read as 0.
const foreign = "PLIMSOLL_KILL_FOREIGN"

// killForeign is the whole program of that process.
func killForeign(order string) {
	var version int
	var root string
	t := Target{UID: uid, Spare: []string{""}}
	if _, err := fmt.Sscan(order, &version, &root, &t.Path, &t.Inode, &t.Spare[0]); err != nil {
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

func TestForeignPIDNamespace(t *testing.T) {
	onEach(t, func(r *rig) {
		h, sandbox := r.hog(r.pod, "main"), r.hog(r.pod, "side")
		target := r.target(r.pod.Path())
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s %d side", foreign, r.hierarchy.Version, r.hierarchy.Root, target.Path, target.Inode))
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		out, err := cmd.CombinedOutput()
		if err != nil {
			r.Fatalf("%v: %s", err, out)
		}
		want := "invisible=1 empty=true notVisible=false ended=true err=<nil>"
		if r.hierarchy.Version == cgroup.V1 {
			want = "empty=false notVisible=true ended=false"
		}
		if !strings.Contains(string(out), want) || !strings.Contains(string(out), "hostPID: true") {
			r.Errorf("%s\nwant %s, and the remedy", out, want)
		}
		if r.hierarchy.Version == cgroup.V1 {
			if !h.Process.Alive() {
				r.Error("a process that could not be seen was killed")
			}
			return
		}
		r.killedBy(h, syscall.SIGKILL)
		if !sandbox.Process.Alive() {
			r.Error("who is to be spared was killed")
		}
	})
}

// A read-only cgroup file system only disables cgroup.kill: processes that can be signalled are.
func TestImmediateWhereCgroupsAreReadOnly(t *testing.T) {
	onEach(t, func(r *rig) {
		dir := r.TempDir()
		for _, flags := range []uintptr{unix.MS_BIND, unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY} {
			if err := unix.Mount(r.hierarchy.Root, dir, "", flags|unix.MS_REC, ""); err != nil {
				r.Fatal(err)
			}
		}
		killer, err := New(cgroup.At(r.hierarchy.Version, dir))
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil { // open files remain valid
			r.Fatal(err)
		}
		if err != nil {
			r.Fatal(err)
		}
		defer killer.Close()
		h, side := r.hog(r.pod, "main", "fork 20"), r.hog(r.pod, "side")
		target := r.target(r.pod.Path())
		for _, target.Spare = range [][]string{{"side"}, nil} {
			if result, err := killer.Immediate(r.within(patience), target); err != nil || result.Signalled == 0 {
				r.Fatalf("spared %v: %+v, %v", target.Spare, result, err)
			}
		}
		r.killedBy(h, syscall.SIGKILL)
		r.killedBy(side, syscall.SIGKILL)
	})
}

// Before Linux 5.14 there is no cgroup.kill, and v2 is killed like v1.
func TestImmediateWithoutCgroupKill(t *testing.T) {
	onEach(t, func(r *rig) {
		r.killer.mounts.version = cgroup.V1
		h, bystander := r.hog(r.pod, "main", "fork 20"), r.hog(addPod(r.T, r.node, "bystander"), "main")
		r.mustKill()
		r.killedBy(h, syscall.SIGKILL)
		if !bystander.Process.Alive() {
			r.Error("the process of another pod is dead")
		}
	})
}

// Kills work in a container with a PID namespace shared with the pods, such as a node in a
// container. The count of tasks shows whether a pod is empty.
func TestKillsWhatItSeesInAnyNamespace(t *testing.T) {
	r := onMemory(t)
	r.killer.mounts.blind = r.hierarchy.Version == cgroup.V1
	r.mustKill() // empty
	h := r.hog(r.pod, "main", "fork 20")
	r.mustKill()
	r.killedBy(h, syscall.SIGKILL)
	h = r.hog(r.pod, "main")
	result, err := r.killer.Graceful(r.within(patience), r.target(r.pod.Path()), 10*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.mustBeEmpty(result)
	r.killedBy(h, syscall.SIGTERM)
}
