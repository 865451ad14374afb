package doctor

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// Facts are what is known of one node.
type Facts struct {
	Node string // name of the Node object; empty: it has none
	Ours Ours

	KernelRelease Fact[string] // as uname -r says, such as 6.1.0-18-amd64
	Cgroups       Fact[Cgroups]
	StallFault    Fact[string] // why there is no pressure stall information; empty: there is
	Pods          Fact[Pods]
	Swap          Fact[signals.Bytes] // in all; 0: none
	Processes     Fact[[]Process]
	StateFault    Fact[string] // why the state can not be written; empty: it can
	Disarmed      Fact[bool]   // the disarm file exists
	Capacity      Fact[Capacity]

	Kubelet Fact[Kubelet]
	Runtime Fact[Runtime]
	Server  *Server // nil: the agent is to do without an API server
}

// Ours is what the agent is configured to do.
type Ours struct {
	Lines []Line
	// MaxFillRate is the fastest credible rate at which memory fills, per second.
	MaxFillRate signals.Bytes
	// Reclaim and StorageLimits are auto (left to a kubelet that does it), on or off.
	Reclaim, StorageLimits string
	// PressureConditions say who reports them: auto, kubelet, own, standard, off …
	PressureConditions string
	// NodeCgroup is the cgroup that is the node; / is the machine.
	NodeCgroup string
	// PodManifests is the directory with the node's pods; empty: the API server has
	// them.
	PodManifests string
	// DisarmFile is the file whose existence keeps the agent from acting.
	DisarmFile string
}

// A Line is a threshold of the agent's, hard if it has no grace period.
type Line struct {
	kubeletconfig.Threshold
	Grace time.Duration
}

// Cgroups are the trees that the kernel shows.
type Cgroups struct {
	Version int      // 1 or 2: who accounts memory
	Hybrid  bool     // a version 2 tree without memory is mounted beside version 1
	Missing []string // controllers that the agent needs and that are not there
	Fault   string   // why the agent can not use them at all; empty: it can
}

// Pods are the node's pods, as far as files and cgroups show them.
type Pods struct {
	// Root is the pods' cgroup, Populated whether a process is in a pod below it. It is
	// empty if none of the Places exists.
	Root      string
	Populated bool
	Places    []string
	// Elsewhere is the cgroup of a process that runs in another kubepods, if any, and
	// is looked for where Root is not populated.
	Elsewhere string
	// Manifests is how many files the directory of manifests has, ManifestsFault why it
	// can not be read.
	Manifests      int
	ManifestsFault string
}

// A Process is one that matters to the agent.
type Process struct {
	PID  int
	Name string // as the kernel has it: at most 15 bytes
	Args []string
}

// Capacity is what percentages of a threshold refer to, in the unit of the
// signal; a signal that is not in it is not known.
type Capacity map[signals.Signal]signals.Amount

// Of is the capacity of a signal, 0 if it is not known.
func (c Capacity) Of(s signals.Signal) signals.Amount { return c[s] }

// A Kubelet is the one beside the agent.
type Kubelet struct {
	Present bool
	Config  kubeletconfig.Config
	Source  string // where the configuration was read
}

// A Runtime is the container runtime of the node.
type Runtime struct {
	Fault string // why it can not be used; empty: it can, or there is to be none
	Old   bool   // it answers, but does not know the calls of v1
}

// A Server is what the API server tells.
type Server struct {
	// Ahead is how far the node's clock is ahead of the server's, to a second.
	Ahead          Fact[time.Duration]
	Denied         Fact[[]Right] // of those that the configuration needs
	KubeletVersion Fact[string]  // as the Node has it; empty: no kubelet
	Images         Fact[[]string]
}

// A Right is one that is asked of the API server.
type Right struct {
	Verb, Group, Resource, Subresource string
	Namespace                          string // empty: cluster-wide
	Name                               string // of the one object that it is for; empty: of all
	Loss                               string // what does not work without it
}

// String is the right as kubectl auth can-i has it.
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
