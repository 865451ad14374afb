package app

import (
	"errors"

	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/kill"
)

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
