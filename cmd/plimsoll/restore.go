package main

import (
	"errors"

	"plimsoll.dev/plimsoll/cgroup"
	"plimsoll.dev/plimsoll/kill"
)

// restore gives pods their pids.max back that an agent before this one was ending when
// it was killed itself.
func (n *node) restore() {
	if n.hierarchy.Version != cgroup.V1 {
		return
	}
	tree, err := n.places.Open()
	if err != nil {
		return // without pods there is nothing to restore
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
