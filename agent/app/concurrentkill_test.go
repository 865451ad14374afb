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
	"testing"
	"time"

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
	begun, last   time.Time
	checks        int
	processes     int           // signalled when the call returned
	took, whole   time.Duration // of the call, and until the memory is free
	maxGap        time.Duration // between two checks
	reclaimed     chan struct{}
}

// Observe implements agent.Observer.
func (c *manyProcesses) Observe(into *signals.Observations, kind signals.Kind) {
	c.stats.Observe(kind, time.Now(), into)
	if c.killing {
		now := time.Now()
		c.maxGap, c.last = max(c.maxGap, now.Sub(c.last)), now
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
		v.c.begun = time.Now()
		v.c.last, v.c.killing = v.c.begun, true
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
		now := time.Now()
		c.killing, c.over, c.whole, c.maxGap = false, true, now.Sub(c.begun), max(c.maxGap, now.Sub(c.last))
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
	t.Logf("%d processes signalled in %s, memory free after %s, %d checks meanwhile, the longest gap %s", c.processes, c.took, c.whole, c.checks, c.maxGap)
	if c.processes == 0 {
		t.Error("no process was killed")
	}
	// One check is due every 5 ms during the call and every 20 ms after it. A thread without a
	// real-time class executes one in a hundred.
	if due := int(c.whole / (4 * eviction.MinInterval)); c.checks < due/2 {
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
	return &manyProcesses{node: n, reclaimed: make(chan struct{})}
}
