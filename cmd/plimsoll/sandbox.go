package main

import (
	"path"
	"slices"

	"plimsoll.dev/plimsoll/cgroup"
	"plimsoll.dev/plimsoll/signal"
)

// mostSandboxes bounds what is remembered of pods that were to be evicted.
const mostSandboxes = 1000

// sandboxes are the directories of pods' sandboxes, by the pods' UIDs, as far as
// they were told apart once: later, containers that have ended have none.
type sandboxes map[string]string

// of is the pod's sandbox, empty if it was never known.
func (s sandboxes) of(pod *signal.Pod, directories []cgroup.Container) string {
	found := sandboxOf(pod, directories)
	if found == "" {
		return s[pod.UID]
	}
	if len(s) >= mostSandboxes {
		clear(s)
	}
	s[pod.UID] = found
	return found
}

// spared are the directories of a pod's that a kill leaves alone: the sandbox, and
// those of processes by which a runtime watches containers.
func (s sandboxes) spared(pod *signal.Pod, directories []cgroup.Container) (names []string) {
	containers := slices.DeleteFunc(slices.Clone(directories), cgroup.Container.Watches)
	if sandbox := s.of(pod, containers); sandbox != "" {
		names = append(names, sandbox)
	}
	for _, d := range directories {
		if d.Watches() {
			names = append(names, path.Base(d.Path))
		}
	}
	return names
}

// sandboxOf is the one directory of a pod's beside those of its containers, by
// the runtime's IDs. It is empty if that can not be told: unless every container
// is found, the one beside them may be one that was started again.
func sandboxOf(pod *signal.Pod, directories []cgroup.Container) string {
	for _, c := range pod.Containers {
		found := slices.ContainsFunc(directories, func(d cgroup.Container) bool { return d.Name == c.ID })
		if !found && !c.Init {
			return ""
		}
	}
	others := slices.DeleteFunc(slices.Clone(directories), func(d cgroup.Container) bool {
		return slices.Contains(pod.Ephemeral, d.Name) || slices.ContainsFunc(pod.Containers, func(c signal.Container) bool { return c.ID == d.Name })
	})
	if len(others) != 1 {
		return ""
	}
	return path.Base(others[0].Path)
}
