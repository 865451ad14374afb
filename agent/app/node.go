package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/evict"
	"plimsoll.dev/plimsoll/internal/kill"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/stats"
)

// A node is the agent's ports onto a real node.
type node struct {
	hierarchy   cgroup.Hierarchy
	places      *cgroup.PodPlaces
	restored    map[string]bool // places in which interrupted kills were undone
	stats       *stats.Node
	cgroups     *stats.Pods // where pods are, whoever measures them
	provider    stats.Provider
	disks       *stats.Disks
	directories *stats.Directories
	source      podSource     // nil: no pods are known
	stalls      *stats.Stalls // nil: nobody is woken by them
	killer      *kill.Killer
	evictor     *evict.Ladder
	arming      *armingState
	sandboxes   *sandboxes
	evicted     evictedPods
	metrics     *metrics.Metrics
	log         *slog.Logger

	candidates []signals.Candidate
	read       []signals.Candidate // where another provider measures
	stored     []signals.Candidate
}

// openNode opens what the kernel shows of the node.
func openNode(c *config.Agent, log *slog.Logger) (*node, error) {
	policy, err := c.Policy(signals.Single)
	if err != nil {
		return nil, err
	}
	options, err := stats.Options{
		ProcRoot: c.ProcRoot, CgroupRoot: c.CgroupRoot, NodeCgroup: c.NodeCgroup,
		KubeReserved:       c.ReservedMemory(), // with systemReserved: only their sum counts
		WithoutAllocatable: !policy.Configured.Has(signals.AllocatableMemoryAvailable),
	}.Resolve()
	if err != nil {
		return nil, err
	}
	options.Places.Under(c.KubeletCgroupRoot)
	observed, err := stats.OpenNode(options)
	if err != nil {
		return nil, err
	}
	n := &node{hierarchy: options.Hierarchy, places: options.Places, restored: map[string]bool{}, stats: observed, evictor: &evict.Ladder{}, sandboxes: newSandboxes(), log: log}
	if n.killer, err = kill.New(n.hierarchy); err != nil {
		observed.Close()
		return nil, err
	}
	n.cgroups = stats.OpenPodsAt(n.hierarchy, n.places)
	observed.Among(n.cgroups)
	n.provider = n.cgroups
	n.findPods(c.KubeletCgroupRoot)
	return n, nil
}

