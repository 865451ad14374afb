package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

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

// Stalls implements agent.Stalls.
func (n *node) Stalls() []signals.Stall { return n.stalls.Since(n.pods(), time.Now()) }

// Holders implements agent.Holders.
func (n *node) Holders() []signals.Holder { return n.stats.Holders() }

// mostEvicted bounds what is remembered of evicted pods.
const maxEvicted = 1000

// evicted are the pods that were evicted here, by their UIDs: they are listed until
// the API server's word of it has come back, which may take longer than the time to
// the next look. The zero value has none.
type evictedPods struct {
	mu      sync.Mutex // a soft eviction ends beside the loop
	targets map[string]kill.Target
}

func (e *evictedPods) add(t kill.Target) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.targets == nil || len(e.targets) >= maxEvicted {
		e.targets = map[string]kill.Target{}
	}
	e.targets[t.UID] = t
}

func (e *evictedPods) target(uid string) (t kill.Target, found bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, found = e.targets[uid]
	return t, found
}

// over reports whether a pod was evicted, and nothing of it runs since.
func (n *node) hasEnded(pod *signals.Pod) bool {
	t, found := n.evicted.target(pod.UID)
	return found && n.killer.Ended(t)
}

// findPods sets the kubelet's cgroup root, below which the pods' cgroup is searched,
// too. Where that adds a place, interrupted kills are undone there first: as long as
// the place is not searched, no kill of this agent can be under way in it.
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

// restore gives pods their pids.max back that an agent before this one was ending when
// it was killed itself.
func (n *node) restore(tree cgroup.PodTree) {
	if n.hierarchy.Version != cgroup.V1 {
		return
	}
	pods, err := tree.Pods()
	if err != nil {
		n.log.Error("Looking for an interrupted kill failed: a pod may be unable to start processes", "error", err)
		return
	}
	for _, p := range pods {
		restored, err := n.killer.Restore(kill.Target{UID: p.UID, Path: p.Path, Inode: p.Inode})
		switch {
		case errors.Is(err, kill.ErrGone):
		case err != nil:
			n.log.Error("Restoring pids.max failed: the pod cannot start processes", "uid", p.UID, "error", err)
		case restored:
			n.log.Warn("Restored pids.max after a kill that was interrupted", "uid", p.UID, "cgroup", p.Path)
		}
	}
}
