package agentpods

import (
	corev1 "k8s.io/api/core/v1"
)

// allocated returns the pod with the memory granted by its node in place of the memory requested by
// its spec. They differ while a resize waits, and for good if it is never granted. The kubelet
// ranks by the granted amount, so a larger request alone does not improve the rank. Only memory and
// CPU can be resized; everything else is the spec's. A pod without status, such as a manifest, is
// returned unchanged. Changed parts are copies.
func allocated(pod *corev1.Pod) *corev1.Pod {
	granted := *pod
	granted.Spec.Containers = grantedTo(pod.Spec.Containers, pod.Status.ContainerStatuses)
	granted.Spec.InitContainers = grantedTo(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	granted.Spec.Resources = grantedToPod(pod)
	return &granted
}

// grantedTo returns the containers with the granted memory requests of their statuses.
func grantedTo(containers []corev1.Container, statuses []corev1.ContainerStatus) []corev1.Container {
	if len(statuses) == 0 {
		return containers
	}
	granted := make([]corev1.Container, len(containers))
	for i, c := range containers {
		if requests, reported := grantedRequests(statuses, c.Name); reported {
			c.Resources.Requests = withMemory(c.Resources.Requests, requests)
		}
		granted[i] = c
	}
	return granted
}

// grantedRequests returns the requests granted to a container by its status. reported is false if
// the kubelet cannot resize in place, or has not created the container yet: then the spec applies.
// The status of a container without requests has only resources, without requests in them.
func grantedRequests(statuses []corev1.ContainerStatus, name string) (requests corev1.ResourceList, reported bool) {
	for i := range statuses {
		switch s := &statuses[i]; {
		case s.Name != name:
		case s.AllocatedResources != nil:
			return s.AllocatedResources, true
		case s.Resources != nil:
			return s.Resources.Requests, true
		}
	}
	return nil, false
}

// grantedToPod returns the resources of the pod level. The granted amount in the pod's status
// includes the overhead.
func grantedToPod(pod *corev1.Pod) *corev1.ResourceRequirements {
	if pod.Spec.Resources == nil {
		return nil
	}
	granted, reported := pod.Status.AllocatedResources[corev1.ResourceMemory]
	if _, requested := pod.Spec.Resources.Requests[corev1.ResourceMemory]; !reported || !requested {
		return pod.Spec.Resources
	}
	granted = granted.DeepCopy()
	if overhead, set := pod.Spec.Overhead[corev1.ResourceMemory]; set {
		granted.Sub(overhead)
	}
	if granted.Sign() < 0 { // less than the overhead: implausible
		return pod.Spec.Resources
	}
	own := *pod.Spec.Resources
	own.Requests = withMemory(own.Requests, corev1.ResourceList{corev1.ResourceMemory: granted})
	return &own
}

// withMemory returns a copy of requests with the memory of granted, or without memory if granted
// has none.
func withMemory(requests, granted corev1.ResourceList) corev1.ResourceList {
	changed := make(corev1.ResourceList, len(requests)+1)
	for name, q := range requests {
		if name != corev1.ResourceMemory {
			changed[name] = q
		}
	}
	if memory, set := granted[corev1.ResourceMemory]; set {
		changed[corev1.ResourceMemory] = memory
	}
	return changed
}
