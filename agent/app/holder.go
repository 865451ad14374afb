package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/kill"
)

// leastHeld is the memory or disk space from which on a pod without processes is worth
// an eviction. A sandbox holds less.
const minHeld signals.Bytes = 4 << 20

// holds reports whether a pod without processes holds memory that outlives them: files
// in memory, as of an emptyDir of medium Memory.
func (n *node) holdsMemory(pod *signals.Pod) bool {
	return n.cgroups.Held(pod.UID) >= minHeld && betweenRuns(pod)
}

// stores reports whether a pod without processes holds disk space.
func holdsDisk(c *signals.Candidate) bool {
	used := c.Usage.EphemeralStorage
	return used.Known && used.Value >= minHeld && betweenRuns(c.Pod)
}

// betweenRuns reports whether a pod without processes waits for a container that
// crashes to be started again. A container that is said to run has ended a moment ago:
// whether the pod has succeeded is not reported yet, and its volumes may be about to
// be removed.
func betweenRuns(pod *signals.Pod) bool {
	return !slices.ContainsFunc(pod.Containers, func(c signals.Container) bool { return c.ID != "" })
}

// freeable returns why the end of a pod that runs no process would not free what is
// short of; nil if it would. Files in memory are freed when the kubelet unmounts
// their volume, and it does so once the API server has the pod failed.
func (n *node) checkFreeable(pod *signals.Pod, short signals.Signal) error {
	held := signals.Format(signals.Amount(n.cgroups.Held(pod.UID)), signals.UnitBytes)
	switch {
	case !short.OfMemory() || !n.holdsMemory(pod):
		return fmt.Errorf("pod %s runs no process but its sandbox's: its end would free nothing", pod.Key())
	case !pod.EndsBy.IsZero():
		return fmt.Errorf("pod %s runs no process and is being deleted: the %s it holds are freed when its volumes are unmounted", pod.Key(), held)
	case !pod.FromAPI || n.evictor.Status == nil:
		return fmt.Errorf("pod %s runs no process: the %s it holds are freed when its volumes are unmounted, and no API server is there to report the eviction to", pod.Key(), held)
	}
	return nil
}

// unmountPace is how often memory is read that an unmount of volumes is about to
// free.
const unmountPace = 500 * time.Millisecond

// awaitUnmount waits until a pod without processes has given its memory back.
func (v *victim) awaitUnmount(ctx context.Context) error {
	tick := time.NewTicker(unmountPace)
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

// heldIn reads what a pod's cgroup is charged for without page cache.
func memoryHeld(h cgroup.Hierarchy, t kill.Target) (signals.Bytes, error) {
	m, err := cgroup.OpenMemory(h, t.Path)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	u, err := m.Read()
	return signals.Bytes(u.Unreclaimable()), err
}
