package signals

import "time"

// Holdings is the memory that pods held at one time. Held memory is the usage without page cache of
// files on disk, which the kernel reclaims before an OOM kill.
type Holdings struct {
	At time.Time
	// Complete reports whether every pod with a cgroup is listed. A missing pod then held nothing.
	Complete bool
	// Total is the memory held in the cgroup Within and below it. Within is / for the machine, and
	// empty if no total was read.
	Within string
	Total  Measured[Bytes]
	Doubt  Bytes // by which each amount may be wrong: the kernel updates its counters late
	Pods   []PodHoldings
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

// Pod returns the holdings of a pod, nil if it is not listed.
func (h *Holdings) Pod(uid string) *PodHoldings {
	for i := range h.Pods {
		if h.Pods[i].UID == uid {
			return &h.Pods[i]
		}
	}
	return nil
}
