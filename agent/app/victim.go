package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/evict"
	"plimsoll.dev/plimsoll/internal/kill"
)

// Victim implements agent.Victims. A pod that runs its sandbox only has ended a moment ago,
// or waits for a restart. Its end frees no PIDs, and memory only if it holds files in
// memory. Returns an error if the end of the pod would free nothing.
func (n *node) Victim(e *eviction.Eviction) (agent.Victim, error) {
	found, ok := n.cgroups.Cgroup(e.Pod.UID)
	if !ok {
		return nil, fmt.Errorf("pod %s (UID %s) has no cgroup below the node's kubepods: it has ended, or its manifest has another UID", e.Pod.Key(), e.Pod.UID)
	}
	v := &victim{mayAct: n.arming.mayAct, evictor: n.evictor, eviction: e, killer: n.killer, evicted: &n.evicted, target: kill.Target{UID: found.UID, Path: found.Path, Inode: found.Inode}}
	for _, c := range found.Containers {
		v.containers = append(v.containers, c.Name)
	}
	v.target.Exempt = n.exemptDirectories(e.Pod.UID, found.Containers)
	if s, err := signals.Parse(e.Cause); err == nil && s.Definition().Condition != signals.DiskPressure && n.killer.Ended(v.target) {
		if err := n.checkFreeable(e.Pod, s); err != nil {
			return nil, err
		}
		v.held = func() (signals.Bytes, error) { return memoryHeld(n.hierarchy, v.target) }
	}
	return v, nil
}

// A victim implements agent.Victim and evict.Processes: it ends the processes in a pod's
// cgroup as that was when the pod was measured.
type victim struct {
	mayAct     func() error // called right before a signal; an error prevents it
	evictor    *evict.Evictor
	eviction   *eviction.Eviction
	killer     *kill.Killer
	evicted    *evictedPods
	target     kill.Target
	containers []string
	// held reads the memory of a pod without processes; nil for one that has some.
	held func() (signals.Bytes, error)

	finishing sync.Mutex
	finished  int // processes that Finish has signalled
}

// Immediate implements agent.Victim.
func (v *victim) Immediate(ctx, reporting, waiting context.Context, wait time.Duration) (agent.EvictionResult, error) {
	return v.result(v.evictor.Immediate(ctx, reporting, waiting, wait, v.eviction, v))
}

// Graceful implements agent.Victim.
func (v *victim) Graceful(ctx context.Context, grace time.Duration, change agent.Changes) (agent.EvictionResult, error) {
	return v.result(v.evictor.Graceful(ctx, v.eviction, v, grace, evict.Changes(change)))
}

// result converts the result of an eviction, and adds the pod to those that were evicted.
func (v *victim) result(r evict.Result, err error) (agent.EvictionResult, error) {
	if err == nil && !r.Withdrawn {
		v.evicted.add(evictedPod{v.eviction.Pod.Namespace, v.eviction.Pod.Name, v.target, v.containers})
	}
	k := agent.EvictionResult{Processes: r.Signalled, SignalTime: r.SignalTime, ExitTime: r.ExitTime, StatusTime: r.StatusTime, ProcessesRemain: r.ProcessesRemain, Rest: r.Rest, Withdrawn: r.Withdrawn, GivenUp: r.GivenUp,
		Unmounting: v.held != nil && r.Signalled == 0}
	switch {
	case r.Reported:
		k.Status = agent.StatusReported
	case r.Pending:
		k.Status = agent.StatusPending
	}
	return k, err
}

// Containers implements evict.Processes.
func (v *victim) Containers() []string { return v.containers }

// Kill implements evict.Processes.
func (v *victim) Kill(ctx context.Context) (evict.Ended, error) {
	if err := v.mayAct(); err != nil {
		return evict.Ended{}, err
	}
	return endedOf(v.killer.Immediate(ctx, v.target))
}

// End implements evict.Processes.
func (v *victim) End(ctx context.Context, grace time.Duration, escalate <-chan struct{}) (evict.Ended, error) {
	if err := v.mayAct(); err != nil {
		return evict.Ended{}, err
	}
	e, err := endedOf(v.killer.Graceful(ctx, v.target, grace, escalate))
	v.finishing.Lock()
	defer v.finishing.Unlock()
	e.Signalled = max(e.Signalled, v.finished)
	return e, err
}

