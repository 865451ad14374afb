package metrics

import "strings"

// Reason is the reason for the deletion of images.
type Reason uint8

// The kubelet's reasons.
const (
	Age   Reason = iota // unused for longer than the maximum age
	Space               // unused, on a filesystem above its limit
)

var reasonNames = [...]string{Age: "age", Space: "space"}

// Freer is a source of reclaimed bytes.
type Freer uint8

// The sources of reclaimed bytes.
const (
	Containers Freer = iota // removed dead containers
	Images                  // removed unused images
	Eviction                // of a pod
)

var freerNames = [...]string{Containers: "containers", Images: "images", Eviction: "eviction"}

// limitNames are the reasons for limits on evictions.
var limitNames = [...]string{"quota", "ineffective", "owner"}

// kindNames are the kinds of thresholds, hard first.
var kindNames = [...]string{"hard", "soft"}

// Request is a kind of request to the API server.
type Request uint8

// The requests of the agent; deploy/rbac has one right for each.
const (
	WatchPods Request = iota // list and watch
	PatchPodStatus
	EvictPod // policy/v1 Eviction
	ReadNode // get, list and watch
	PatchNodeStatus
	TaintNode
	WriteEvent
	WriteLease
	WriteRecord // get, create and update of the record of evictions
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
	WriteRecord:     "write_record",
}

func valuesOf(names []string) string { return strings.Join(names, ", ") }
