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
		Created:  p.CreationTimestamp.Time,
		Finished: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Deleting: p.DeletionTimestamp != nil,
	}
}

// markEvicted is the condition that a node's agent gives to a pod that it evicts.
const markEvicted = "plimsoll.dev/Evicted"

// Evicted reports whether a pod has failed and bears the mark that the agent of its
// node evicted it, and since when: zero if nobody wrote that down.
func Evicted(p *corev1.Pod) (since time.Time, marked bool) {
	if p.Status.Phase != corev1.PodFailed {
		return time.Time{}, false
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == markEvicted {
			return c.LastTransitionTime.Time, c.Status == corev1.ConditionTrue
		}
	}
	return time.Time{}, false
}
