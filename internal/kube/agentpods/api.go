package agentpods

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Valid forms of names in pods, which become parts of paths. The API server admits no others, but
// an impostor of it may send any.
var (
	nameForm      = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)
	namespaceForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	containerID   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)
)

// FromAPI is [Convert] for a pod of the API server. Returns an error if the pod's UID, namespace or
// name could lead to a path outside of the pod's own.
//
// A mirror pod has the UID of its static pod, which names the cgroup and the containers. The source
// of any other pod is the API, whatever its annotations contain: a kubelet overwrites that
// annotation, so it protects no pod.
func FromAPI(pod *corev1.Pod) (signals.Pod, error) {
	converted := Convert(pod)
	converted.FromAPI = true
	converted.UID = UID(pod)
	if !IsMirror(pod) {
		converted.Protection = byPriority(pod)
	}
	if pod.DeletionTimestamp != nil { // it includes the grace period
		converted.EndsBy = pod.DeletionTimestamp.UTC()
	}
	return converted, Usable(&converted)
}

// UID returns the UID under which a pod runs on its node and is recorded. For a mirror pod it is that of the static
// pod, an annotation of any length that the author of the object has chosen.
func UID(pod *corev1.Pod) string {
	if static, mirror := pod.Annotations[MirrorAnnotation]; mirror {
		return static
	}
	return string(pod.UID)
}

// IsMirror reports whether the pod represents a static pod of its node.
func IsMirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[MirrorAnnotation]
	return mirror
}

// ReachesHost reports whether a pod has privileges that pod security standards deny to untrusted
// pods, and that programs for the maintenance of nodes need.
func ReachesHost(spec *corev1.PodSpec) bool {
	return spec.HostPID || spec.HostNetwork || spec.HostIPC ||
		slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }) ||
		slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
			return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
		})
}

// part is a part of a pod that becomes part of a path.
type part struct {
	what, value string
	form        *regexp.Regexp
}

// Usable returns an error that names the first invalid part of a path.
func Usable(pod *signals.Pod) error {
	parts := []part{{"UID", pod.UID, uidForm}, {"namespace", pod.Namespace, namespaceForm}, {"name", pod.Name, nameForm}}
	for i := range pod.Containers {
		parts = append(parts, part{"container's name", pod.Containers[i].Name, nameForm})
	}
	for i := range pod.Volumes {
		parts = append(parts, part{"volume's name", pod.Volumes[i].Name, nameForm})
	}
	for _, part := range parts {
		if !part.form.MatchString(part.value) || strings.Contains(part.value, "..") {
			return fmt.Errorf("pod %.320q (UID %.130q): its %s %.260q is none of Kubernetes, which has the form %s", pod.Key(), pod.UID, part.what, part.value, part.form)
		}
	}
	return nil
}

// runningID returns the runtime's ID of the running container of a name, by the pod's status; empty
// if none runs.
func runningID(statuses []corev1.ContainerStatus, name string) string {
	for i := range statuses {
		if s := &statuses[i]; s.Name == name {
			if id := idOfRunning(s); id != "" {
				return id
			}
		}
	}
	return ""
}

// idOfRunning returns the runtime's ID of a running container; empty if it does not run, or the ID
// cannot name a cgroup. The status has the form containerd://ID.
func idOfRunning(s *corev1.ContainerStatus) string {
	_, id, found := strings.Cut(s.ContainerID, "://")
	if s.State.Running == nil || !found || !IsContainerID(id) {
		return ""
	}
	return id
}

// IsContainerID reports whether a container ID may be part of a path.
func IsContainerID(id string) bool { return containerID.MatchString(id) }
