package agentpods

import (
	"iter"
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Shorten reduces a pod's containers to the first running one, its volumes to the kubelet's parent
// directories of them, and its hostPaths to the first one. The protection, the priority, the total requests and limits, and
// whether the pod runs stay the same, and all of its volumes are measured. The kubelet enforces the
// limits of single containers and volumes. Data that the pod shares with others does not change.
func Shorten(pod *signals.Pod) {
	running := slices.IndexFunc(pod.Containers, func(c signals.Container) bool { return c.ID != "" })
	if running < 0 {
		pod.Containers = nil
	} else {
		pod.Containers = []signals.Container{pod.Containers[running]}
	}
	pod.Ephemeral, pod.HostPaths = nil, slices.Clone(pod.HostPaths[:min(len(pod.HostPaths), 1)])
	all := pod.Volumes
	pod.Volumes = directories(func(yield func(string) bool) {
		for i := range all {
			if !yield(all[i].Directory) {
				return
			}
		}
	})
}

// directories returns one volume for each parent directory in which a kubelet creates the given
// directories.
func directories(of iter.Seq[string]) (parents []signals.Volume) {
	for directory := range of {
		parent, _, _ := strings.Cut(directory, "/")
		known := func(v signals.Volume) bool { return v.Directory == parent }
		if parent != "" && !slices.ContainsFunc(parents, known) {
			parent = strings.Clone(parent) // without the volume's name behind it
			parents = append(parents, signals.Volume{Name: strings.ReplaceAll(parent, "~", "-"), Local: true, Directory: parent})
		}
	}
	return parents
}
