package agentpods

import (
	"iter"
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Shorten reduces a pod's containers to the first running one, and its volumes to the kubelet's
// parent directories of them and the first hostPath. The protection, the priority, the total requests
// and limits, and whether the pod runs stay the same, and all of its own volumes are measured. The
// kubelet enforces the limits of single containers and volumes. Data that the pod shares with others
// does not change.
func Shorten(pod *signals.Pod) {
	running := slices.IndexFunc(pod.Containers, func(c signals.Container) bool { return c.ID != "" })
	if running < 0 {
		pod.Containers = nil
	} else {
		pod.Containers = []signals.Container{pod.Containers[running]}
	}
	pod.Ephemeral = nil
	pod.Volumes = directories(slices.Values(pod.Volumes))
}

// directories returns one volume for each parent directory in which a kubelet creates those of the
// given volumes, and the first hostPath.
func directories(of iter.Seq[signals.Volume]) (parents []signals.Volume) {
	onHost := false
	for v := range of {
		if hostPath := v.Local && v.Directory == ""; hostPath && !onHost {
			if onHost = true; v.HostPath != "" {
				parents = append(parents, v)
			}
		}
		parent, _, _ := strings.Cut(v.Directory, "/")
		known := func(v signals.Volume) bool { return v.Directory == parent }
		if parent != "" && !slices.ContainsFunc(parents, known) {
			parent = strings.Clone(parent) // without the volume's name behind it
			parents = append(parents, signals.Volume{Name: strings.ReplaceAll(parent, "~", "-"), Local: true, Directory: parent})
		}
	}
	return parents
}
