package objects

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/facts"
)

// Pod is what a pod is, and how far it has come. Its tolerations are not in it,
// which many pods share, nor whether it is a DaemonSet's or Ready, nor its mark of
// an eviction, which may be ill formed.
func Pod(p *corev1.Pod) facts.Pod {
	return facts.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName,
		Created:  Latest(p.CreationTimestamp.Time),
		Finished: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Deleting: p.DeletionTimestamp != nil,
	}
}

const (
	// markEvicted is the condition that a node's agent gives to a pod that it evicts.
	markEvicted = "plimsoll.dev/Evicted"
	// reasonEvicted is the status reason that it gives it besides.
	reasonEvicted = "Evicted"
)

// Evicted reports whether a pod has failed because the agent of its node evicted it,
// and since when: zero if nobody wrote that down. The mark alone does not say so: a
// pod whose kubelet had it run again keeps it, and may have failed by itself since.
func Evicted(p *corev1.Pod) (since time.Time, marked bool) {
	if p.Status.Phase != corev1.PodFailed || p.Status.Reason != reasonEvicted {
		return time.Time{}, false
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == markEvicted {
			return c.LastTransitionTime.Time, c.Status == corev1.ConditionTrue
		}
	}
	return time.Time{}, false
}
