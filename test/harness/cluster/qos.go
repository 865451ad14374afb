package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resources returns container resources with a memory request and limit in bytes; 0: not set.
func Resources(request, limit int64) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	if request > 0 {
		r.Requests[corev1.ResourceMemory] = *resource.NewQuantity(request, resource.BinarySI)
	}
	if limit > 0 {
		r.Limits[corev1.ResourceMemory] = *resource.NewQuantity(limit, resource.BinarySI)
	}
	return r
}

// qosDirectory maps a QoS class to the directory of its pods below kubepods.
var qosDirectory = map[corev1.PodQOSClass]string{
	corev1.PodQOSGuaranteed: "", corev1.PodQOSBurstable: "burstable", corev1.PodQOSBestEffort: "besteffort",
}

// qos returns the pod's class from its status, or computes it as the API server would.
func qos(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	requested, all := false, true
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit, request := c.Resources.Limits[name], c.Resources.Requests[name]
			requested = requested || !limit.IsZero() || !request.IsZero()
			all = all && !limit.IsZero() && (request.IsZero() || request.Cmp(limit) == 0)
		}
	}
	switch {
	case !requested:
		return corev1.PodQOSBestEffort
	case all:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
