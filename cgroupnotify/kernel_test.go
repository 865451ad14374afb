package cgroupnotify

import (
	"fmt"
	"os"
	"path"
	"runtime"
	"sync"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

func TestMain(m *testing.M) {
	hog.RunIfSet()
	if os.Getenv(toucher) != "" {
		touchOnRequest()
	}
	os.Exit(m.Run())
}

const mib = 1 << 20

// timeout limits the waits of tests; it is not a measured value.
const timeout = time.Minute

// env is a notifier of a sandbox node, with the observations of that node.
type env struct {
	*testing.T
	*Notifier
	box  *sandbox.Node
	pod  *sandbox.Pod
	node *cgroup.Memory
	park bool // waits in the poller of Go's runtime
}

func newEnv(t *testing.T, o Options) *env {
	t.Helper()
	return newEnvWithMemory(t, 512*mib, o)
}

// collect reads the counters of the cgroups below the node's.
func (r *env) collect() {
	r.Helper()
	h := r.Notifier.options.Hierarchy
	for at := r.pod.Path() + "/main"; at != r.box.Path(); at = path.Dir(at) {
		m, err := cgroup.OpenMemory(h, at)
		if err == nil {
			_, err = m.Read()
			m.Close()
		}
		if err != nil {
			r.Fatal(err)
		}
	}
}

func newEnvWithMemory(t *testing.T, memory int64, o Options) *env {
	t.Helper()
	box := sandbox.Make(t, "notify", memory)
	pod, err := box.AddPod("hog", sandbox.Burstable, "main")
	if err != nil {
		t.Fatal(err)
	}
	h := hierarchy(t)
	node, err := cgroup.OpenMemory(h, box.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	o.Hierarchy, o.NodeCgroup = h, box.Path()
	return &env{t, open(t, o), box, pod, node, true}
}

// withoutMachine returns options under which stalls of this machine, caused by other programs,
// wake no notifier. Its pressure file is a regular file, which epoll refuses. Cgroups of
// version 2 use their own.
func withoutMachine(t testing.TB) Options {
	t.Helper()
	proc := t.TempDir()
	if err := os.Mkdir(proc+"/pressure", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(proc+"/pressure/memory", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return Options{Hierarchy: hierarchy(t), ProcRoot: proc}
}

func hierarchy(t testing.TB) cgroup.Hierarchy {
	t.Helper()
	sandbox.Need(t)
	h, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func open(t testing.TB, o Options) *Notifier {
	t.Helper()
	n, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// observe returns a current observation of the node.
func (r *env) observe() (o signals.Observations) {
	r.Helper()
	u, err := r.node.Read()
	if err != nil {
		r.Fatal(err)
	}
	capacity := signals.Amount(r.box.Limit())
	o[signals.MemoryAvailable] = signals.Observed(capacity-signals.Amount(u.WorkingSet()), capacity, time.Now())
	return o
}

// follow sets a line at an amount of available memory and waits for its registration.
func (r *env) follow(at signals.Amount) {
	r.Helper()
	node := r.observe()
	lines := []signals.Line{{Signal: signals.MemoryAvailable, At: at}}
	r.Follow(&node, lines)
	r.arming.Wait()
	r.Follow(&node, lines)
	if s := r.source(Threshold, Node); s.Err != nil {
		r.Fatal(s.Err)
	}
}

func (r *env) source(name, where string) Source {
	r.Helper()
	for _, s := range r.Sources() {
		if s.Name == name && s.Where == where {
			return s
		}
	}
	r.Fatalf("no source %s of %s in %v", name, where, r.Sources())
	return Source{}
}

// await waits until a wake of the given kind.
func (r *env) await(what signals.Wakes) {
	r.Helper()
	for end := time.Now().Add(timeout); time.Now().Before(end); {
		if r.Wait(end, r.park).Any(what) {
			return
		}
	}
	r.Fatalf("%v did not wake", what.Names())
}

// quiet drains pending events, and reports whether none was of the given kind.
func (r *env) quiet(what signals.Wakes) bool {
	return !r.Wait(time.Now(), false).Any(what)
}

func remove(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWake_CombinesRepeatedCalls(t *testing.T) {
	n := open(t, withoutMachine(t))
	for _, park := range []bool{false, true} {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for range 100 {
					n.Wake()
				}
			})
		}
		for woken := false; !woken; {
			woken = n.Wait(time.Now().Add(timeout), park) == signals.ByRequest
		}
		all.Wait()
		n.Wake()
		if w := n.Wait(time.Now().Add(timeout), park); w != signals.ByRequest {
			t.Fatalf("park %t: woken by %v", park, w.Names())
		}
		if w := n.Wait(time.Now(), park); w != 0 {
			t.Errorf("park %t: one wake ended two waits: %v", park, w.Names())
		}
		n.Wake()
		if w := n.Wait(time.Now().Add(-time.Hour), park); w != signals.ByRequest {
			t.Errorf("park %t: a wait until a past time returned %v", park, w.Names())
		}
	}
}

func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestNotifier_WakesOnOOMKill checks that the OOM killer of the node wakes on both versions.
func TestNotifier_WakesOnOOMKill(t *testing.T) {
	for _, park := range []bool{false, true} {
		t.Run(fmt.Sprintf("park %t", park), func(t *testing.T) {
			r := newEnvWithMemory(t, 64*mib, Options{})
			r.park = park
			h := r.box.Run(t, r.pod, "main")
			if err := h.Send("fill 100MiB"); err != nil {
				t.Fatal(err)
			}
			r.await(signals.ByOOM)
		})
	}
}

// TestPressure_WakesAtItsPace checks that a pod thrashing at its own limit wakes as a stall, but
// not a hundred times a second.
func TestPressure_WakesAtItsPace(t *testing.T) {
	r := newEnv(t, Options{})
	sandbox.Demand(t, "no notifications of stalls", r.source(PSI, Machine).Err)
	if err := r.pod.LimitMemory(32 * mib); err != nil {
		t.Fatal(err)
	}
	h := r.box.Run(t, r.pod, "main")
	begin := time.Now()
	if err := h.Send("thrash 100MiB in /var/tmp for 8s"); err != nil {
		t.Fatal(err)
	}
	r.await(signals.ByStall)
	wakes := 1
	for end := begin.Add(6 * time.Second); time.Now().Before(end); {
		if w := r.Wait(end, true); w != 0 {
			wakes++
		}
	}
	sources := len(r.Sources())
	maxWakes := sources * (far.burst + int(time.Since(begin)/far.every))
	if wakes > maxWakes {
		t.Errorf("woken %d times in %v, want at most %d by %d sources", wakes, time.Since(begin), maxWakes, sources)
	}
}

func TestNotifier_AllocatesNothing(t *testing.T) {
	r := newEnv(t, Options{})
	node := r.observe()
	node[signals.AllocatableMemoryAvailable] = node[signals.MemoryAvailable]
	lines := []signals.Line{
		{Signal: signals.MemoryAvailable, At: 100 * mib}, {Signal: signals.MemoryAvailable, At: 200 * mib},
		{Signal: signals.AllocatableMemoryAvailable, At: 100 * mib},
	}
	r.Follow(&node, lines)
	r.arming.Wait()
	r.Follow(&node, lines)
	for name, f := range map[string]func(){
		"Wait":            func() { r.Wait(time.Now(), false) },
		"Wait for a time": func() { r.Wait(time.Now().Add(time.Microsecond), false) },
		"Park for a time": func() { r.Wait(time.Now().Add(time.Microsecond), true) },
		"Wake":            func() { r.Wake(); r.Wait(time.Now().Add(timeout), false) },
		"Wake, parked":    func() { r.Wake(); r.Wait(time.Now().Add(timeout), true) },
		"Follow":          func() { r.Follow(&node, lines) },
		"Follow, retry":   func() { r.retryAt = time.Time{}; r.Follow(&node, lines) },
	} {
		if allocs := testing.AllocsPerRun(100, f); allocs != 0 {
			t.Errorf("%s allocates %v times", name, allocs)
		}
	}
}

// TestNotifier_LeaksNothing checks that opening and closing 10 000 times, as for short-lived
// cgroups, leaks nothing.
func TestNotifier_LeaksNothing(t *testing.T) {
	r := newEnv(t, Options{})
	fds, goroutines := descriptors(t), runtime.NumGoroutine()
	for _, c := range r.cgroups {
		for _, ch := range c.channels {
			rounds := 5000
			if _, slow := ch.(*pressure); slow { // each trigger waits for the kernel, and one is the machine's
				rounds = 100
			}
			for range rounds {
				ch.close()
				if err := ch.open(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	expectNoLeaks(t, fds, goroutines)
}

// expectNoLeaks fails if there are more descriptors or goroutines than before. It waits, because
// a goroutine exits shortly after its last statement.
func expectNoLeaks(t *testing.T, fds, goroutines int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > goroutines && time.Now().Before(end); {
		runtime.Gosched()
	}
	if f, g := descriptors(t), runtime.NumGoroutine(); f > fds || g > goroutines {
		t.Errorf("got %d descriptors and %d goroutines, want at most %d and %d", f, g, fds, goroutines)
	}
}
