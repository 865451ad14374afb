package main

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
	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/ladder"
	"plimsoll.dev/plimsoll/signal"
	"plimsoll.dev/plimsoll/stats"
	"plimsoll.dev/plimsoll/test/sandbox"
)

// counted is a node that counts how often memory is looked at while a pod is killed.
type counted struct {
	*node
	killing   bool // set and read by the loop and what it waits for
	looks     int
	begun     time.Time
	last      time.Time
	longest   time.Duration // between two looks
	processes int
	took      time.Duration // of the call
	whole     time.Duration // until the pod was gone
	killed    chan struct{}
}

func (c *counted) Observe(into *signal.Observations, kind signal.Kind) {
	c.stats.Look(kind, time.Now(), into)
	if c.killing {
		c.looked()
		c.looks++
	}
}

func (c *counted) looked() {
	now := time.Now()
	c.longest, c.last = max(c.longest, now.Sub(c.last)), now
}

func (c *counted) Victim(e *eviction.Eviction) (agent.Victim, error) {
	v, err := c.node.Victim(e)
	if err != nil {
		return nil, err
	}
	return &countedVictim{v, c}, nil
}

type countedVictim struct {
	agent.Victim
	c *counted
}

func (v *countedVictim) Immediate(ctx, telling context.Context, wait time.Duration) (agent.Killed, error) {
	if v.c.took > 0 {
		return v.Victim.Immediate(ctx, telling, wait)
	}
	begun := time.Now()
	v.c.begun, v.c.last, v.c.killing = begun, begun, true
	killed, err := v.Victim.Immediate(ctx, telling, wait)
	v.c.processes, v.c.took = killed.Processes, time.Since(begun)
	return killed, err
}

// Report implements agent.Reporter.
func (c *counted) Report(d *agent.Decision) {
	if d.Decision == agent.Settled && c.killing {
		c.killing, c.whole = false, time.Since(c.begun)
		close(c.killed)
	}
}

func (*counted) Looked(*agent.Outcome, *eviction.Policy) {}
func (*counted) Save(eviction.Saved)                     {}

// A kill that takes the processors for half a second delays no look at memory: another
// pod may fill it meanwhile.
func TestKill_LooksGoOnBesideCrowd(t *testing.T) {
	sandbox.Need(t)
	// The weight that kubelets give to pods without requests.
	cpu := filepath.Join("/sys/fs/cgroup/cpu", fmt.Sprintf("plimsoll-crowded-%d", os.Getpid()))
	if err := os.Mkdir(cpu, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(cpu); err != nil {
			t.Error(err)
		}
	})
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(cpu, file), []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	write("cpu.shares", "2")
	box := sandbox.Make(t, "crowded", 2<<30)
	const uid = "6f1d0d7c-2b4e-4a51-9c8a-000000000201"
	pod, err := box.AddPod(uid, sandbox.Burstable, "main")
	if err != nil {
		t.Fatal(err)
	}
	settings := config.NewAgent()
	settings.NodeCgroup = box.Path()
	n, err := openNode(settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	n.source = podList{{UID: uid, Namespace: "default", Name: "crowd", Containers: []signal.Container{{Name: "main", ID: "main"}}}}
	n.directories, n.safety, n.ladder = stats.OpenDirectories(stats.DirectoryOptions{}), flagged(false), &ladder.Ladder{}
	policy, err := eviction.NewPolicy(eviction.Settings{Thresholds: []eviction.Threshold{{Signal: signal.MemoryAvailable, Value: eviction.Value{Fraction: 0.9, Percent: "90%"}}}})
	if err != nil {
		t.Fatal(err)
	}
	thread, err := agent.TakeThread()
	if err != nil {
		t.Fatal(err)
	}
	hog := box.Run(t, pod, "main")
	write("cgroup.procs", strconv.Itoa(hog.Process.PID))
	if _, err := hog.Do(t.Context(), "crowd 16000"); err != nil {
		t.Fatal(err)
	}
	for current := 0; current <= 16_000; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(pod.Dir("pids"), "pids.current"))
		if err != nil {
			t.Fatal(err)
		}
		if current, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			t.Fatal(err)
		}
	}
	procs := runtime.GOMAXPROCS(0)
	spareProcessor()
	t.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	c := &counted{node: n, killed: make(chan struct{})}
	a := agent.New(agent.Settings{Period: 10 * time.Second, MaxFillRate: 1 << 30},
		agent.Parts{Machine: eviction.New(policy), Observer: c, Pods: n, Victims: c, Inventory: n, Reporter: c, Thread: thread})
	ctx, end := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); a.Run(ctx) }()
	<-c.killed
	end()
	<-over
	t.Logf("%d processes signalled in %s, all gone after %s, %d looks meanwhile, the longest gap %s", c.processes, c.took, c.whole, c.looks, c.longest)
	if c.processes < 1000 {
		t.Errorf("%d processes were signalled: this is no crowd", c.processes)
	}
	// What is starved gets one in ten.
	if due := int(c.whole / eviction.CalmInterval); c.looks < due/2 {
		t.Errorf("%d looks during a kill of %s, %d were due", c.looks, c.whole, due)
	}
}
