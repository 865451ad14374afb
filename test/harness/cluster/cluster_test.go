package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// makerVariable turns this binary into a process that starts a cluster with a pod, prints its
// place, and waits for its end.
const makerVariable = "PLIMSOLL_CLUSTER_MAKER"

func TestMain(m *testing.M) {
	if os.Getenv(makerVariable) != "" {
		makeCluster()
	}
	os.Exit(m.Run())
}

func makeCluster() {
	catchSignals()
	c, err := Start(context.Background(), Options{
		Components: Containerd, Node: NodeOptions{Memory: 256 << 20, Filesystem: Filesystem{Size: 96 << 20}},
	})
	if err == nil {
		_, err = c.Node.AddPod(context.Background(), Hog("left"))
	}
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	fmt.Println(c.Dir, c.Node.Cgroup)
	select {}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// fixed lists the places at which the components write regardless of their configuration, and
// the sysctls that a kubelet sets.
var fixed = []string{
	"/run/containerd", "/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/usr/libexec/kubernetes",
	"/proc/sys/kernel/panic", "/proc/sys/kernel/panic_on_oops", "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/keys/root_maxkeys",
}

// state returns the content of every fixed place.
func state() string {
	var all strings.Builder
	for _, path := range fixed {
		text, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s %q %v\n", path, text, err)
	}
	return all.String()
}

// checkRemoved fails the test if any part of a cluster still exists.
func checkRemoved(t *testing.T, dir, nodeCgroup string) {
	t.Helper()
	for _, name := range []string{filepath.Base(dir), filepath.Base(nodeCgroup)} {
		for _, pattern := range []string{cgroupRoot + "/" + name, cgroupRoot + "/*/" + name} {
			if left, _ := filepath.Glob(pattern); len(left) > 0 {
				t.Errorf("cgroups were not removed: %v", left)
			}
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s was not removed: %v", dir, err)
	}
	if mounts, err := mountsBelow(dir); err != nil || len(mounts) > 0 {
		t.Errorf("mounts were not removed: %v, %v", mounts, err)
	}
	loops, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, loop := range loops {
		if text, _ := os.ReadFile(loop); strings.HasPrefix(string(text), dir) {
			t.Errorf("%s was not removed for %s", loop, text)
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range processes {
		if text, _ := os.ReadFile(p); strings.Contains(string(text), dir) {
			t.Errorf("%s was not removed: %q", p, text)
		}
	}
}

// TestCleanup_AfterSignalOrSweep: the owner cleans up on a signal, and a sweep does after SIGKILL.
func TestCleanup_AfterSignalOrSweep(t *testing.T) {
	Need(t)
	for how, sig := range map[string]unix.Signal{"interrupt": unix.SIGINT, "kill": unix.SIGKILL} {
		t.Run(how, func(t *testing.T) {
			before := state()
			cmd, line := sandbox.Maker(t, makerVariable+"="+how, os.Stderr)
			dir, cgroup, found := strings.Cut(line, " ")
			if !found || !strings.HasPrefix(dir, os.TempDir()) {
				t.Fatalf("the maker printed %q", line)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it exits with an error
			if sig == unix.SIGKILL {
				if _, err := os.Stat(dir); err != nil {
					t.Errorf("the directory does not exist before Sweep: %v", err)
				}
				if err := Sweep(); err != nil {
					t.Fatal(err)
				}
			}
			checkRemoved(t, dir, cgroup)
			if after := state(); after != before {
				t.Errorf("fixed places changed from\n%sto\n%s", before, after)
			}
		})
	}
}

func TestSweep_KeepsLiveClusters(t *testing.T) {
	c := Make(t, Options{Components: Containerd, Node: NodeOptions{Memory: 256 << 20}})
	if err := Sweep(); err != nil {
		t.Fatal(err)
	}
	p, err := c.Node.AddPod(testContext(t), Hog("spared"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Do(testContext(t), "fill 1MiB"); err != nil {
		t.Fatal(err)
	}
}

func TestStart_FailureLeavesNothing(t *testing.T) {
	Need(t)
	before := ownClusters()
	c, err := Start(testContext(t), Options{Components: Etcd, Args: map[Components][]string{Etcd: {"--no-such-flag"}}})
	if err == nil {
		t.Fatalf("etcd started with an unknown flag: %v", c.Close())
	}
	if !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("the error does not show etcd's log: %v", err)
	}
	if after := ownClusters(); len(after) > len(before) {
		t.Errorf("got cgroups %v, want %v", after, before)
	}
}

// ownClusters returns the cgroups of the clusters of this process. Other processes start clusters at any time.
func ownClusters() (all []string) {
	for _, dir := range []string{cgroupRoot, filepath.Join(cgroupRoot, "memory")} {
		found, _ := filepath.Glob(fmt.Sprintf("%s/plimsoll-%s.*-%d-*", dir, systemName, os.Getpid()))
		all = append(all, found...)
	}
	return all
}

func TestComponents_CompleteDependencies(t *testing.T) {
	for requested, want := range map[Components]Components{
		Etcd:                 Etcd,
		APIServer:            Etcd | APIServer,
		Scheduler:            Etcd | APIServer | Scheduler,
		Containerd:           Containerd,
		Kubelet:              Etcd | APIServer | Containerd | Kubelet,
		Kubelet | Everything: Everything,
	} {
		if got := requested.complete(); got != want {
			t.Errorf("dependencies of %b: got %b, want %b", requested, got, want)
		}
	}
}
