package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/containerd/cgroups/v3"
	"golang.org/x/sys/unix"
)

// T is the part of testing.TB that Need and Demand use.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

var prepare = sync.OnceFunc(func() {
	CatchSignals()
	_ = Sweep("") // leftovers do not affect the test
})

// Need checks the prerequisites of a sandbox. If one is missing, the test fails with CI=true
// and is skipped otherwise, with the reason. Once per process Need removes the leftovers of
// dead test processes. It closes the nodes on Ctrl-C.
func Need(t T) {
	t.Helper()
	if Demand(t, "no sandbox cgroup can be made", Missing()) {
		prepare()
	}
}

// Demand reports whether no prerequisite is missing. Otherwise it ends the test with the
// reason: the test fails with CI=true, because skips are not visible there, and is skipped
// otherwise.
func Demand(t T, undone string, missing error) bool {
	t.Helper()
	switch {
	case missing == nil:
		return true
	case os.Getenv("CI") == "true":
		t.Fatalf("CI=true and %s: %v", undone, missing)
	default:
		t.Skipf("%s: %v", undone, missing)
	}
	return false
}

// Missing returns an error that describes the missing prerequisite of a node and its remedy, or
// nil if this process can create one.
func Missing() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("running as user %d: run as root (sudo -E), sandbox cgroups are made in %s", uid, mountRoot)
	}
	l, err := detect()
	if err != nil {
		return err
	}
	for _, m := range l.mounts {
		if err := unix.Access(m.dir, unix.W_OK); err != nil {
			return fmt.Errorf("write to %s: %w: run where the %s cgroup hierarchy is writable, for instance in a privileged container", m.dir, err, m.controller)
		}
	}
	return nil
}

const mountRoot = "/sys/fs/cgroup"

// Unified names the bare v2 hierarchy beside v1 in [Node.Dir].
const Unified = "unified"

// mount is the mount point of a controller's hierarchy.
type mount struct{ controller, dir string }

// layout is the cgroup version and the hierarchies of a node.
type layout struct {
	version int // 1 or 2
	mounts  []mount
}

// detect determines the cgroup version through the library and checks that the controllers of a
// node are available.
func detect() (layout, error) {
	switch mode := cgroups.Mode(); mode {
	case cgroups.Unified:
		return detectV2()
	case cgroups.Legacy, cgroups.Hybrid:
		return detectV1(mode == cgroups.Hybrid)
	}
	return layout{}, fmt.Errorf("no cgroup filesystem at %s: mount cgroup2 there", mountRoot)
}

func detectV1(hybrid bool) (layout, error) {
	l := layout{version: 1}
	for _, c := range []string{"memory", "pids", "freezer"} {
		dir := filepath.Join(mountRoot, c)
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
			return l, fmt.Errorf("cgroup v1 controller %s: %w: mount it (mount -t cgroup -o %s cgroup %s)", c, err, c, dir)
		}
		l.mounts = append(l.mounts, mount{c, dir})
	}
	if hybrid {
		l.mounts = append(l.mounts, mount{Unified, filepath.Join(mountRoot, Unified)})
	}
	return l, nil
}

func detectV2() (layout, error) {
	file := filepath.Join(mountRoot, "cgroup.controllers")
	text, err := os.ReadFile(file)
	if err != nil {
		return layout{}, fmt.Errorf("read the controllers of cgroup v2: %w", err)
	}
	have := strings.Fields(string(text))
	var missing []error
	for _, want := range []string{"memory", "pids"} {
		if !contains(have, want) {
			missing = append(missing, fmt.Errorf("cgroup v2 controller %s is not in %s: boot with it enabled, and not mounted as v1", want, file))
		}
	}
	return layout{version: 2, mounts: []mount{{Unified, mountRoot}}}, errors.Join(missing...)
}

func contains(list []string, want string) bool {
	for _, s := range list {
		if s == want {
			return true
		}
	}
	return false
}

// CatchSignals closes every open node on SIGINT, SIGTERM or SIGHUP and then raises the signal
// again with its default action. Programs that handle Ctrl-C themselves call [CloseAll]
// instead.
var CatchSignals = sync.OnceFunc(func() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		sig := (<-c).(syscall.Signal)
		if err := CloseAll(); err != nil {
			fmt.Fprintln(os.Stderr, "close the sandbox nodes:", err)
		}
		signal.Reset(sig)
		_ = syscall.Kill(os.Getpid(), sig)
	}()
})
