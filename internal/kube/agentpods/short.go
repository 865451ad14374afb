package agentpods

import (
	"iter"
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Shorten leaves of a pod's containers the first one that runs, and of its volumes the
// directories in which a kubelet makes them. Whether the pod is protected, its priority,
// its requests and limits as a whole, and whether it runs stay as they are, and all of
// its volumes are measured. The limits of single containers and volumes are left to the
// kubelet. What the pod shares with others does not change.
func Shorten(pod *signals.Pod) {
	running := slices.IndexFunc(pod.Containers, func(c signals.Container) bool { return c.ID != "" })
	if running < 0 {
		pod.Containers = nil
	} else {
		pod.Containers = []signals.Container{pod.Containers[running]}
	}
	pod.Ephemeral = nil
	all := pod.Volumes
	pod.Volumes = directories(func(yield func(string) bool) {
		for i := range all {
			if !yield(all[i].Directory) {
				return
			}
		}
	})
}

// directories are the volumes that stand for those that lie in these directories: one
// for each in which a kubelet makes them.
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
