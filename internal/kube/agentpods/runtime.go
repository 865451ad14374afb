package agentpods

import (
	"cmp"
	"slices"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
)

// FromRuntime makes pods of what the container runtime says: one for each pod
// with a ready sandbox or a running container, in order of namespace and name.
// It serves while no API server has told better, so what is not known counts in
// favour of the pod (docs/internals/decisions/016):
//
//   - A static pod is known by the annotation that its sandbox has from the
//     kubelet, and protected.
//   - Of other pods the priority is not known. Those in kube-system, where
//     critical pods live, count as critical; the rest have the highest priority
//     below that, and so come last among the pods above their requests.
//   - Requests, limits, grace periods, volumes and owners are not known.
//   - What its sandbox has of its own annotations counts as the choices say.
//
// Pods whose labels could name a place outside of their own are left out.
func FromRuntime(sandboxes []cri.Sandbox, containers []cri.Container, choices *Choices) []signals.Pod {
	found := map[string]*signals.Pod{}
	newest := map[string]*cri.Sandbox{}
	for i := range sandboxes {
		s := &sandboxes[i]
		if last := newest[s.UID]; last == nil || last.Attempt < s.Attempt {
			newest[s.UID] = s
		}
	}
	for uid, s := range newest {
		if s.Ready {
			found[uid] = ofSandbox(s, choices)
		}
	}
	for i := range containers {
		c := &containers[i]
		if c.State != cri.Running {
			continue
		}
		pod := found[c.PodUID]
		if pod == nil {
			if pod = ofContainer(c, newest[c.PodUID], choices); pod == nil {
				continue
			}
			found[c.PodUID] = pod
		}
		if containerID.MatchString(c.ID) {
			pod.Containers = append(pod.Containers, signals.Container{Name: c.Name, ID: c.ID})
		}
	}
	return inOrder(found)
}

// inOrder are the pods that can be used, ordered so that the same answers of the
// runtime give the same pods.
func inOrder(found map[string]*signals.Pod) []signals.Pod {
	pods := make([]signals.Pod, 0, len(found))
	for _, pod := range found {
		if usable(pod) == nil {
			slices.SortFunc(pod.Containers, func(a, b signals.Container) int {
				return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
			})
			pods = append(pods, *pod)
		}
	}
	slices.SortFunc(pods, func(a, b signals.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return pods
}

// ofContainer is the pod of a container whose sandbox is not ready, as happens
// when only the sandbox died; nil for a container that is in no pod.
func ofContainer(c *cri.Container, sandbox *cri.Sandbox, choices *Choices) *signals.Pod {
	switch {
	case c.PodUID == "":
		return nil
	case sandbox != nil:
		return ofSandbox(sandbox, choices)
	}
	// Without the sandbox nobody tells a static pod from others.
	return &signals.Pod{UID: c.PodUID, Namespace: c.PodNamespace, Name: c.PodName, Priority: unknownPriority, Protection: signals.Static}
}

// unknownPriority lets every pod whose priority is known be chosen first, as
// long as both are above their requests.
const unknownPriority = signals.CriticalPriority - 1

// systemNamespace is where the pods live without which a node does not work.
const systemNamespace = "kube-system"

func ofSandbox(s *cri.Sandbox, choices *Choices) *signals.Pod {
	pod := &signals.Pod{UID: s.UID, Namespace: s.Namespace, Name: s.Name, Priority: unknownPriority}
	source, told := s.Annotations[SourceAnnotation]
	pod.FromAPI = source == sourceAPI
	switch {
	case told && source != sourceAPI:
		pod.Protection = signals.Static
	case s.Namespace == systemNamespace:
		pod.Protection = signals.Critical
	}
	choices.Apply(pod, s.Annotations)
	return pod
}
