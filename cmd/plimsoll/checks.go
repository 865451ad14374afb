package main

import (
	"context"
	"errors"
	"fmt"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/signal"
)

// checks is the boot self-test: every right that the agent will need, tried.
func (n *node) checks(c *config.Agent, policy *eviction.Policy) []agent.Check {
	checks := []agent.Check{
		{What: "reading the node's memory", Try: n.canObserve(signal.MemoryAvailable),
			Loss: "memory pressure is not seen", Remedy: "mount the host's cgroup file systems and give their place with --cgroup-root"},
		{What: "reading the number of PIDs", Try: n.canObserve(signal.PIDAvailable),
			Loss: "PID pressure is not seen", Remedy: "mount the host's /proc and give its place with --proc-root"},
		{What: "locking the agent's memory", Try: func(context.Context) error { return agent.LockMemory() },
			Loss: "a look may wait for the disk while memory is short", Remedy: "add the capability IPC_LOCK"},
		{What: "protecting the agent from the OOM killer", Try: func(context.Context) error { return agent.ProtectFromOOM() },
			Loss: "the kernel may kill the agent first", Remedy: "run the agent as a node-critical pod, or add the capability SYS_RESOURCE"},
		{What: "knowing the node's pods", Try: n.canFindPods,
			Loss: "what is not known is not evicted", Remedy: "give the directory of their manifests with --pod-manifests, and mend those that are named"},
	}
	if policy.Configured.Has(signal.AllocatableMemoryAvailable) {
		checks = append(checks, agent.Check{What: "reading the memory of kubepods", Try: n.canObserve(signal.AllocatableMemoryAvailable),
			Loss: "allocatableMemory.available is unknown", Remedy: "set a memory limit on kubepods, or give --kube-reserved and --system-reserved; --enforce-node-allocatable=none does without"})
	}
	if !c.DryRun {
		checks = append(checks, agent.Check{What: "killing a process", Try: n.canKill,
			Loss: "pods may not be ended, or more slowly", Remedy: "as each line of the error says"})
	}
	return checks
}

func (n *node) canObserve(s signal.Signal) func(context.Context) error {
	return func(context.Context) error {
		var o signal.Observations
		n.Observe(&o, signal.Regular)
		if !o[s].Known {
			return errors.New(o[s].Cause)
		}
		return nil
	}
}

func (n *node) canKill(ctx context.Context) error {
	var lacks []error
	for _, lack := range n.killer.SelfTest(ctx) {
		lacks = append(lacks, lack)
	}
	return errors.Join(lacks...)
}

func (n *node) canFindPods(context.Context) error {
	if n.manifests == nil {
		return errors.New("no directory of pod manifests was given")
	}
	if n.manifests.fault != "" {
		return fmt.Errorf("not all manifests can be used: %s", n.manifests.fault)
	}
	return nil
}
