package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/cgroup"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/kill"
	"plimsoll.dev/plimsoll/ladder"
	"plimsoll.dev/plimsoll/signal"
	"plimsoll.dev/plimsoll/stats"
	"plimsoll.dev/plimsoll/test/hog"
	"plimsoll.dev/plimsoll/test/sandbox"
)

func TestMain(m *testing.M) {
	hog.RunIfAsked()
	os.Exit(m.Run())
}

// crowded is a node with one pod of so many tiny processes, and what is noted of an
// agent's work there.
type crowded struct {
	*node
	target  kill.Target
	stop    context.CancelFunc
	checks  []time.Time // of memory
	evicted []*agent.Decision
}

func (c *crowded) Observe(into *signal.Observations, kind signal.Kind) {
	c.checks = append(c.checks, time.Now())
	c.stats.Look(kind, time.Now(), into)
}

// Looked ends the agent when the pod is empty.
func (c *crowded) Looked(*agent.Outcome, *eviction.Policy) {
	if len(c.evicted) > 0 && c.killer.Ended(c.target) {
		c.stop()
	}
}

func (c *crowded) Report(d *agent.Decision) {
	if d.Decision == agent.Evicted || d.Decision == agent.Failed {
		c.evicted = append(c.evicted, d)
	}
}
func (*crowded) Save(eviction.Saved) {}

func newCrowded(t *testing.T, processes int) *crowded {
	t.Helper()
	sandbox.Need(t)
	h, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	box := sandbox.Make(t, "crowd", 2<<30)
	pod, err := box.AddPod("6f1d0d7c-2b4e-4a51-9c8a-000000000003", sandbox.Burstable, "main")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{hierarchy: h, cgroups: stats.OpenPods(h, box.Path()), directories: stats.OpenDirectories(stats.DirectoryOptions{}),
		source: podList{{UID: pod.UID, Namespace: "default", Name: "p", Containers: []signal.Container{{Name: "main", ID: "main"}}}},
		ladder: &ladder.Ladder{}, safety: flagged(false), sandboxes: sandboxes{}}
	n.provider = n.cgroups
	t.Cleanup(n.cgroups.Close)
	if n.stats, err = stats.OpenNode(stats.Options{NodeCgroup: box.Path()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.stats.Close)
	if n.killer, err = kill.New(h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.killer.Close() })
	crowd, err := box.StartHog(t.Context(), pod, "main")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = crowd.Close() })
	if _, err := crowd.Do(t.Context(), fmt.Sprintf("crowd %d", processes)); err != nil {
		t.Fatal(err)
	}
	for pids, err := pod.PIDs(); len(pids) <= processes; pids, err = pod.PIDs() {
		if err != nil {
			t.Fatal(err)
		}
	}
	n.Refresh(t.Context())
	found, _ := n.cgroups.Cgroup(pod.UID)
	return &crowded{node: n, target: kill.Target{UID: found.UID, Path: found.Path, Inode: found.Inode}}
}

// ordinary gives all threads back the niceness that an agent changes.
func ordinary(t *testing.T) {
	tasks, err := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		if id, convErr := strconv.Atoi(task.Name()); convErr == nil {
			err = errors.Join(err, unix.Setpriority(unix.PRIO_PROCESS, id, 0))
		}
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		t.Error(err)
	}
}

// While the processes of a large pod end, memory is looked at all the same: a kill
// holds the loop for its bound alone, and during that the loop's second goroutine looks.
func TestLoop_ChecksMemoryWhileAKillGoesOn(t *testing.T) {
	c := newCrowded(t, 16_000)
	policy, err := eviction.NewPolicy(eviction.Settings{Thresholds: []eviction.Threshold{{Signal: signal.MemoryAvailable,
		Value: eviction.Value{Quantity: signal.Quantity{Value: 1 << 30}}}}, ReactionReserve: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	thread, err := agent.TakeThread() // as an agent runs
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		thread.Rest()
		ordinary(t)
	})
	thread.Hurry()
	a := agent.New(agent.Settings{Period: time.Second, MaxFillRate: 8 << 30}, agent.Parts{Machine: eviction.New(policy), Observer: c, Pods: c, Victims: c, Inventory: c, Reporter: c, Thread: thread})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	c.stop = stop
	a.Run(ctx)
	if len(c.evicted) != 1 || c.evicted[0].Decision != agent.Evicted || !c.evicted[0].Lingering {
		t.Fatalf("decisions %+v, want one eviction that goes on", c.evicted)
	}
	longest, total := time.Duration(0), c.checks[len(c.checks)-1].Sub(c.checks[0])
	at := time.Duration(0)
	for i := range c.checks[1:] {
		if gap := c.checks[i+1].Sub(c.checks[i]); gap > longest {
			at = c.checks[i].Sub(c.checks[0])
		}
		longest = max(longest, c.checks[i+1].Sub(c.checks[i]))
	}
	t.Logf("%d checks of memory in %s until the pod was empty, the longest gap %s after %s", len(c.checks), total, longest, at)
	if len(c.checks) < 20 || longest > total/2 {
		t.Errorf("%d checks in %s, the longest gap %s", len(c.checks), total, longest)
	}
}
