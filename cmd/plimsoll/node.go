package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/cgroup"
	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/kill"
	"plimsoll.dev/plimsoll/signal"
	"plimsoll.dev/plimsoll/stats"
)

// A node is this machine, or the cgroup that plays it: it implements the
// agent's ports with the kernel below and the manifests beside it.
type node struct {
	hierarchy cgroup.Hierarchy
	stats     *stats.Node
	usage     *stats.Pods
	manifests *manifests // nil without --pod-manifests
	killer    *kill.Killer
	log       *slog.Logger

	candidates []signal.Candidate
}

// policyFor compiles the configuration for what the agent observes: without
// observations of disks no local-storage limit can be exceeded.
func policyFor(c *config.Agent, log *slog.Logger) (*eviction.Policy, error) {
	watched := *c
	watched.LocalStorageCapacityIsolation = false
	policy, err := watched.Policy(signal.Single)
	if err != nil {
		return nil, err
	}
	var unseen []string
	for s := range signal.All {
		if policy.Configured.Has(s) && s.Definition().Condition == signal.DiskPressure {
			unseen = append(unseen, s.String())
		}
	}
	if len(unseen) > 0 {
		log.Info("disks are not observed by this version: their thresholds stay the kubelet's", "unknown", strings.Join(unseen, ","))
	}
	if c.LocalStorageCapacityIsolation {
		log.Info("disks are not observed by this version: local-storage limits stay the kubelet's")
	}
	return policy, nil
}

func openNode(c *config.Agent, policy *eviction.Policy, log *slog.Logger) (*node, error) {
	observed, err := stats.OpenNode(stats.Options{
		ProcRoot: c.ProcRoot, CgroupRoot: c.CgroupRoot, NodeCgroup: c.NodeCgroup,
		KubeReserved:       c.ReservedMemory(), // with systemReserved: only their sum counts
		WithoutAllocatable: !policy.Configured.Has(signal.AllocatableMemoryAvailable),
	})
	if err != nil {
		return nil, err
	}
	n := &node{hierarchy: observed.Hierarchy(), stats: observed, log: log}
	if n.killer, err = kill.New(n.hierarchy); err != nil {
		observed.Close()
		return nil, err
	}
	n.usage = stats.OpenPods(n.hierarchy, c.NodeCgroup)
	if c.PodManifests != "" {
		n.manifests = openManifests(c.PodManifests, log)
	}
	n.Refresh(context.Background())
	return n, nil
}

func (n *node) Close() {
	if err := n.killer.Close(); err != nil {
		n.log.Error("close the killer", "error", err)
	}
	n.usage.Close()
	n.stats.Close()
}

// Observe implements agent.Observer.
func (n *node) Observe(into *signal.Observations, kind signal.Kind) {
	n.stats.Look(kind, time.Now(), into)
}

// Measure implements agent.Pods. A pod without a cgroup or without processes is
// not active: it has ended, or has not begun.
func (n *node) Measure(context.Context) []signal.Candidate {
	if n.manifests == nil {
		return nil
	}
	n.candidates = n.usage.Measure(n.manifests.pods(), n.candidates[:0])
	return slices.DeleteFunc(n.candidates, func(c signal.Candidate) bool {
		return c.Usage == nil || c.Usage.Processes.Known && c.Usage.Processes.Value == 0
	})
}

// Refresh implements agent.Inventory: it opens what a measurement will read, so
// that none of it has to be opened under pressure.
func (n *node) Refresh(context.Context) {
	if n.manifests != nil {
		n.usage.Prepare(n.manifests.pods())
	}
}

// Victim implements agent.Victims.
func (n *node) Victim(e *eviction.Eviction) (agent.Victim, error) {
	pod := e.Pod
	found, ok := n.usage.Cgroup(pod.UID)
	if !ok {
		return nil, fmt.Errorf("pod %s (UID %s) has no cgroup below the node's kubepods: it has ended, or its manifest has another UID", pod.Key(), pod.UID)
	}
	return victim{n.killer, kill.Target{UID: found.UID, Path: found.Path, Inode: found.Inode}}, nil
}

// A victim is a pod's cgroup, as it was when the pod was measured.
type victim struct {
	killer *kill.Killer
	target kill.Target
}

func (v victim) Immediate(ctx context.Context, _ time.Duration) (agent.Killed, error) {
	return killed(v.killer.Immediate(ctx, v.target))
}

func (v victim) Graceful(ctx context.Context, grace time.Duration, change agent.Changes) (agent.Killed, error) {
	return killed(v.killer.Graceful(ctx, v.target, grace, change.Hurry))
}

// killed tells processes that were signalled but are not gone yet from those
// that could not be signalled.
func killed(r kill.Result, err error) (agent.Killed, error) {
	if errors.Is(err, kill.ErrGone) {
		err = nil // nobody is left: the goal, not a fault
	}
	k := agent.Killed{Processes: r.Signalled, ToSignal: r.ToSignal, ToEmpty: r.ToEmpty}
	if errors.Is(err, kill.ErrTimeout) && r.Signalled > 0 {
		k.Lingering = true
		return k, nil
	}
	return k, err
}
