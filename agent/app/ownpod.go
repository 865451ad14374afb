package app

import (
	"os"
	"strings"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

const (
	// podUIDVariable is the environment variable with the UID of the agent's own pod.
	podUIDVariable = "POD_UID"
	// ownCgroups lists the cgroups of this process.
	ownCgroups = "/proc/self/cgroup"
)

// ownPod returns the UID of the pod in which the agent runs: the given one, or the
// one that the process's cgroups name; empty if there is neither. In a cgroup
// namespace of its own a process does not see its pod's name.
func ownPod(given, cgroups string) string {
	if given = strings.TrimSpace(given); given != "" {
		return given
	}
	text, err := os.ReadFile(cgroups)
	if err != nil {
		return ""
	}
	paths, err := cgroup.ParseCgroupFile(text)
	if err != nil {
		return ""
	}
	for _, controller := range []string{"memory", ""} {
		if uid, _ := cgroup.PodAbove(paths[controller]); uid != "" {
			return uid
		}
	}
	return ""
}
