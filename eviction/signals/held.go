package signals

import "time"

// Holdings is the memory that pods held at one time. Held memory is the usage without page cache of
// files on disk, which the kernel reclaims before an OOM kill.
type Holdings struct {
	At time.Time // the beginning or the end of the reading, which lasts at most a tenth of a second
	// Complete reports whether every pod with a cgroup is listed. A missing pod then held nothing.
	Complete bool
	// Totals are the amounts held in whole parts of the node: in the node itself, by all pods, and by
	// those of each QoS class.
	Totals []CgroupHoldings
	Doubt  Bytes // by which each amount may be wrong: the kernel updates its counters late
	Pods   []PodHoldings
}

// CgroupHoldings is the memory held in a cgroup and below it. The path / stands for the machine.
type CgroupHoldings struct {
	Path string
	Held Measured[Bytes]
}

// PodHoldings is the memory held by one pod.
type PodHoldings struct {
	UID  string
	Path string // of its cgroup, relative to the mount
	Held Measured[Bytes]
	// Containers are the cgroups directly below the pod's; nil if they were not read.
	Containers []ContainerHoldings
}

// ContainerHoldings is the memory held by one container, by the name of its cgroup: the runtime's ID.
type ContainerHoldings struct {
	Name string
	Held Measured[Bytes]
}

// Total returns the amount held in a cgroup, unknown if it was not read.
func (h *Holdings) Total(path string) Measured[Bytes] {
	for i := range h.Totals {
		if h.Totals[i].Path == path {
			return h.Totals[i].Held
		}
	}
	return Measured[Bytes]{}
}
