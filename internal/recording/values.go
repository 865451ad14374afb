package recording

import (
	"encoding/json"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Format is the version of the format. Frames of a later version are not decoded.
const Format = 1

// Header describes a run of an agent, and a segment of it.
type Header struct {
	Format int `json:"format"`
	// Segment is the number of the segment on the node; later ones have larger numbers.
	Segment  uint64 `json:"segment"`
	Version  string `json:"agentVersion"`
	Revision string `json:"revision,omitempty"`
	Node     string `json:"node,omitempty"`
	BootID   string `json:"bootID,omitempty"`
	Kernel   string `json:"kernel,omitempty"`
	// CgroupVersion is 1 or 2.
	CgroupVersion int `json:"cgroupVersion"`
	// Started is the time of day at which the run began, and SinceBoot the time since boot. Both
	// identify the run. All times of the run are Started plus the time since by a clock that is
	// never set.
	Started   time.Time     `json:"started"`
	SinceBoot time.Duration `json:"sinceBootNanos"`
	// Config is the configuration with all options, as an AgentConfiguration in JSON. A change of it
	// begins a segment.
	Config json.RawMessage `json:"config,omitempty"`
	// Capacity and Allocatable are those of the Node object, if it is known.
	Capacity    map[string]string `json:"capacity,omitempty"`
	Allocatable map[string]string `json:"allocatable,omitempty"`
	// State is the state of the decisions before the first check. Only the first segment of a run
	// has it.
	State json.RawMessage `json:"state,omitempty"`
}

// SameRun reports whether two headers are of one run.
func (h *Header) SameRun(other *Header) bool {
	return other != nil && h.BootID == other.BootID && h.Node == other.Node && h.SinceBoot == other.SinceBoot && h.Started.Equal(other.Started)
}

// Check is a recorded check.
type Check struct {
	// Snapshot is the observation. Its times, as all others, are by the clock that is never set.
	Snapshot signals.Snapshot
	// Clock is by how much the time of day was set since the start of the run.
	Clock time.Duration
	// Seq is the number of the check in its run. Checks that are not recorded have numbers too.
	Seq uint64
	// Lost is the number of checks and decisions before this one that were not recorded because
	// the disk was too slow. Without them a replay is not exact.
	Lost uint64
	// Layout and StorageLimits are the parts of the policy that do not follow from the
	// configuration alone.
	Layout        signals.Layout
	StorageLimits bool

	// Results of the evaluation.
	Met, Unknown, Imminent signals.Set
	Conditions             signals.ConditionSet
	Reason                 uint8 // of the verdict

	Act *Act // nil if no pod was considered and nothing was collected, and of a brief check
	// Brief: the check measured the pods and found the same as one before. Neither is in it.
	Brief bool
	// Cut: the check has more than fits into a frame, as with thousands of containers. A replay of it
	// is not exact. The encoder sets it.
	Cut bool
	// State is the state of the decisions after the check, in JSON. A check with it is a key frame.
	State []byte
}

// At returns the time of the check by the time of day.
func (c *Check) At() time.Time { return c.Snapshot.At.Add(c.Clock) }

// Act is the part of a check that considers pods or garbage: what it asked for beyond the
// snapshot, in the order of its requests, and what followed.
type Act struct {
	Withdrawn []Withdrawal // soft evictions withdrawn before the check
	// Blocks are the reasons for which a threshold, or the storage limits, had to wait; empty ones
	// blocked nothing.
	Blocks []string
	// ForGrowth: the first of Measured is the base of later growth, from before the check.
	// ForLimits: the first one within the check was requested for a local-storage limit.
	ForGrowth   bool
	ForLimits   bool
	Measured    [][]signals.Candidate  // measurements of the pods
	Seen        []signals.Observations // observations right before an act
	Collections []Collection
	Attempts    []Attempt
	Deletions   []Deletion

	Acted     bool           // Signal is set
	Signal    signals.Signal // the threshold acted for
	Blocked   string         // why nothing was done for it
	Reclaimed []signals.Garbage
	Ranking   []*signals.Pod
	Evicted   *Evicted
	Failed    []Failed
	// Spared is the number of pods that were passed over because their end would not help, and
	// KubeletsPod the one that the kubelet would evict; nil if it is the same.
	Spared      int
	KubeletsPod *signals.Pod
	Limit       string // the limit in force: quota, ineffective or owner
}

// Withdrawal is a soft eviction that did not happen.
type Withdrawal struct {
	UID, Namespace, Owner string
	DecidedAt             time.Time
}

// Collection is the state of a garbage collection when a check asked for it.
type Collection struct {
	Ran  []signals.Garbage
	Done bool
}

// Attempt is the result of an attempt to evict a pod. The pod was evicted if Err is empty.
type Attempt struct {
	Err    string
	Ends   bool // no further pod was tried
	DryRun bool
}

// Deletion is a pod under deletion, at the start of a check.
type Deletion struct {
	UID    string
	Since  time.Time // zero: its deletion was first observed in this check
	Killed bool      // the agent has killed it before
}

// Evicted is the eviction that a check decided.
type Evicted struct {
	Pod              *signals.Pod
	Cause            string
	Hard             bool
	GracePeriod      int64 // seconds
	Message          string
	Annotations      map[string]string
	DisruptionTarget bool
	DryRun           bool
}

// Failed is a pod that could not be evicted.
type Failed struct {
	Pod   *signals.Pod
	Error string
}

// Unknown is a value that could not be read.
const Unknown = -1

// Value is a measured value of a pod. Counters begin with the pod's cgroup.
type Value uint8

// The values of a pod, in the order of the format. New ones are appended.
const (
	WorkingSet Value = iota // bytes
	Anon                    // bytes
	File                    // bytes; Shmem is part of it
	Shmem                   // bytes
	Swap                    // bytes
	Kernel                  // bytes
	Tasks
	Disk      // bytes of writable layers, logs and local volumes, by the last measurement
	StallSome // microseconds in which a task waited for memory
	StallFull // microseconds in which all tasks waited for memory
	LimitHits // number of times usage met a limit of the pod or its containers
	OOMKills  // processes killed by an OOM killer
	ValueCount
)

// NodeValue is a counter of the node, since its boot.
type NodeValue uint8

// The counters of the node, in the order of the format. New ones are appended.
const (
	MemoryStallSome NodeValue = iota // microseconds
	MemoryStallFull                  // microseconds
	IOStallSome                      // microseconds
	IOStallFull                      // microseconds
	NodeOOMKills                     // processes killed by an OOM killer
	NodeValueCount
)

// Usage is the usage of all pods at one time, beside the checks.
type Usage struct {
	At    time.Time // by the clock that is never set
	Clock time.Duration
	Node  [NodeValueCount]int64
	Pods  []PodUsage
	Gone  []Gone // pods that left since the last usage
	// Cut: pods are left out, since the segment has no room for what they are. The encoder sets it.
	Cut bool
}

// PodUsage is the usage of one pod.
type PodUsage struct {
	Pod    *signals.Pod
	Values [ValueCount]int64
}

// Gone is a pod that is no longer active.
type Gone struct {
	Pod *signals.Pod
	End End
}

// End is the state of a pod that is no longer active.
type End uint8

// The states, in the order of the format. New ones are appended. An eviction is the phase Failed with the
// reason Evicted, by this agent, a kubelet or another program. Its message has the cause.
const (
	EndUnknown       End = iota
	Ended                // phase Succeeded or Failed
	EndEvicted           // for an unknown cause
	Deleted              // the API server has no such pod
	EvictedForMemory     // of the node, as the next ones
	EvictedForDisk
	EvictedForInodes
	EvictedForPIDs
	EvictedForLimit // a local-storage limit of the pod
	endCount
)

func (e End) String() string {
	return [endCount]string{"unknown", "ended", "evicted", "deleted", "evicted for memory", "evicted for disk", "evicted for inodes", "evicted for PIDs", "evicted for a limit"}[e]
}

// evictedFor are the states of evictions for a resource.
var evictedFor = map[signals.Resource]End{signals.Memory: EvictedForMemory, signals.EphemeralStorage: EvictedForDisk, signals.InodeCount: EvictedForInodes, signals.PIDCount: EvictedForPIDs}

// EvictedFor returns the state of a pod that was evicted for a resource of the node, [EndEvicted] if that is not
// known.
func EvictedFor(r signals.Resource) End {
	if e, known := evictedFor[r]; known {
		return e
	}
	return EndEvicted
}

// Evicted reports whether the pod was evicted, for whatever cause.
func (e End) Evicted() bool { return e == EndEvicted || e >= EvictedForMemory && e < endCount }

// Resource returns the resource of the node for which the pod was evicted, empty if there is none or it is not
// known.
func (e End) Resource() signals.Resource {
	for r, end := range evictedFor {
		if e == end {
			return r
		}
	}
	return ""
}

// Decision is a line of the decision log.
type Decision struct {
	At    time.Time // by the clock that is never set: when it was recorded
	Clock time.Duration
	Line  json.RawMessage
}
