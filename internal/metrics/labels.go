package metrics

import "strings"

// A Reason is why images were deleted.
type Reason uint8

// The kubelet's reasons.
const (
	Age   Reason = iota // unused for longer than an image may be
	Space               // unused, and the filesystem too full
)

var reasonNames = [...]string{Age: "age", Space: "space"}

// A Freer is what gave bytes back.
type Freer uint8

// What gives bytes back.
const (
	Containers Freer = iota // dead ones that were removed
	Images                  // unused ones that were removed
	Eviction                // of a pod
)

var freerNames = [...]string{Containers: "containers", Images: "images", Eviction: "eviction"}

// limitNames are the reasons why evictions are limited.
var limitNames = [...]string{"quota", "ineffective", "owner"}

// A Request is what the API server was asked for.
type Request uint8

// The requests of the agent; there is one right in deploy/rbac for each.
const (
	WatchPods Request = iota // list and watch
	PatchPodStatus
	EvictPod // policy/v1 Eviction
	ReadNode // get, list and watch
	PatchNodeStatus
	TaintNode
	WriteEvent
	WriteLease
)

var requestNames = [...]string{
	WatchPods:       "watch_pods",
	PatchPodStatus:  "patch_pod_status",
	EvictPod:        "evict_pod",
	ReadNode:        "read_node",
	PatchNodeStatus: "patch_node_status",
	TaintNode:       "taint_node",
	WriteEvent:      "write_event",
	WriteLease:      "write_lease",
}

func valuesOf(names []string) string { return strings.Join(names, ", ") }
