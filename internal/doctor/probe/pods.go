package probe

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/doctor"
)

// manifestFiles are the suffixes of files with a pod.
var manifestFiles = []string{".yaml", ".yml", ".json"}

// pods searches the pods' cgroup as the agent does, and processes of pods outside of it.
func (o *NodeOptions) pods(cgroupRoot string) doctor.Fact[doctor.Pods] {
	var found doctor.Pods
	if o.Ours.PodManifests != "" {
		entries, err := os.ReadDir(o.Ours.PodManifests)
		if err != nil {
			found.ManifestsFault = err.Error()
		}
		for _, e := range entries {
			if slices.Contains(manifestFiles, filepath.Ext(e.Name())) {
				found.Manifests++
			}
		}
	}
	h, err := cgroup.Detect(o.CgroupRoot)
	if err != nil {
		return doctor.Fact[doctor.Pods]{Value: found, Cause: err.Error()}
	}
	o.search(h, cgroupRoot, &found)
	return doctor.Known(found)
}

// search searches the pods' cgroup in a hierarchy.
func (o *NodeOptions) search(h cgroup.Hierarchy, cgroupRoot string, found *doctor.Pods) {
	places := cgroup.NewPodPlaces(h, o.Ours.NodeCgroup)
	places.Under(cgroupRoot)
	found.Places = places.Places()
	if tree, err := places.Open(); err == nil {
		found.Root, found.Populated = tree.Root(), tree.Populated()
	}
	if !found.Populated {
		found.Elsewhere = o.podElsewhere(found.Root)
	}
}

// podElsewhere returns the cgroup of a pod that has a process, below the node's cgroup and outside
// of root; empty if there is none. A path seen from within a cgroup namespace may lack its upper
// part.
func (o *NodeOptions) podElsewhere(root string) string {
	entries, err := os.ReadDir(o.ProcRoot)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(o.ProcRoot, e.Name(), "cgroup"))
		if err != nil {
			continue // it has ended
		}
		paths, err := cgroup.ParseCgroupFile(text)
		if err != nil {
			continue
		}
		for _, controller := range []string{"memory", ""} {
			_, pod := cgroup.PodAbove(paths[controller])
			if pod != "" && cgroup.Within(o.Ours.NodeCgroup, pod) && (root == "" || !cgroup.Within(root, pod)) {
				return pod
			}
		}
	}
	return ""
}
