package agentpods

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// What names in pods may look like, as they become parts of paths. The API
// server admits no others; whoever answers in its place may.
var (
	nameForm      = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)
	namespaceForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	containerID   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)
)

// FromAPI is [Convert] for a pod as the API server holds it. It is an error if
// the pod's UID, namespace or name could name a place outside of the pod's own.
//
// A mirror pod has the UID of the static pod that it stands for, by which its
// cgroup and its containers are named. The source of any other pod is the API,
// whatever its annotations say: a kubelet overwrites that one, so that nobody
// protects a pod by writing it.
func FromAPI(pod *corev1.Pod) (signals.Pod, error) {
	converted := Convert(pod)
	converted.FromAPI = true
	if static, mirror := pod.Annotations[MirrorAnnotation]; mirror {
		converted.UID = static
	} else {
		converted.Protection = byPriority(pod)
	}
	if pod.DeletionTimestamp != nil { // deletion has added the grace period
		converted.EndsBy = pod.DeletionTimestamp.UTC()
	}
	return converted, usable(&converted)
}

// IsMirror reports whether the pod stands for a static pod of its node.
func IsMirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[MirrorAnnotation]
	return mirror
}

// ReachesHost reports whether a pod has what pod security standards refuse to pods
// that are not trusted: programs that look after a node need it.
func ReachesHost(spec *corev1.PodSpec) bool {
	return spec.HostPID || spec.HostNetwork || spec.HostIPC ||
		slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }) ||
		slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
			return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
		})
}

// A part of a pod that becomes part of a path.
type part struct {
	what, value string
	form        *regexp.Regexp
}

// usable is an error that names what of a pod can not be used in a path.
func usable(pod *signals.Pod) error {
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

// runningID is the runtime's name of the container that runs under a name, by
// the pod's status; empty if none runs.
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

// idOfRunning is the runtime's name of a container that runs; empty if it does not,
// or its ID can name no cgroup. A status has the runtime before it, as in
// containerd://ID.
func idOfRunning(s *corev1.ContainerStatus) string {
	_, id, found := strings.Cut(s.ContainerID, "://")
	if s.State.Running == nil || !found || !containerID.MatchString(id) {
		return ""
	}
	return id
}
