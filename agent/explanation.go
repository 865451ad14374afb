package agent

import (
	"fmt"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// resourceTexts name resources for owners of pods.
var resourceTexts = map[signals.Resource]string{
	signals.Memory: "memory", signals.EphemeralStorage: "disk space", signals.InodeCount: "inodes", signals.PIDCount: "process IDs",
}

// explanation returns one sentence about the eviction of a ranked pod for the pod's owner: what the node was low
// on, what the pod used of it against its request, and the pod's place. It has no name of any pod: an
// owner may not be allowed to see those of other namespaces. So its length is bounded.
func (o *Outcome) explanation(pod *signals.Pod) string {
	i := 0
	for i < len(o.Ranking) && o.Ranking[i].Pod != pod {
		i++
	}
	if i == len(o.Ranking) {
		return ""
	}
	k, resource := &o.Ranking[i].Key, resourceTexts[o.Verdict.Target.Signal.Definition().Resource]
	if o.endedDeleted {
		return fmt.Sprintf("Plimsoll ended this pod, which was being deleted, because the node was low on %s: the pod %s, and its end frees most of the pods under deletion that could be ended.",
			resource, usageText(k, resource))
	}
	passed := ""
	if i > 0 {
		passed = ", behind pods that were passed over"
	}
	return fmt.Sprintf("Plimsoll evicted this pod because the node was low on %s: the pod %s, has priority %d, and was number %d of %d in the order of eviction%s.",
		resource, usageText(k, resource), k.Priority, i+1, len(o.Ranking), passed)
}

// usageText describes what a pod used of a resource, and its request.
func usageText(k *ranking.Key, resource string) string {
	used := "used "
	if k.Incomplete != "" {
		used += "at least "
	}
	switch {
	case k.NoStats:
		return "could not be measured"
	case k.Order == ranking.ByInodes:
		return used + signals.Readable(k.Usage, signals.UnitInodes)
	case k.Order == ranking.ByPIDs:
		return "ran " + signals.Readable(k.Usage, signals.UnitPIDs)
	}
	used += signals.Readable(k.Usage, signals.UnitBytes) + " of " + resource
	if k.Request == 0 {
		return used + " without a request"
	}
	return used + " against a request of " + signals.Readable(k.Request, signals.UnitBytes)
}