// Finish implements agent.Victim.
func (v *victim) Finish(ctx context.Context) (agent.EvictionResult, error) {
	v.finishing.Lock()
	defer v.finishing.Unlock()
	e, err := v.Kill(ctx)
	v.finished = e.Signalled
	return v.result(evict.Result{Ended: e}, err)
}

// Await implements evict.Processes.
func (v *victim) Await(ctx context.Context) error {
	_, err := endedOf(kill.Result{}, v.killer.Await(ctx, v.target))
	if err == nil && v.held != nil {
		err = v.awaitUnmount(ctx)
	}
	return err
}

// endedOf converts the result of a kill. Returns the error of a kill that could not begin.
// After the first signal, and while the kill goes on, an error means that processes remain.
func endedOf(r kill.Result, err error) (evict.Ended, error) {
	e := evict.Ended{Signalled: r.Signalled, SignalTime: r.ToSignal, ExitTime: r.ToEmpty, Rest: r.Continued}
	switch {
	case errors.Is(err, kill.ErrGone): // no process is left: the goal, not a fault
		return e, nil
	case err != nil && (r.Signalled > 0 || r.Continued != nil):
		e.ProcessesRemain = true
		return e, nil
	}
	return e, err
}

// minHeld is the least memory or disk space for which a pod without processes is evicted. A
// sandbox holds less.
const minHeld signals.Bytes = 4 << 20

// holdsMemory reports whether a pod without processes holds memory that outlives them, such
// as files in an emptyDir of medium Memory.
func (n *node) holdsMemory(pod *signals.Pod) bool {
	return n.cgroups.Unreclaimable(pod.UID) >= minHeld && betweenRuns(pod)
}

// holdsDisk reports whether a pod without processes holds disk space. A dead container may hold any
// amount if its layer was not measured.
func holdsDisk(c *signals.Candidate) bool {
	dead := &c.Usage.OtherLayers
	held := c.Usage.EphemeralStorage.Value + dead.Bytes.Value
	return (held >= minHeld || dead.Incomplete != "") && betweenRuns(c.Pod)
}

// betweenRuns reports whether a pod without processes waits for the restart of a container.
// A container that is reported as running has ended a moment ago: the pod may have
// succeeded, and its volumes may be about to be removed.
func betweenRuns(pod *signals.Pod) bool {
	return !slices.ContainsFunc(pod.Containers, func(c signals.Container) bool { return c.ID != "" })
}

// checkFreeable returns an error if the end of a pod without processes would not free the
// resource that is short. Files in memory are freed when the kubelet unmounts their volume,
// after the pod has failed at the API server.
func (n *node) checkFreeable(pod *signals.Pod, short signals.Signal) error {
	held := signals.Format(signals.Amount(n.cgroups.Unreclaimable(pod.UID)), signals.UnitBytes)
	switch {
	case !short.OfMemory() || !n.holdsMemory(pod):
		return fmt.Errorf("pod %s runs no process but its sandbox's: its end would free nothing", pod.Key())
	case !pod.EndsBy.IsZero():
		return fmt.Errorf("pod %s runs no process and is being deleted: the %s it holds are freed when its volumes are unmounted", pod.Key(), held)
	case !pod.FromAPI || n.evictor.Status == nil:
		return fmt.Errorf("pod %s runs no process: the %s it holds are freed when its volumes are unmounted, which needs a report to an API server, and none is configured", pod.Key(), held)
	}
	return nil
}

// unmountPeriod is the interval between reads of memory that an unmount is to free.
const unmountPeriod = 500 * time.Millisecond

// awaitUnmount waits until the memory of a pod without processes is free. Returns an error
// if ctx ends before.
func (v *victim) awaitUnmount(ctx context.Context) error {
	tick := time.NewTicker(unmountPeriod)
	defer tick.Stop()
	for {
		switch held, err := v.held(); {
		case cgroup.IsGone(err), err == nil && held < minHeld:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the volumes of pod %s to be unmounted: %w", v.eviction.Pod.Key(), ctx.Err())
		case <-tick.C:
		}
	}
}

// memoryHeld reads the memory charged to a pod's cgroup without page cache.
func memoryHeld(h cgroup.Hierarchy, t kill.Target) (signals.Bytes, error) {
	m, err := cgroup.OpenMemory(h, t.Path)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	u, err := m.Read()
	return signals.Bytes(u.Unreclaimable()), err
}
