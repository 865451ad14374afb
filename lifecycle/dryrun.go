package lifecycle

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// simulate finishes an action of a dry run without a write. A pod counts as deleted from then
// on; effects on nodes are pending writes of the fleet.
func (c *Controller) simulate(a *core.Action, now time.Time) {
	c.fleet.Finished(a, nil, now)
	switch a.Kind {
	case core.Evict, core.SoftEvict, core.DeleteEvictedPod:
		c.deleted[a.Pod.UID] = a.Pod
		c.fleet.PodGone(a.Pod.UID, now)
	}
}

// deletedInDryRun reports whether a dry run deleted the pod, and stores its latest observation.
func (c *Controller) deletedInDryRun(p *model.Pod) bool {
	if _, is := c.deleted[p.UID]; !is {
		return false
	}
	c.deleted[p.UID] = p
	return true
}

// endDryRun restores the pods that a dry run deleted.
func (c *Controller) endDryRun(now time.Time) {
	for _, p := range c.deleted {
		c.fleet.Pod(p, now)
	}
	clear(c.deleted)
}
