package signals

import "time"

// A Pod is what decisions need to know about a pod, free of Kubernetes types.
// It does not change while the pod lives, except by an in-place resize.
type Pod struct {
	UID       string // names the pod's cgroup
	Namespace string
	Name      string

	Priority   int32
	Protection Protection
	// Last and EvictionPriority are what the pod says of its own turn, as far as
	// the operator lets it: after all others, and among pods of equal Priority
	// the lower one first (-1000 to 1000).
	Last             bool
	EvictionPriority int16
	// Owner names who makes a new pod when this one ends: its controller's UID, or
	// namespace/name where that is the node or nobody. Empty if it is not known.
	Owner string
	// TerminationGracePeriod in seconds; nil where the pod states none.
	TerminationGracePeriod *int64

	MemoryRequest  Quantity // effective: init containers, overhead and pod level included
	StorageRequest Quantity // ephemeral-storage, likewise
	// PodLevelMemoryRequest is spec.resources.requests.memory, nil if not set.
	PodLevelMemoryRequest *Quantity
	// StorageLimit is the effective ephemeral-storage limit, nil if no
	// container has one.
	StorageLimit *Quantity

	Containers []Container // spec.containers, then spec.initContainers
	// Ephemeral are the runtime's names of the ephemeral containers that run, which
	// ask for nothing and have no limits.
	Ephemeral []string
	Volumes   []Volume

	// EndsBy is when a pod that was deleted has used up its grace period; zero
	// for one that goes on running.
	EndsBy time.Time
	// FromAPI reports whether the pod came from the API server, where its end
	// has to be told; false for a manifest in a file.
	FromAPI bool
}

// Key is "namespace/name".
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }

// A Container of a pod.
type Container struct {
	Name string
	// ID is the runtime's name of the container that runs now, which names its
	// cgroup; empty where nobody has told it.
	ID             string
	Init           bool // an init container or sidecar
	MemoryRequest  Quantity
	StorageRequest Quantity
	StorageLimit   Quantity // ephemeral-storage; 0 is none
}

// A Volume of a pod.
type Volume struct {
	Name  string
	Local bool // its bytes lie on nodefs and count as the pod's
	// Directory is where it lies below the pod's volumes directory, such as
	// kubernetes.io~empty-dir/cache; empty where it lies elsewhere (hostPath).
	Directory string
	SizeLimit Quantity // of an emptyDir; 0 is none
}

// EveryNamespace stands for all of them where namespaces are named.
const EveryNamespace = "*"

// Protection says why a pod is never evicted.
type Protection uint8

// The kinds of protected pods. They stay in the ranking and are passed over.
const (
	Unprotected Protection = iota
	Static                 // annotation kubernetes.io/config.source other than "api"
	Mirror                 // annotation kubernetes.io/config.mirror
	Critical               // priority of CriticalPriority or more
	OptedOut               // its own annotation, which the operator lets count
	Namespaced             // the operator protects its namespace
	Own                    // the agent runs in it
	protections
)

// CriticalPriority is the lowest priority of a critical pod, that of
// system-cluster-critical.
const CriticalPriority = 2_000_000_000

// String names the protection; one of a later version, as a state file may hold, has
// no name of its own.
func (p Protection) String() string {
	if p >= protections {
		return "protected"
	}
	return [protections]string{"", "static pod", "mirror pod", "critical pod", "opted out by its annotation", "in a protected namespace", "the agent's own pod"}[p]
}

// Measured is a value, or the fact that it was not measured.
type Measured[T Bytes | Inodes | PIDs | time.Duration] struct {
	Value T
	Known bool
}

// Of is a measured value.
func Of[T Bytes | Inodes | PIDs | time.Duration](v T) Measured[T] { return Measured[T]{v, true} }

// A Usage is what was measured of a pod. What was not measured counts 0 in
// rankings and against limits, and adds no sentence to a message.
type Usage struct {
	Time             time.Time
	Memory           Measured[Bytes] // working set
	Processes        Measured[PIDs]
	EphemeralStorage Measured[Bytes] // layers, logs, local volumes
	Containers       []ContainerUsage
	Volumes          []VolumeUsage
}

// ContainerUsage is what was measured of one container.
type ContainerUsage struct {
	Name         string
	Memory       Measured[Bytes] // working set
	Rootfs, Logs FilesystemUsage
}

// VolumeUsage is what was measured of one volume.
type VolumeUsage struct {
	Name string
	FilesystemUsage
}

// FilesystemUsage is what a directory tree uses of its filesystem.
type FilesystemUsage struct {
	Bytes  Measured[Bytes]
	Inodes Measured[Inodes]
	// Incomplete is why there may be more than was measured, empty if there is not.
	Incomplete string
	// Uncountable: no later measurement counts the rest either, as it lies beyond a
	// bound of the measurement.
	Uncountable bool
}

// Container returns the usage of a container, nil if there is none. Usage that
// was read from cgroups is named by the container's ID.
func (u *Usage) Container(k *Container) *ContainerUsage {
	for i := range u.Containers {
		if name := u.Containers[i].Name; name == k.Name || name == k.ID && name != "" {
			return &u.Containers[i]
		}
	}
	return nil
}

// Volume returns the usage of the volume of that name, nil if there is none.
func (u *Usage) Volume(name string) *VolumeUsage {
	for i := range u.Volumes {
		if u.Volumes[i].Name == name {
			return &u.Volumes[i]
		}
	}
	return nil
}

// A Candidate is a pod with what was measured of it. Usage is nil for a pod
// without stats.
type Candidate struct {
	Pod   *Pod
	Usage *Usage
}
