package core

import "time"

// SetPolicy replaces the policy while the fleet works. Signs of life, deadlines since then, tokens,
// queues, the breaker and writes under way stay. A node that missed its heartbeats, and is within
// its new grace period, is suspected no more, unless it is Unknown. NoExecute, TaintEvictions and
// LegacyEvictions must be the same as before: what one of these modes has begun, another cannot end.
func (f *Fleet) SetPolicy(p Policy, now time.Time) {
	f.now = now
	before := f.policy
	f.policy = p
	revived := f.heartbeats.SetPolicy(p.Health, now)
	f.agents.SetPolicy(p.Agents)
	f.checker.SetPolicy(p.Confirmation, now)
	f.zones.SetPolicy(p.Zones)
	if p.EvictedPodTTL != before.EvictedPodTTL {
		f.evictedPods.SetTTL(p.EvictedPodTTL)
		for _, pod := range f.pods {
			f.evictedPods.Pod(pod.object)
		}
	}
	if !f.leading {
		return
	}
	for _, name := range revived {
		if node := f.nodes[name]; node != nil {
			f.endSilence(node)
		}
	}
	if p.UntaintRate == 0 {
		f.recovery.next = time.Time{}
	}
	for _, node := range f.nodes {
		f.touch(node)
	}
}
