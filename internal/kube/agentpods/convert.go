package agentpods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Annotations by which the kubelet marks static and mirror pods. The value of MirrorAnnotation is
// the UID under which the static pod runs.
const (
	SourceAnnotation = "kubernetes.io/config.source"
	MirrorAnnotation = "kubernetes.io/config.mirror"
	SourceAPI        = "api"
)

// Bounds of the converted parts of one pod: an object of the API may have tens of thousands of
// each. Requests and limits include all containers.
const (
	maxContainers = 250
	// MaxVolumes is the number of volumes of a pod up to which each is converted separately.
	MaxVolumes = 250
	// maxHostPath is the maximum length in bytes of the path of a hostPath.
	maxHostPath = 1 << 10
)

// Convert returns the facts about a pod that decisions need. Requests are those granted by the
// node, if the pod's status has them.
func Convert(pod *corev1.Pod) signals.Pod {
	pod = allocated(pod)
	converted := signals.Pod{
		UID:                    string(pod.UID),
		Namespace:              pod.Namespace,
		Name:                   pod.Name,
		Protection:             protection(pod),
		TerminationGracePeriod: pod.Spec.TerminationGracePeriodSeconds,
		MemoryRequest:          request(pod, corev1.ResourceMemory),
		StorageRequest:         request(pod, corev1.ResourceEphemeralStorage),
		PodLevelMemoryRequest:  podLevelMemory(pod),
	}
	if converted.Namespace == "" {
		converted.Namespace = corev1.NamespaceDefault
	}
	converted.Owner = ownerOf(pod, converted.Namespace)
	if pod.Spec.Priority != nil {
		converted.Priority = *pod.Spec.Priority
	}
	limits := podresource.PodLimits(pod, podresource.PodResourcesOptions{})
	if limit, set := limits[corev1.ResourceEphemeralStorage]; set {
		q := quantity(limit)
		converted.StorageLimit = &q
	}
	converted.Containers = containers(pod)
	for i := range pod.Status.EphemeralContainerStatuses {
		if id := idOfRunning(&pod.Status.EphemeralContainerStatuses[i]); id != "" && len(converted.Ephemeral) < maxContainers {
			converted.Ephemeral = append(converted.Ephemeral, id)
		}
	}
	converted.Volumes, converted.HostPaths = volumes(pod.Spec.Volumes), hostPaths(pod.Spec.Volumes)
	return converted
}

// protection depends on annotations and the priority, never on the name of the priority class:
// admission has turned a class into a number.
func protection(pod *corev1.Pod) signals.Protection {
	source, hasSource := pod.Annotations[SourceAnnotation]
	_, mirror := pod.Annotations[MirrorAnnotation]
	switch {
	case hasSource && source != SourceAPI:
		return signals.Static
	case mirror:
		return signals.Mirror
	}
	return byPriority(pod)
}

func byPriority(pod *corev1.Pod) signals.Protection {
	if pod.Spec.Priority != nil && *pod.Spec.Priority >= signals.CriticalPriority {
		return signals.Critical
	}
	return signals.Unprotected
}

// request returns the effective request of the pod. Pod-level resources replace those of the
// containers for every resource. Overhead is added only to an existing request.
func request(pod *corev1.Pod, name corev1.ResourceName) signals.Quantity {
	total := podresource.PodRequests(pod, podresource.PodResourcesOptions{
		SkipContainerLevelResources: podresource.IsPodLevelResourcesSet(pod),
		ExcludeOverhead:             true,
	})[name]
	if overhead, set := pod.Spec.Overhead[name]; set && !total.IsZero() {
		total = total.DeepCopy()
		total.Add(overhead)
	}
	return quantity(total)
}

func podLevelMemory(pod *corev1.Pod) *signals.Quantity {
	if pod.Spec.Resources == nil {
		return nil
	}
	memory, set := pod.Spec.Resources.Requests[corev1.ResourceMemory]
	if !set {
		return nil
	}
	q := quantity(memory)
	return &q
}

// containers returns those of the spec, then the init containers.
func containers(pod *corev1.Pod) []signals.Container {
	app, inits := pod.Spec.Containers, pod.Spec.InitContainers
	app = app[:min(len(app), maxContainers)]
	inits = inits[:min(len(inits), maxContainers-len(app))]
	if len(app)+len(inits) == 0 {
		return nil
	}
	converted := make([]signals.Container, 0, len(app)+len(inits))
	for i := range app {
		converted = append(converted, container(&app[i], false, pod.Status.ContainerStatuses))
	}
	for i := range inits {
		converted = append(converted, container(&inits[i], true, pod.Status.InitContainerStatuses))
	}
	return converted
}

func container(c *corev1.Container, init bool, statuses []corev1.ContainerStatus) signals.Container {
	return signals.Container{
		Name:           c.Name,
		ID:             runningID(statuses, c.Name),
		Init:           init,
		MemoryRequest:  quantity(c.Resources.Requests[corev1.ResourceMemory]),
		StorageRequest: quantity(c.Resources.Requests[corev1.ResourceEphemeralStorage]),
		StorageLimit:   quantity(c.Resources.Limits[corev1.ResourceEphemeralStorage]),
	}
}

// volume returns whether a volume is on the node's own filesystem and counts as the pod's: secrets,
// projected volumes and emptyDirs in memory do not. A kubelet creates a directory for each except
// hostPath, which may be anywhere.
func volume(v *corev1.Volume) signals.Volume {
	converted := signals.Volume{Name: v.Name}
	switch {
	case v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault:
		converted.Local, converted.Directory = true, "kubernetes.io~empty-dir/"+v.Name
	case v.ConfigMap != nil:
		converted.Local, converted.Directory = true, "kubernetes.io~configmap/"+v.Name
	case v.GitRepo != nil:
		converted.Local, converted.Directory = true, "kubernetes.io~git-repo/"+v.Name
	case v.HostPath != nil:
		converted.Local = true
	}
	if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil {
		converted.SizeLimit = quantity(*v.EmptyDir.SizeLimit)
	}
	return converted
}

// volumes returns those of the spec. For more than [MaxVolumes] it returns the kubelet's parent
// directories of them, so that no volume remains unmeasured. The kubelet then enforces their size
// limits.
func volumes(spec []corev1.Volume) []signals.Volume {
	if len(spec) == 0 {
		return nil
	}
	if len(spec) > MaxVolumes {
		return directories(func(yield func(string) bool) {
			for i := range spec {
				if !yield(volume(&spec[i]).Directory) {
					return
				}
			}
		})
	}
	converted := make([]signals.Volume, len(spec))
	for i := range spec {
		converted[i] = volume(&spec[i])
	}
	return converted
}

// hostPaths returns the paths of hostPaths. For more than [MaxVolumes] volumes it returns the first one.
func hostPaths(spec []corev1.Volume) (paths []string) {
	for i := range spec {
		on := spec[i].HostPath
		if on == nil {
			continue
		}
		at := on.Path
		if len(at) > maxHostPath {
			at = ""
		}
		if paths = append(paths, at); len(spec) > MaxVolumes {
			break
		}
	}
	return paths
}

// quantity stores the canonical text, for messages, and the value, rounded up to a whole number.
func quantity(q resource.Quantity) signals.Quantity {
	return signals.Quantity{Value: signals.Amount(strictyaml.Whole(q)), Text: q.String()}
}