// existing is the directory, or what exists of it: where a directory is missing, its
// filesystem is the one that it would be made on.
func nearestExisting(root, dir string) string {
	for dir != "/" {
		if _, err := os.Stat(filepath.Join(root, dir)); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

func (n *node) Close() {
	if err := n.killer.Close(); err != nil {
		n.log.Error("close the killer", "error", err)
	}
	if n.provider != stats.Provider(n.cgroups) {
		n.provider.Close()
	}
	n.cgroups.Close()
	n.stats.Close()
}

// slowLook is longer than a look at memory takes where it gets its processor.
const slowCheck = eviction.ShortestInterval / 2

// Observe implements agent.Observer.
func (n *node) Observe(into *signals.Observations, kind signals.Kind) {
	begun := time.Now()
	n.stats.Look(kind, begun, into)
	if time.Since(begun) > slowCheck { // kept waiting in between: when it was seen is not known well
		n.stats.Look(signals.Extra, time.Now(), into)
	}
	if kind == signals.Regular {
		n.disks.Observe(into)
	}
	n.metrics.Look(kind, time.Since(begun))
	n.metrics.Observed(into)
}

func (n *node) pods() []signals.Pod {
	if n.source == nil {
		return nil
	}
	return n.source.pods()
}

// Measure implements agent.Pods. A pod without a cgroup is not active, nor is one
// without processes, unless it holds memory or disk space: it has ended, or has not
// begun. Nor is one that was evicted, whoever has heard of it.
func (n *node) Measure(context.Context) []signals.Candidate {
	pods := n.pods()
	if n.provider != stats.Provider(n.cgroups) {
		// Where to find whoever is chosen; and what the next look holds late counters
		// against. Before the provider, who may hand out what the cgroups say.
		n.read = n.cgroups.MeasureMemory(pods, n.read[:0])
	}
	n.candidates = n.provider.Measure(pods, n.candidates[:0])
	n.candidates = slices.DeleteFunc(n.candidates, func(c signals.Candidate) bool { return c.Usage == nil || n.hasEnded(c.Pod) })
	n.directories.Merge(n.candidates)
	n.candidates = slices.DeleteFunc(n.candidates, func(c signals.Candidate) bool {
		return c.Usage.Processes.Known && c.Usage.Processes.Value == 0 && !n.holdsMemory(c.Pod) && !holdsDisk(&c)
	})
	return n.candidates
}

// Stored implements agent.Pods.
func (n *node) Stored() []signals.Candidate {
	pods := n.pods()
	n.stored = n.stored[:0]
	for i := range pods {
		if !n.hasEnded(&pods[i]) {
			n.stored = append(n.stored, signals.Candidate{Pod: &pods[i]})
		}
	}
	n.directories.Merge(n.stored)
	return n.stored
}

// Refresh implements agent.Inventory: it opens what a measurement will read, so
// that none of it has to be opened under pressure.
func (n *node) Refresh(context.Context) {
	n.cgroups.Prepare(n.pods())
}

// Victim implements agent.Victims. PIDs are not freed by the end of a pod that runs
// nothing but its sandbox, and memory only if it holds files in memory: one that was
// ended a moment ago, of which the API server's word is still on its way, or that
// waits to be started again.
func (n *node) Victim(e *eviction.Eviction) (agent.Victim, error) {
	found, ok := n.cgroups.Cgroup(e.Pod.UID)
	if !ok {
		return nil, fmt.Errorf("pod %s (UID %s) has no cgroup below the node's kubepods: it has ended, or its manifest has another UID", e.Pod.Key(), e.Pod.UID)
	}
	v := &victim{check: n.arming.check, evictor: n.evictor, eviction: e, killer: n.killer, evicted: &n.evicted, target: kill.Target{UID: found.UID, Path: found.Path, Inode: found.Inode}}
	for _, c := range found.Containers {
		v.containers = append(v.containers, c.Name)
	}
	v.target.Spare = n.sparedDirectories(e.Pod.UID, found.Containers)
	if s, err := signals.Parse(e.Cause); err == nil && s.Definition().Condition != signals.DiskPressure && n.killer.Ended(v.target) {
		if err := n.checkFreeable(e.Pod, s); err != nil {
			return nil, err
		}
		v.held = func() (signals.Bytes, error) { return memoryHeld(n.hierarchy, v.target) }
	}
	return v, nil
}

// A victim is a pod's cgroup, as it was when the pod was measured, and its end.
type victim struct {
	check      func() error // asked right before a signal
	evictor    *evict.Ladder
	eviction   *eviction.Eviction
	killer     *kill.Killer
	evicted    *evictedPods
	target     kill.Target
	containers []string
	// held reads the memory of a pod that runs nothing; nil for one that does.
	held func() (signals.Bytes, error)

	finishing sync.Mutex
	finished  int // processes that Finish has signalled
}

// Immediate implements agent.Victim.
func (v *victim) Immediate(ctx, telling context.Context, wait time.Duration) (agent.Killed, error) {
	return v.result(v.evictor.Immediate(ctx, telling, wait, v.eviction, v))
}

// Graceful implements agent.Victim.
func (v *victim) Graceful(ctx context.Context, grace time.Duration, change agent.Changes) (agent.Killed, error) {
	return v.result(v.evictor.Graceful(ctx, v.eviction, v, grace, evict.Changes(change)))
}

// killed is what became of the pod, which is noted.
func (v *victim) result(r evict.Result, err error) (agent.Killed, error) {
	if err == nil && !r.Withdrawn {
		v.evicted.add(v.target)
	}
	k := agent.Killed{Processes: r.Signalled, ToSignal: r.ToSignal, ToEmpty: r.ToEmpty, ToStatus: r.ToTold, Lingering: r.Lingering, Rest: r.Rest, Withdrawn: r.Withdrawn, GivenUp: r.GivenUp,
		Unmounting: v.held != nil && r.Signalled == 0}
	switch {
	case r.Told:
		k.Status = agent.StatusTold
	case r.Owed:
		k.Status = agent.StatusOwed
	}
	return k, err
}

// Containers implements ladder.Processes.
func (v *victim) Containers() []string { return v.containers }

// Kill implements ladder.Processes.
func (v *victim) Kill(ctx context.Context) (evict.Ended, error) {
	if err := v.check(); err != nil {
		return evict.Ended{}, err
	}
	return endedOf(v.killer.Immediate(ctx, v.target))
}

// End implements ladder.Processes.
func (v *victim) End(ctx context.Context, grace time.Duration, hurry <-chan struct{}) (evict.Ended, error) {
	if err := v.check(); err != nil {
		return evict.Ended{}, err
	}
	e, err := endedOf(v.killer.Graceful(ctx, v.target, grace, hurry))
	v.finishing.Lock()
	defer v.finishing.Unlock()
	e.Signalled = max(e.Signalled, v.finished)
	return e, err
}

// Finish implements agent.Victim.
func (v *victim) Finish(ctx context.Context) (agent.Killed, error) {
	v.finishing.Lock()
	defer v.finishing.Unlock()
	e, err := v.Kill(ctx)
	v.finished = e.Signalled
	return v.result(evict.Result{Ended: e}, err)
}

// Await implements ladder.Processes.
func (v *victim) Await(ctx context.Context) error {
	_, err := endedOf(kill.Result{}, v.killer.Await(ctx, v.target))
	if err == nil && v.held != nil {
		err = v.awaitUnmount(ctx)
	}
	return err
}

// ended tells a kill that has begun from one that could not: of a pod whose
// processes got their signal what is left counts as lingering, whatever went
// wrong then; and so does that of a pod where the kill goes on.
func endedOf(r kill.Result, err error) (evict.Ended, error) {
	e := evict.Ended{Signalled: r.Signalled, ToSignal: r.ToSignal, ToEmpty: r.ToEmpty, Rest: r.Rest}
	switch {
	case errors.Is(err, kill.ErrGone): // nobody is left: the goal, not a fault
		return e, nil
	case err != nil && (r.Signalled > 0 || r.Rest != nil):
		e.Lingering = true
		return e, nil
	}
	return e, err
}
