package signals

import "time"

// Pod is the data about a pod that decisions need, without Kubernetes types. It does not change
// during the life of the pod, except by an in-place resize.
type Pod struct {
	UID       string // names the pod's cgroup
	Namespace string
	Name      string

	Priority   int32
	Protection Protection
	// Last and EvictionPriority are the pod's own settings of its order, as far as the operator
	// permits them. Last is after all others. Among pods of equal Priority the lower
	// EvictionPriority is first (-1000 to 1000).
	Last             bool
	EvictionPriority int16
	// Owner identifies the owner that recreates the pod: the UID of its controller. For a pod of
	// the node or without an owner it is namespace/name. Empty if unknown.
	Owner string
	// TerminationGracePeriod in seconds; nil if unset.
	TerminationGracePeriod *int64

	MemoryRequest  Quantity // effective: init containers, overhead and pod level included
	StorageRequest Quantity // ephemeral-storage, likewise
	// PodLevelMemoryRequest is spec.resources.requests.memory, nil if not set.
	PodLevelMemoryRequest *Quantity
	// StorageLimit is the effective ephemeral-storage limit, nil if no
	// container has one.
	StorageLimit *Quantity

	Containers []Container // spec.containers, then spec.initContainers
	// Ephemeral are the runtime's IDs of running ephemeral containers, which have neither
	// requests nor limits.
	Ephemeral []string
	Volumes   []Volume
	// HostPaths are the paths of its hostPaths on the node. Files there count as no pod's usage. A path
	// that is too long to be stored is empty.
	HostPaths []string `json:",omitempty"`

	// EndsBy is the end of the grace period of a deleted pod; zero for other pods.
	EndsBy time.Time
	// FromAPI reports whether the pod came from the API server, which stores its status. It is
	// false for a manifest in a file.
	FromAPI bool
}

// Key returns "namespace/name".
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }

// Container is a container of a pod.
type Container struct {
	Name string
	// ID is the runtime's ID of the running container, which names its cgroup; empty if unknown.
	ID             string
	Init           bool // an init container or sidecar
	MemoryRequest  Quantity
	StorageRequest Quantity
	StorageLimit   Quantity // ephemeral-storage; 0 is none
}

// Volume is a volume of a pod.
type Volume struct {
	Name  string
	Local bool // its bytes are stored on nodefs and count as the pod's
	// Directory is the volume's path below the pod's volumes directory, such as
	// kubernetes.io~empty-dir/cache. It is empty for volumes elsewhere (hostPath).
	Directory string
	SizeLimit Quantity // of an emptyDir; 0 is none
}

// EveryNamespace stands for all namespaces in a list of them.
const EveryNamespace = "*"

// Protection is why a pod is never evicted.
type Protection uint8

// The kinds of protected pods. They stay in the ranking and are skipped.
const (
	Unprotected Protection = iota
	Static                 // annotation kubernetes.io/config.source other than "api"
	Mirror                 // annotation kubernetes.io/config.mirror
	Critical               // priority of CriticalPriority or more
	OptedOut               // its own annotation, which the operator permits
	Namespaced             // the operator protects its namespace
	Own                    // the agent's own pod
	protections
)

// CriticalPriority is the lowest priority of a critical pod, that of
// system-cluster-critical.
const CriticalPriority = 2_000_000_000

// String returns the name of the protection. A state file may contain one of a later version,
// which has the name "protected".
func (p Protection) String() string {
	if p >= protections {
		return "protected"
	}
	return [protections]string{"", "static pod", "mirror pod", "critical pod", "opted out by its annotation", "in a protected namespace", "the agent's own pod"}[p]
}

// Measured is a measured value, or unknown.
type Measured[T Bytes | Inodes | PIDs | time.Duration] struct {
	Value T
	Known bool
}

// Of returns a measured value.
func Of[T Bytes | Inodes | PIDs | time.Duration](v T) Measured[T] { return Measured[T]{v, true} }

// Usage is the measured usage of a pod. Unmeasured values count 0 in rankings and against limits,
// and are left out of messages.
type Usage struct {
	Time             time.Time
	Memory           Measured[Bytes] // working set
	Processes        Measured[PIDs]
	EphemeralStorage Measured[Bytes] // layers, logs, local volumes
	Containers       []ContainerUsage
	Volumes          []VolumeUsage

	// The following is freed with the pod, and not ranked by.

	Tasks Measured[PIDs] // threads included
	// MemoryRelief is the part of the memory that is not page cache. If it is unknown, all of Memory
	// counts.
	MemoryRelief Measured[Bytes]
	// MemoryFiles is the part of the memory in files: of tmpfs volumes and shared memory. It is freed
	// when the kubelet unmounts them.
	MemoryFiles Measured[Bytes]
	// OtherLayers are writable layers of containers other than Containers: dead ones, ephemeral ones,
	// and those not reported as running yet.
	OtherLayers FilesystemUsage
	// KubeletFiles are the files that the kubelet stores on nodefs for the pod: its /etc/hosts, its
	// termination messages.
	KubeletFiles FilesystemUsage
}

// ContainerUsage is the measured usage of one container.
type ContainerUsage struct {
	Name         string
	Memory       Measured[Bytes] // working set
	Rootfs, Logs FilesystemUsage
}

// VolumeUsage is the measured usage of one volume.
type VolumeUsage struct {
	Name string
	FilesystemUsage
}

// FilesystemUsage is the usage of a directory tree on its filesystem.
type FilesystemUsage struct {
	Bytes  Measured[Bytes]
	Inodes Measured[Inodes]
	// Incomplete is why the usage may be larger than measured; empty otherwise.
	Incomplete string
	// Uncountable: no later measurement counts the rest either, as it is beyond a bound of the
	// measurement.
	Uncountable bool
}

// Add adds the usage of another directory tree. An incomplete usage has the first cause.
func (u *FilesystemUsage) Add(o *FilesystemUsage) {
	u.Bytes = Measured[Bytes]{Bytes(Amount(u.Bytes.Value).Plus(Amount(o.Bytes.Value))), u.Bytes.Known || o.Bytes.Known}
	u.Inodes = Measured[Inodes]{Inodes(Amount(u.Inodes.Value).Plus(Amount(o.Inodes.Value))), u.Inodes.Known || o.Inodes.Known}
	if u.Incomplete == "" {
		u.Incomplete = o.Incomplete
	}
	u.Uncountable = u.Uncountable || o.Uncountable
}

// Container returns the usage of a container, or nil. Usage read from cgroups is identified by
// the container's ID.
func (u *Usage) Container(k *Container) *ContainerUsage {
	for i := range u.Containers {
		if name := u.Containers[i].Name; name == k.Name || name == k.ID && name != "" {
			return &u.Containers[i]
		}
	}
	return nil
}

// Volume returns the usage of the volume of that name, or nil.
func (u *Usage) Volume(name string) *VolumeUsage {
	for i := range u.Volumes {
		if u.Volumes[i].Name == name {
			return &u.Volumes[i]
		}
	}
	return nil
}

// Candidate is a pod with its measured usage. Usage is nil for a pod without stats.
type Candidate struct {
	Pod   *Pod
	Usage *Usage
}
