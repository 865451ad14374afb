package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/evict"
	"plimsoll.dev/plimsoll/internal/kill"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/stats"
)

// A node implements the ports of the loop that observe the node, and opens its victims.
type node struct {
	hierarchy   cgroup.Hierarchy
	places      *cgroup.PodPlaces
	restored    map[string]bool // places in which interrupted kills were undone
	stats       *stats.Node
	consumers   *stats.Consumers
	cgroups     *stats.Pods // where pods are, whatever measures them
	provider    stats.Provider
	disks       *stats.Disks
	directories *stats.Directories
	onDisks     *stats.DiskConsumers
	source      podSource     // nil: no pods are known
	stalls      *stats.Stalls // nil: stalls wake nothing
	history     *heldHistory  // nil: measurements are not stored
	killer      *kill.Killer
	evictor     *evict.Evictor
	arming      *armingState
	sandboxes   *sandboxes
	evicted     evictedPods
	metrics     *metrics.Metrics
	log         *slog.Logger

	candidates []signals.Candidate
	read       []signals.Candidate // the cgroups' values where another provider measures
	stored     []signals.Candidate
}

// openNode opens the kernel's files of the node. Returns an error if memory or cgroups can
// not be observed.
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
	n := &node{hierarchy: options.Hierarchy, places: options.Places, restored: map[string]bool{}, stats: observed, consumers: stats.NewConsumers(options), evictor: &evict.Evictor{}, sandboxes: newSandboxes(), evicted: evictedPods{added: make(chan evictedPod, evictedSlots)}, log: log}
	if n.killer, err = kill.New(n.hierarchy); err != nil {
		observed.Close()
		return nil, err
	}
	n.cgroups = stats.OpenPodsAt(n.hierarchy, n.places)
	observed.SetPods(n.cgroups)
	n.provider = n.cgroups
	n.findPods(c.KubeletCgroupRoot)
	return n, nil
}

// nearestExisting returns the directory, or its nearest parent that exists: a missing
// directory would be created on the filesystem of that one.
func nearestExisting(root, dir string) string {
	for dir != "/" {
		if _, err := os.Stat(filepath.Join(root, dir)); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

func (n *node) close() {
	if err := n.killer.Close(); err != nil {
		n.log.Error("Failed to close the killer", "error", err)
	}
	if n.provider != stats.Provider(n.cgroups) {
		n.provider.Close()
	}
	n.cgroups.Close()
	n.stats.Close()
}

// slowCheck is longer than a check of memory takes with a processor of its own.
const slowCheck = eviction.MinInterval / 2

// Observe implements agent.Observer.
func (n *node) Observe(into *signals.Observations, kind signals.Kind) {
	begun := time.Now()
	n.stats.Observe(kind, begun, into)
	if time.Since(begun) > slowCheck { // it waited in between: the time of the observation is not known well
		n.stats.Observe(signals.Early, time.Now(), into)
	}
	if kind == signals.Periodic {
		n.disks.Observe(into)
	}
	n.metrics.Check(kind, time.Since(begun))
	n.metrics.Observed(into)
}

func (n *node) pods() []signals.Pod {
	if n.source == nil {
		return nil
	}
	return n.source.pods()
}

// Measure implements agent.Pods. It omits pods without a cgroup, pods that were evicted,
// and pods without processes, unless they hold memory or disk space: these have ended or
// have not begun.
func (n *node) Measure(context.Context) []signals.Candidate {
	pods, begun := n.pods(), time.Now()
	if n.provider != stats.Provider(n.cgroups) {
		// The victim's cgroup has to be known, and the next check compares late counters
		// with these. Before the provider, which may return the cgroups' values.
		n.read = n.cgroups.MeasureMemory(pods, n.read[:0])
		n.history.note(n.cgroups, pods, begun)
	}
	n.candidates = n.provider.Measure(pods, n.candidates[:0])
	if n.provider == stats.Provider(n.cgroups) {
		n.history.note(n.cgroups, pods, begun)
	}
	for i := range n.read { // other providers count neither tasks nor the memory that is freed
		if own, usage := n.read[i].Usage, n.candidates[i].Usage; own != nil && usage != nil {
			usage.Tasks, usage.MemoryRelief, usage.MemoryFiles = own.Tasks, own.MemoryRelief, own.MemoryFiles
		}
	}
	n.candidates = slices.DeleteFunc(n.candidates, func(c signals.Candidate) bool { return c.Usage == nil || n.wasEvicted(c.Pod) })
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
		if !n.wasEvicted(&pods[i]) {
			n.stored = append(n.stored, signals.Candidate{Pod: &pods[i]})
		}
	}
	n.directories.Merge(n.stored)
	return n.stored
}

// Refresh implements agent.Inventory: it opens the files of measurements, so that none has
// to be opened under pressure.
func (n *node) Refresh(context.Context) {
	n.cgroups.Prepare(n.pods())
}

// Stalls implements agent.Stalls.
func (n *node) Stalls() []signals.Stall { return n.stalls.Since(n.pods(), time.Now()) }

// Consumers implements agent.Consumers.
func (n *node) Consumers(ctx context.Context, of agent.Shortage) signals.Consumption {
	switch of.Signal.Definition().Condition {
	case signals.MemoryPressure:
		return n.consumers.Memory()
	case signals.PIDPressure:
		return n.consumers.PIDs()
	}
	return n.onDisks.Measure(ctx, stats.UsedFilesystem{Signal: of.Signal, Used: of.Seen.Capacity - of.Seen.Available, Pods: of.Pods, Active: n.pods()})
}

// wasEvicted reports whether a pod was evicted and has had no process since.
func (n *node) wasEvicted(pod *signals.Pod) bool {
	t, found := n.evicted.target(pod.UID)
	return found && n.killer.Ended(t)
}

// findPods sets the kubelet's cgroup root, below which the pods' cgroup is searched too. In
// a new place it first undoes interrupted kills: before the place is searched, no kill of
// this agent can be under way in it.
func (n *node) findPods(cgroupRoot string) {
	for _, tree := range n.places.Trees(cgroupRoot) {
		if !n.restored[tree.Root()] {
			n.restored[tree.Root()] = true
			n.restore(tree)
		}
	}
	if n.places.Under(cgroupRoot) {
		n.log.Info("Searching the pods' cgroup", "kubeletCgroupRoot", cgroupRoot, "places", n.places.Places())
	}
}

// restore restores the pids.max of pods that an earlier agent was killing, without cgroup.kill, when
// it was killed itself.
func (n *node) restore(tree cgroup.PodTree) {
	if !n.hierarchy.LacksKill() {
		return
	}
	pods, err := tree.Pods()
	if err != nil {
		n.log.Error("Failed to search for an interrupted kill: a pod may be unable to start processes", "error", err)
		return
	}
	for _, p := range pods {
		restored, err := n.killer.Restore(kill.Target{UID: p.UID, Path: p.Path, Inode: p.Inode})
		switch {
		case errors.Is(err, kill.ErrGone):
		case err != nil:
			n.log.Error("Failed to restore pids.max: the pod cannot start processes", "uid", p.UID, "error", err)
		case restored:
			n.log.Warn("Restored pids.max after a kill that was interrupted", "uid", p.UID, "cgroup", p.Path)
		}
	}
}
