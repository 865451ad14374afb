package convert

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Pod returns the facts about a pod and its phase. Not included are its tolerations, which many
// pods share, whether it belongs to a DaemonSet or is Ready, and its eviction mark, which may be
// malformed.
func Pod(p *corev1.Pod) model.Pod {
	return model.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName,
		Created:  Latest(p.CreationTimestamp.Time),
		Finished: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Deleting: p.DeletionTimestamp != nil,
	}
}

const (
	// markEvicted is the condition type that agents set on pods they evict.
	markEvicted = "plimsoll.dev/Evicted"
	// reasonEvicted is the status reason that they set as well.
	reasonEvicted = "Evicted"
)

// Evicted reports whether a pod has failed because the agent of its node evicted it, and since
// when; zero if the mark has no time. The mark decides, since a kubelet may overwrite the reason.
// A pod with the mark may have run again and failed by itself. It then has another reason, or
// none and a container that started after the mark.
func Evicted(p *corev1.Pod) (since time.Time, marked bool) {
	if p.Status.Phase != corev1.PodFailed || p.Status.Reason != reasonEvicted && p.Status.Reason != "" {
		return time.Time{}, false
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == markEvicted {
			since = c.LastTransitionTime.Time
			return since, c.Status == corev1.ConditionTrue && (p.Status.Reason != "" || !startedSince(&p.Status, since))
		}
	}
	return time.Time{}, false
}

// startedSince reports whether a container of a pod started at the given time or later. The same
// second counts, since API times have whole seconds.
func startedSince(s *corev1.PodStatus, at time.Time) bool {
	later := func(c *corev1.ContainerState) bool {
		switch {
		case c.Running != nil:
			return !c.Running.StartedAt.Time.Before(at)
		case c.Terminated != nil:
			return !c.Terminated.StartedAt.Time.Before(at)
		}
		return false
	}
	for _, all := range [...][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range all {
			if later(&all[i].State) || later(&all[i].LastTerminationState) {
				return true
			}
		}
	}
	return false
}
