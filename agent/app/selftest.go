package app

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// remoteCheckTimeout bounds the delay of the first check by runtime and API server: their
// answers are useful, but memory may be short already.
const remoteCheckTimeout = time.Second

// checkRemote runs the part of the self-test that needs runtime and API server.
func (a *app) checkRemote(ctx context.Context) {
	done := make(chan struct{})
	a.group.Go(func() {
		defer close(done)
		agent.SelfTest(ctx, a.log, a.remoteChecks())
	})
	select {
	case <-done:
	case <-time.After(remoteCheckTimeout):
	}
}

// localChecks returns the self-test of every right on the node that the agent will need.
func (a *app) localChecks(policy *eviction.Policy) []agent.Check {
	n := a.node
	checks := []agent.Check{
		{What: "reading the node's memory", Try: n.canObserve(signals.MemoryAvailable),
			Loss: "memory pressure is not seen", Remedy: "mount the host's cgroup file systems and give their place with --cgroup-root"},
		{What: "reading the number of PIDs", Try: n.canObserve(signals.PIDAvailable),
			Loss: "PID pressure is not seen", Remedy: "mount the host's /proc and give its place with --proc-root"},
		{What: "locking the agent's memory", Try: func(context.Context) error { return agent.LockMemory() },
			Loss: "a check may wait for the disk while memory is short", Remedy: "add the capability IPC_LOCK"},
		{What: "protecting the agent from the OOM killer", Try: func(context.Context) error { return agent.ProtectFromOOM() },
			Loss: "the kernel may kill the agent first", Remedy: "run the agent as a node-critical pod, or add the capability SYS_RESOURCE"},
		{What: "having a processor in time", Try: a.takeThread,
			Loss: "a check or a kill may be late while all processors are busy", Remedy: "add the capability SYS_NICE; where cpu cgroups grant real time (CONFIG_RT_GROUP_SCHED on cgroup v1), give the agent's cpu.rt_runtime_us"},
	}
	if policy.Configured.Has(signals.AllocatableMemoryAvailable) {
		checks = append(checks, agent.Check{What: "reading the memory of kubepods", Try: n.canObserve(signals.AllocatableMemoryAvailable),
			Loss: "allocatableMemory.available is unknown", Remedy: "set a memory limit on kubepods, or give --kube-reserved and --system-reserved; --enforce-node-allocatable=none does without"})
	}
	return append(checks, agent.Check{What: "killing a process", Try: n.canKill,
		Loss: "some pods cannot be killed, or only slowly", Remedy: "see each line of the error"})
}

func (n *node) canObserve(s signals.Signal) func(context.Context) error {
	return func(context.Context) error {
		var o signals.Observations
		n.Observe(&o, signals.Periodic)
		if !o[s].Known {
			return errors.New(o[s].Cause)
		}
		return nil
	}
}

func (a *app) takeThread(context.Context) (err error) {
	niced := agent.RaisePriority() // first: between checks, the thread has the niceness of its creation
	a.thread, err = agent.TakeThread()
	return errors.Join(err, niced)
}

func (n *node) canKill(ctx context.Context) error {
	var lacks []error
	for _, lack := range n.killer.SelfTest(ctx) {
		lacks = append(lacks, lack)
	}
	return errors.Join(lacks...)
}

// remoteChecks returns the self-test of what may need an answer of runtime or API server.
func (a *app) remoteChecks() (checks []agent.Check) {
	if a.runtime != nil {
		checks = append(checks, agent.Check{What: "speaking to the container runtime", Try: a.canReachRuntime,
			Loss: "images and writable layers are not seen, and nothing is collected, until it answers", Remedy: "give its socket with --container-runtime-endpoint"})
	}
	checks = append(checks, agent.Check{What: "knowing the node's pods", Try: a.awaitPods,
		Loss: "an unknown pod is never evicted", Remedy: "see the error"})
	if a.api != nil {
		checks = append(checks, agent.Check{What: "knowing the own Node", Try: a.canReadNode,
			Loss: "pods and Node are what the state file knew, until the API server answers", Remedy: "apply deploy/rbac, and give the Node's name with --hostname-override"})
	}
	return checks
}

// checkTimeout bounds each request of the self-test.
const checkTimeout = 3 * time.Second

func (a *app) canReachRuntime(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found, err := a.runtime.Version(ctx)
	if err != nil {
		return err
	}
	a.log.Info("Connected to the container runtime", "endpoint", a.runtime.Endpoint(), "runtime", found)
	return a.node.disks.Locate(ctx)
}

// awaitPods waits for the API server's list of pods. Other sources have theirs already.
func (a *app) awaitPods(ctx context.Context) error {
	if a.apiPods == nil {
		return a.podsKnown()
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return a.apiPods.await(ctx)
}

func (a *app) canReadNode(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	_, err := a.api.Client().Nodes().Get(ctx, a.api.NodeName(), metav1.GetOptions{ResourceVersion: "0"})
	return err
}
