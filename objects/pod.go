package objects

import (
	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/facts"
)

// Pod is what a pod is, and how far it has come. Its tolerations are not in it,
// which many pods share, nor whether it is a DaemonSet's or Ready.
func Pod(p *corev1.Pod) facts.Pod {
	return facts.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName,
		Created:  p.CreationTimestamp.Time,
		Finished: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Deleting: p.DeletionTimestamp != nil,
	}
}
