package runtimepods

import (
	"cmp"
	"slices"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
)

// Convert makes pods from the data of the container runtime: one for each pod with a ready
// sandbox or a running container, in order of namespace and name. It is used until the API server
// responds. Unknown facts favour the pod (docs/internals/decisions/016):
//
//   - A static pod is recognised by the kubelet's annotation of its sandbox, and protected.
//   - The priority of other pods is not known. Those in kube-system, the namespace of critical
//     pods, count as critical. The rest have the highest priority below that, and are last among
//     the pods above their requests.
//   - Requests, limits, grace periods, volumes and owners are not known.
//   - The annotations of the sandbox count as far as the choices permit.
//
// Pods with labels that could lead to a path outside of their own are left out.
func Convert(sandboxes []cri.Sandbox, containers []cri.Container, choices *agentpods.Choices) []signals.Pod {
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
		if agentpods.IsContainerID(c.ID) {
			pod.Containers = append(pod.Containers, signals.Container{Name: c.Name, ID: c.ID})
		}
	}
	return inOrder(found)
}

// inOrder returns the usable pods in an order that depends only on the data of the runtime.
func inOrder(found map[string]*signals.Pod) []signals.Pod {
	pods := make([]signals.Pod, 0, len(found))
	for _, pod := range found {
		if agentpods.Usable(pod) == nil {
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

// ofContainer returns the pod of a container without a ready sandbox, as after the death of only
// the sandbox. It returns nil for a container outside of pods.
func ofContainer(c *cri.Container, sandbox *cri.Sandbox, choices *agentpods.Choices) *signals.Pod {
	switch {
	case c.PodUID == "":
		return nil
	case sandbox != nil:
		return ofSandbox(sandbox, choices)
	}
	// Without the sandbox a static pod cannot be distinguished from others.
	return &signals.Pod{UID: c.PodUID, Namespace: c.PodNamespace, Name: c.PodName, Priority: unknownPriority, Protection: signals.Static}
}

// unknownPriority ranks the pod behind every pod with a known priority, if both are above their
// requests.
const unknownPriority = signals.CriticalPriority - 1

// systemNamespace is the namespace of the pods that a node needs to work.
const systemNamespace = "kube-system"

func ofSandbox(s *cri.Sandbox, choices *agentpods.Choices) *signals.Pod {
	pod := &signals.Pod{UID: s.UID, Namespace: s.Namespace, Name: s.Name, Priority: unknownPriority}
	source, known := s.Annotations[agentpods.SourceAnnotation]
	pod.FromAPI = source == agentpods.SourceAPI
	switch {
	case known && source != agentpods.SourceAPI:
		pod.Protection = signals.Static
	case s.Namespace == systemNamespace:
		pod.Protection = signals.Critical
	}
	choices.Apply(pod, s.Annotations)
	return pod
}
