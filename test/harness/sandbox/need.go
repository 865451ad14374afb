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
	_ = Sweep("") // what cannot be swept does no harm to the test that runs
})

// Need ends the test where no sandbox can be made, saying what is missing: it
// fails where CI=true, and skips elsewhere. It also sweeps what dead test
// processes left behind, once per process, and closes the nodes on Ctrl-C.
func Need(t T) {
	t.Helper()
	if Demand(t, "no sandbox cgroup can be made", Missing()) {
		prepare()
	}
}

// Demand reports whether nothing is missing. Otherwise it ends the test, saying
// what can not be done and why: it fails where CI=true, because nobody there
// sees what is skipped, and skips elsewhere.
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

// Missing says what keeps this process from making a node, and how to get it;
// nil if nothing does.
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

// A mount is where a controller's hierarchy is mounted.
type mount struct{ controller, dir string }

// A layout is the cgroup version and the hierarchies a node lives in.
type layout struct {
	version int // 1 or 2
	mounts  []mount
}

// detect leaves the question which version this machine has to the library,
// and checks that the controllers a node needs are there.
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

// CatchSignals closes every open node when the process is told to end, and then
// lets the signal do its work. Programs that handle Ctrl-C themselves call
// [CloseAll] instead.
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
