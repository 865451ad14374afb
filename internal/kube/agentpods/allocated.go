package agentpods

import (
	corev1 "k8s.io/api/core/v1"
)

// allocated is the pod with the memory that its node has granted in place of
// the memory that its spec asks for. They differ while a resize waits to be
// granted, and for good if it never is: the kubelet ranks by what is granted,
// and nobody gets out of the line by asking for more. Memory and CPU are all
// that can be resized; everything else is the spec's. A pod without status, such
// as a manifest, is returned as it is. Its parts that differ are copies.
func allocated(pod *corev1.Pod) *corev1.Pod {
	granted := *pod
	granted.Spec.Containers = grantedTo(pod.Spec.Containers, pod.Status.ContainerStatuses)
	granted.Spec.InitContainers = grantedTo(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	granted.Spec.Resources = grantedToPod(pod)
	return &granted
}

// grantedTo are the containers with the memory requests that their statuses
// state as granted.
func grantedTo(containers []corev1.Container, statuses []corev1.ContainerStatus) []corev1.Container {
	if len(statuses) == 0 {
		return containers
	}
	granted := make([]corev1.Container, len(containers))
	for i, c := range containers {
		if requests, told := grantedRequests(statuses, c.Name); told {
			c.Resources.Requests = withMemory(c.Resources.Requests, requests)
		}
		granted[i] = c
	}
	return granted
}

// grantedRequests are what a status states as granted to a container; told is
// false where the kubelet can not resize in place, or has not made the container
// yet: then the spec is all there is. A container that requests nothing has only
// resources, without requests in them.
func grantedRequests(statuses []corev1.ContainerStatus, name string) (requests corev1.ResourceList, told bool) {
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

// grantedToPod are the resources of the pod's own level. What the status states
// as granted to the pod contains the overhead.
func grantedToPod(pod *corev1.Pod) *corev1.ResourceRequirements {
	if pod.Spec.Resources == nil {
		return nil
	}
	granted, told := pod.Status.AllocatedResources[corev1.ResourceMemory]
	if _, requested := pod.Spec.Resources.Requests[corev1.ResourceMemory]; !told || !requested {
		return pod.Spec.Resources
	}
	granted = granted.DeepCopy()
	if overhead, set := pod.Spec.Overhead[corev1.ResourceMemory]; set {
		granted.Sub(overhead)
	}
	if granted.Sign() < 0 { // less than its overhead was granted to nobody
		return pod.Spec.Resources
	}
	own := *pod.Spec.Resources
	own.Requests = withMemory(own.Requests, corev1.ResourceList{corev1.ResourceMemory: granted})
	return &own
}

// withMemory is a copy of requests in which memory is what granted says: none,
// if granted has none.
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
