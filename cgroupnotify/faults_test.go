package cgroupnotify

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// nuisance is a source with a permanently ready descriptor.
type noisySource struct {
	err             error
	wakes           signals.Wakes
	handled, failed int
	set             *set
	handler         *handler
	pace            pace
}

func (f *noisySource) handle(int, uint32) (signals.Wakes, error) { f.handled++; return f.wakes, f.err }
func (f *noisySource) fail(error)                                { f.failed++; f.set.remove(f.handler) }

// addNoisySource adds a permanently ready descriptor.
func addNoisySource(t *testing.T, n *Notifier, f *noisySource) {
	t.Helper()
	fd, err := unix.Eventfd(1, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f.set, f.pace = n.set, near
	if f.handler, err = n.set.add(f, fd, &f.pace, unix.EPOLLIN); err != nil {
		t.Fatal(err)
	}
}

func TestNotifier_DisablesFailingSource(t *testing.T) {
	n := open(t, withoutMachine(t))
	f := noisySource{err: unix.EBADF}
	addNoisySource(t, n, &f)
	fds := descriptors(t)
	end := time.Now().Add(100 * time.Millisecond)
	if w := n.Wait(end, true); w != 0 || time.Now().Before(end) {
		t.Errorf("woken by %v before the deadline", w.Names())
	}
	if f.handled != 1 || f.failed != 1 || descriptors(t) != fds-1 {
		t.Errorf("handled %d times, failed %d times, %d descriptors, want 1, 1 and %d", f.handled, f.failed, descriptors(t), fds-1)
	}
}

// TestNotifier_LimitsSourcesToTheirPace checks that every source wakes at most at its pace, and
// is not handled more often if it causes no wake.
func TestNotifier_LimitsSourcesToTheirPace(t *testing.T) {
	n := open(t, withoutMachine(t))
	for _, wakes := range []signals.Wakes{0, signals.ByStall} {
		f := noisySource{wakes: wakes}
		begin, woken := time.Now(), 0
		addNoisySource(t, n, &f)
		for end := begin.Add(timeout); f.handled < near.burst+5 && time.Now().Before(end); {
			if n.Wait(time.Now().Add(near.every), true) != 0 {
				woken++
			}
		}
		maxWakes := near.burst + int(time.Since(begin)/near.every)
		if f.handled < near.burst+5 || f.handled > maxWakes || woken > f.handled {
			t.Errorf("handled %d times, want %d to %d; woken %d times", f.handled, near.burst+5, maxWakes, woken)
		}
		n.set.remove(f.handler)
	}
}

// TestNotifier_WaitsForDeadlineAfterClose checks that the deadline works without epoll.
func TestNotifier_WaitsForDeadlineAfterClose(t *testing.T) {
	n, err := Open(withoutMachine(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n.Wake() // no effect
	end := time.Now().Add(20 * time.Millisecond)
	if w := n.Wait(end, true); w != 0 || time.Now().Before(end) {
		t.Errorf("woken by %v before the deadline", w.Names())
	}
}

func TestOpen_ReportsMissingPSIOnce(t *testing.T) {
	n := open(t, Options{Hierarchy: hierarchy(t), ProcRoot: t.TempDir()})
	var found []Source
	for _, s := range n.Sources() {
		if s.Name == PSI {
			found = append(found, s)
		}
	}
	if len(found) != 1 || found[0].Where != Machine || !strings.Contains(found[0].Err.Error(), "psi=1") {
		t.Errorf("got %v, want the machine's source only, with a remedy", found)
	}
}

// TestPressure_WorksWithReadOnlyHostProc covers a read-only mount of the host's /proc, as
// without the host's PID namespace. No trigger can be set there, but a container's own /proc has
// the same stalls.
func TestPressure_WorksWithReadOnlyHostProc(t *testing.T) {
	h, dir := hierarchy(t), t.TempDir()
	for _, flags := range []uintptr{unix.MS_BIND, unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY} {
		if err := unix.Mount("/proc", dir, "", flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for _, s := range open(t, Options{Hierarchy: h, ProcRoot: dir}).Sources() {
		if s.Name == PSI && s.Where == Machine && s.Err != nil {
			t.Error(s.Err)
		}
	}
}

// TestNotifier_RetriesAfterLackOfDescriptors checks that missing descriptors are reported and
// retried.
func TestNotifier_RetriesAfterLackOfDescriptors(t *testing.T) {
	var reports []Source
	r := newEnv(t, Options{Report: func(s Source) { reports = append(reports, s) }})
	check := func() {
		node := r.observe()
		r.retryAt = time.Time{}
		r.Follow(&node, nil)
	}
	unlimit := limit(t, 3)
	for _, c := range r.cgroups {
		c.lost(unix.ENODEV)
	}
	check()
	for _, s := range r.Sources() {
		if s.Where != Machine && (!errors.Is(s.Err, unix.EMFILE) || !strings.Contains(s.Err.Error(), "RLIMIT_NOFILE")) {
			t.Errorf("without descriptors: %+v", s)
		}
	}
	unlimit()
	reports = nil
	check()
	for _, s := range r.Sources() {
		if s.Err != nil {
			t.Errorf("with descriptors: %+v", s)
		}
	}
	if len(reports) == 0 {
		t.Error("got no report")
	}
}

// limit restricts the descriptors of this process to numbers below files.
func limit(t *testing.T, files uint64) (restore func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	restore = func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &was) }
	t.Cleanup(restore)
	return restore
}

func TestOpen_ReportsMissingCgroup(t *testing.T) {
	o := withoutMachine(t)
	o.NodeCgroup = "/plimsoll-nowhere"
	n := open(t, o)
	for _, s := range n.Sources() {
		if s.Where != Machine && (s.Err == nil || !cgroup.IsGone(s.Err)) {
			t.Errorf("%+v", s)
		}
	}
	if w := n.Wait(time.Now(), false); w != 0 {
		t.Errorf("woken by %v", w.Names())
	}
}

// TestClose_WaitsForRegistration checks that Close waits for a registration beside the loop.
func TestClose_WaitsForRegistration(t *testing.T) {
	h := hierarchy(t)
	box := sandbox.Make(t, "notify", 64*mib)
	fds := descriptors(t)
	n, err := Open(Options{Hierarchy: h, NodeCgroup: box.Path()})
	if err != nil {
		t.Fatal(err)
	}
	var node signals.Observations
	node[signals.MemoryAvailable] = signals.Observed(60*mib, 64*mib, time.Now())
	n.Follow(&node, []signals.Line{{Signal: signals.MemoryAvailable, At: 10 * mib}})
	if err := n.Close(); err != nil || descriptors(t) > fds {
		t.Errorf("got %d descriptors, %v, want at most %d", descriptors(t), err, fds)
	}
}

// TestOpen_WatchesMachine checks that the machine itself has lines on version 1. On version 2
// its root has no files to watch, and only kubepods is watched.
func TestOpen_WatchesMachine(t *testing.T) {
	h := hierarchy(t)
	n := open(t, Options{Hierarchy: h})
	m, err := cgroup.OpenMemory(h, "/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	u, err := m.Read()
	if err != nil {
		t.Fatal(err)
	}
	const capacity = 1 << 40 // more than the machine has: the line is far away
	var node signals.Observations
	node[signals.MemoryAvailable] = signals.Observed(capacity-signals.Amount(u.WorkingSet()), capacity, time.Now())
	for range 2 {
		n.Follow(&node, []signals.Line{{Signal: signals.MemoryAvailable, At: mib}})
		n.arming.Wait()
	}
	names := map[string]bool{}
	for _, s := range n.Sources() {
		names[s.Name+" "+s.Where] = true
		if s.Where == Node && s.Err != nil {
			t.Errorf("%+v", s)
		}
	}
	v1 := h.Version == cgroup.V1
	if names["memory-threshold node"] != v1 || names["memory-events node"] || names["memory-oom node"] || !names["psi machine"] {
		t.Errorf("got sources %v", names)
	}
	if v1 && n.lines[0].lines[0].handler == nil {
		t.Error("the line is not armed")
	}
}
