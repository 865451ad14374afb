package core_test

import (
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// addEvictedPods adds evicted pods to a chaos. They are marked by wrong clocks, lose their
// marks, are deleted by others, and are replaced.
func (c *chaos) addEvictedPods(t chaosConfig) {
	for i := range 30 {
		c.at(c.moment(t), func() {
			p := c.anyPod()
			if p == nil {
				return
			}
			switch marked := c.now.Add(time.Duration(c.r.IntN(400)-300) * second); c.r.IntN(8) {
			case 0, 1, 2, 3, 4:
				c.changePod(p.UID, 0, func(p *model.Pod) { p.Finished, p.Ready, p.Evicted = true, false, &marked })
			case 5:
				c.changePod(p.UID, 0, func(p *model.Pod) { p.Evicted = nil })
			case 6:
				c.changePod(p.UID, 0, func(p *model.Pod) { p.Deleting = true })
				c.at(c.now.Sub(start)+20*second, func() { c.removePod(p.UID, 0) })
			case 7:
				c.removePod(p.UID, 0)
				c.podLike(model.Pod{Name: p.Name, UID: fmt.Sprint(p.Name, "-", i), Node: p.Node})
			}
		})
	}
	for range 3 {
		c.at(c.moment(t), func() { c.fleet.Unreachable(c.now) })
	}
}

// anyPod returns a random existing pod; nil without pods.
func (c *chaos) anyPod() *model.Pod {
	for i := range c.lastPod {
		p := c.pods[fmt.Sprint("p", 1+(i+c.r.IntN(c.lastPod))%c.lastPod)]
		if p != nil {
			return p
		}
	}
	return nil
}

// deletable reports whether a pod may be deleted because its node's agent evicted it.
func (c *chaos) deletable(p *model.Pod) bool {
	return p.Finished && p.Evicted != nil && !p.Deleting &&
		!c.now.Before(p.Evicted.Add(c.policy.EvictedPodTTL)) && !c.now.Before(p.Created.Add(c.policy.EvictedPodTTL))
}

func TestDeleteEvictedPod_OnlyMarkedPodsAfterTTL(t *testing.T) {
	policy := taintMode()
	policy.EvictedPodTTL = 100 * second
	deleted := 0
	inRandomClusters(t, []core.Policy{policy}, all, func(c *chaos) {
		c.addEvictedPods(all)
		c.check = func(a *core.Action) {
			if a.Kind == core.DeleteEvictedPod && !c.deletable(a.Pod) {
				c.errorf("%s was deleted, but must stay: %+v", a.Pod.UID, a.Pod)
			}
		}
		gone := map[string]bool{}
		c.applied = func(a *core.Action) {
			if a.Kind != core.DeleteEvictedPod || c.pods[a.Pod.UID] == nil {
				return
			}
			if deleted++; gone[a.Pod.UID] {
				c.errorf("%s was deleted twice", a.Pod.UID)
			}
			if gone[a.Pod.UID] = true; c.fleet.Obsolete(a, c.now) {
				c.errorf("%s was deleted, but the action was obsolete", a.Pod.UID)
			}
		}
		c.beforeAdvance = func(_, to time.Time) { c.expectNoEvictedPodLeft(to) }
	})
	if deleted < clusters {
		t.Errorf("got %d deleted pods in %d clusters, want at least one per cluster", deleted, clusters)
	}
}

// expectNoEvictedPodLeft checks that no evicted pod exists for much longer than its TTL: a
// failed delete is retried until it succeeds.
func (c *chaos) expectNoEvictedPodLeft(until time.Time) {
	const margin = 8 * minute // failures, and outages
	for uid, p := range c.pods {
		if p.Evicted != nil && !p.Deleting && until.After(p.Evicted.Add(c.policy.EvictedPodTTL+margin)) && until.After(p.Created.Add(c.policy.EvictedPodTTL+margin)) {
			c.errorf("%s was not deleted", uid)
		}
	}
}
