package doctor

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// Facts are the facts of one node.
type Facts struct {
	Node string // name of the Node object; empty: it has none
	Ours Ours

	KernelRelease Fact[string] // as of uname -r, such as 6.1.0-18-amd64
	Cgroups       Fact[Cgroups]
	StallFault    Fact[string] // why pressure stall information is missing; empty: it is available
	Pods          Fact[Pods]
	Swap          Fact[signals.Bytes] // total; 0: none
	Processes     Fact[[]Process]
	StateFault    Fact[string] // why the state cannot be written; empty: it can
	Disarmed      Fact[bool]   // the disarm file exists
	// KernelLogFault is why the kernel's log cannot be read; empty: it can.
	KernelLogFault Fact[string]
	Capacity       Fact[Capacity]

	Kubelet Fact[Kubelet]
	Runtime Fact[Runtime]
	Server  *Server // nil: the agent is configured to run without an API server
}

// Ours is the configuration of the agent.
type Ours struct {
	Lines []Line
	// MaxFillRate is the fastest credible fill rate of memory, per second.
	MaxFillRate signals.Bytes
	// Reclaim and StorageLimits are auto (left to a kubelet that does it), on or off.
	Reclaim, StorageLimits string
	// PressureConditions is the reporter of the conditions: auto, kubelet, own, standard, off …
	PressureConditions string
	// NodeCgroup is the cgroup that contains the node; / is the machine.
	NodeCgroup string
	// PodManifests is the directory with the node's pods; empty: they are read from the API server.
	PodManifests string
	// DisarmFile is the file that disarms the agent while it exists.
	DisarmFile string
}

// Line is a threshold of the agent; without a grace period it is hard.
type Line struct {
	kubeletconfig.Threshold
	Grace time.Duration
}

// Cgroups are the trees that the kernel shows.
type Cgroups struct {
	Version int      // 1 or 2: which one accounts memory
	Hybrid  bool     // a version 2 tree without memory is mounted beside version 1
	Missing []string // required controllers that are missing
	NoKill  bool     // version 2 without cgroup.kill
	Fault   string   // why the agent cannot use them; empty: it can
}

// Pods are the node's pods, as far as files and cgroups show them.
type Pods struct {
	// Root is the pods' cgroup; Populated is whether a pod below it has a process. Root is empty if
	// none of the Places exists.
	Root      string
	Populated bool
	Places    []string
	// Elsewhere is the cgroup of a process in another kubepods, if any. It is searched only if Root
	// is not populated.
	Elsewhere string
	// Manifests is the number of files in the directory of manifests; ManifestsFault is why it
	// cannot be read.
	Manifests      int
	ManifestsFault string
}

// Process is a process relevant to the agent.
type Process struct {
	PID  int
	Name string // the kernel's name: at most 15 bytes
	Args []string
}

// Capacity maps signals to the amounts that percentages of a threshold refer to, in the unit of the
// signal. The capacity of a missing signal is unknown.
type Capacity map[signals.Signal]signals.Amount

// Of returns the capacity of a signal, 0 if it is unknown.
func (c Capacity) Of(s signals.Signal) signals.Amount { return c[s] }

// Kubelet is the kubelet beside the agent.
type Kubelet struct {
	Present bool
	Config  kubeletconfig.Config
	Source  string // where the configuration was read
}

// Runtime is the container runtime of the node.
type Runtime struct {
	Fault string // why it cannot be used; empty: it can, or none is configured
	Old   bool   // it answers, but does not know the calls of v1
}

// Server contains the facts from the API server.
type Server struct {
	// Ahead is how far the node's clock is ahead of the server's, to a second.
	Ahead          Fact[time.Duration]
	Denied         Fact[[]Right] // of the rights that the configuration needs
	KubeletVersion Fact[string]  // of the Node; empty: no kubelet
	Images         Fact[[]string]
}

// Right is a right on the API server.
type Right struct {
	Verb, Group, Resource, Subresource string
	Namespace                          string // empty: cluster-wide
	Name                               string // of the single object; empty: all objects
	Loss                               string // the function lost without it
	Record                             bool   // to record evictions: no decision depends on it
}

// String returns the right in the notation of kubectl auth can-i.
func (r Right) String() string {
	what := r.Resource
	if r.Group != "" {
		what += "." + r.Group
	}
	if r.Subresource != "" {
		what += "/" + r.Subresource
	}
	if r.Name != "" {
		what += " " + r.Name
	}
	if r.Namespace != "" {
		what += " in " + r.Namespace
	}
	return r.Verb + " " + what
}
