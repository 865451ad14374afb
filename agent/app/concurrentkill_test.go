package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/evict"
	"plimsoll.dev/plimsoll/stats"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// manyProcesses is a node with one pod of 16,001 processes. It counts observations of memory
// from the first kill until the memory is free.
type manyProcesses struct {
	*node
	killing, over bool // set and read by the loop and the thread that it waits for
	begun         time.Time
	checks        int
	processes     int           // signalled when the call returned
	took, whole   time.Duration // of the call, and until the memory is free
	reclaimed     chan struct{}

	reference           *reference
	first, last, maxGap int64 // in its ticks: the begin, the last check, the longest time between two checks
}

// raisedFor is the time for which the agent raises its other threads during a kill: the checks depend on them.
const raisedFor = 5 * time.Second

// reference is a thread that does what the checking threads do apart from checks: it waits in a system call, in their
// real-time class. Its ticks measure the time in which such a thread gets a processor.
type reference struct {
	ticks atomic.Int64
	end   atomic.Bool
}

// newReference starts the thread, which ticks until the test ends.
func newReference(t *testing.T) *reference {
	t.Helper()
	r, started, ended := &reference{}, make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // and the thread ends with the goroutine
		err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 2, Flags: unix.SCHED_FLAG_RESET_ON_FORK}, 0)
		started <- err
		for pause := unix.NsecToTimespec(int64(eviction.MinInterval)); err == nil && !r.end.Load(); r.ticks.Add(1) {
			_ = unix.Nanosleep(&pause, nil)
		}
	}()
	t.Cleanup(func() { r.end.Store(true); <-ended })
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	return r
}

// Observe implements agent.Observer.
func (c *manyProcesses) Observe(into *signals.Observations, kind signals.Kind) {
	c.stats.Observe(kind, time.Now(), into)
	if c.killing && time.Since(c.begun) < raisedFor {
		now := c.reference.ticks.Load()
		c.maxGap, c.last = max(c.maxGap, now-c.last), now
		c.checks++
	}
}

// Victim implements agent.Victims.
func (c *manyProcesses) Victim(e *eviction.Eviction) (agent.Victim, error) {
	v, err := c.node.Victim(e)
	return &timedVictim{v, c}, err
}

type timedVictim struct {
	agent.Victim
	c *manyProcesses
}

func (v *timedVictim) Immediate(ctx, reporting, waiting context.Context, wait time.Duration) (agent.EvictionResult, error) {
	first := v.c.begun.IsZero()
	if first {
		v.c.begun, v.c.first, v.c.killing = time.Now(), v.c.reference.ticks.Load(), true
		v.c.last = v.c.first
	}
	killed, err := v.Victim.Immediate(ctx, reporting, waiting, wait)
	if first {
		v.c.processes, v.c.took = killed.Processes, time.Since(v.c.begun)
	}
	return killed, err
}

// Report implements agent.Reporter.
func (c *manyProcesses) Report(d *agent.Decision) {
	if d.Decision == agent.ReclaimDone && !c.over {
		c.killing, c.over, c.whole = false, true, time.Since(c.begun)
		close(c.reclaimed)
	}
}

func (*manyProcesses) Checked(*agent.Outcome, *eviction.Policy) {}
func (*manyProcesses) Save(eviction.Saved)                      {}

// A kill of 16,000 processes delays no observation of memory, neither before nor after its
// deadline: another pod may fill the memory meanwhile.
func TestKill_MemoryIsObservedDuringKill(t *testing.T) {
	c := newManyProcesses(t)
	policy, err := eviction.NewPolicy(eviction.Settings{Thresholds: []eviction.Threshold{{Signal: signals.MemoryAvailable, Value: eviction.Value{Fraction: 0.9, Percent: "90%"}}}})
	if err != nil {
		t.Fatal(err)
	}
	thread, err := agent.TakeThread()
	if err != nil {
		t.Fatal(err)
	}
	processors := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(processors) })
	spareProcessors()
	a := agent.New(agent.Settings{Period: 10 * time.Second, MaxFillRate: 1 << 30},
		agent.Parts{Machine: eviction.New(policy), Observer: c, Pods: c.node, Victims: c, Inventory: c.node, Reporter: c, Thread: thread})
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); a.Run(ctx) }()
	<-c.reclaimed
	end()
	<-ended
	t.Logf("%d processes signalled in %s, memory free after %s, %d checks in %d ticks, the longest gap %d", c.processes, c.took, c.whole, c.checks, c.last-c.first, c.maxGap)
	if c.processes == 0 {
		t.Error("no process was killed")
	}
	// One check is due every 5 ms during the call and every 20 ms after it. A thread without a
	// real-time class executes one in a hundred. In the longest gap a thread may have been suspended that the
	// reference does not wait for.
	if due := int(c.last-c.first-c.maxGap) / 4; c.checks < due/2 {
		t.Errorf("%d checks during a kill of %s, want at least half of %d", c.checks, c.whole, due)
	}
}

// newManyProcesses starts the pod. Its processes share the CPU weight of one pod.
func newManyProcesses(t *testing.T) *manyProcesses {
	t.Helper()
	sandbox.Need(t)
	h, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	if h.Version == cgroup.V2 {
		t.Skip("cgroup v2 kills all processes in one system call")
	}
	shared := h.Dir("cpu", fmt.Sprintf("/plimsoll-crowd-%d", os.Getpid()))
	if err := os.Mkdir(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(shared); err != nil {
			t.Error(err)
		}
	})
	box := sandbox.Make(t, "crowd", 2<<30)
	box.AwaitReaped(t)
	const uid = "6f1d0d7c-2b4e-4a51-9c8a-000000000201"
	pod, err := box.AddPod(uid, sandbox.BestEffort, "main")
	if err != nil {
		t.Fatal(err)
	}
	hog := box.Run(t, pod, "main")
	if err := os.WriteFile(filepath.Join(shared, "cgroup.procs"), []byte(strconv.Itoa(hog.Process.PID)), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := hog.Do(t.Context(), "crowd 16000"); err != nil {
		t.Fatal(err)
	}
	for n := 0; n <= 16_000; {
		text, err := os.ReadFile(filepath.Join(pod.Dir("pids"), "pids.current"))
		if err != nil {
			t.Fatal(err)
		}
		if n, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			t.Fatal(err)
		}
	}
	settings := config.NewAgent()
	settings.NodeCgroup = box.Path()
	n, err := openNode(settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	n.source = podList{{UID: uid, Namespace: "default", Name: "crowd", Containers: []signals.Container{{Name: "main", ID: "main"}}}}
	n.directories, n.arming, n.evictor = stats.OpenDirectories(stats.DirectoryOptions{}), stateWithoutFile(false), &evict.Evictor{}
	return &manyProcesses{node: n, reclaimed: make(chan struct{}), reference: newReference(t)}
}
