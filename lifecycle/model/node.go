package model

import "time"

// Status is the status of a condition.
type Status uint8

// The statuses. The zero value is that of a missing condition.
const (
	Absent Status = iota
	True
	False
	Unknown
)

var statusNames = [...]string{Absent: "", True: "True", False: "False", Unknown: "Unknown"}

// String returns the status as in the API, and "" for Absent.
func (s Status) String() string { return statusNames[s] }

// ParseStatus parses a condition's status. An unknown value is Unknown.
func ParseStatus(text string) Status {
	for s, name := range statusNames {
		if name == text {
			return Status(s)
		}
	}
	return Unknown
}

// ConditionType is the type of a node condition that decisions depend on.
type ConditionType uint8

// The condition types. Those before NetworkUnavailable become Unknown for a silent node.
const (
	Ready ConditionType = iota
	MemoryPressure
	DiskPressure
	PIDPressure
	NetworkUnavailable
	ConditionTypes // number of types
)

// UnknownConditionTypes is the number of types that become Unknown when a node becomes silent.
const UnknownConditionTypes = NetworkUnavailable

var conditionNames = [...]string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}

// String returns the type as in the API.
func (t ConditionType) String() string { return conditionNames[t] }

// ParseConditionType parses a condition's type. If no decision depends on it, ok is false.
func ParseConditionType(text string) (t ConditionType, ok bool) {
	for i, name := range conditionNames {
		if name == text {
			return ConditionType(i), true
		}
	}
	return 0, false
}

// Condition is a condition of a node, written by the node or by the controller.
type Condition struct {
	Status     Status
	Heartbeat  time.Time // lastHeartbeatTime, by the clock of its writer
	Transition time.Time // lastTransitionTime, likewise
	Reason     string
}

// Reasons of conditions that the controller sets.
const (
	ReasonStatusUnknown      = "NodeStatusUnknown"
	ReasonStatusNeverUpdated = "NodeStatusNeverUpdated"
)

// MissedHeartbeat reports whether the condition is Unknown because the node was silent, and not because
// the node itself reported Unknown.
func (c *Condition) MissedHeartbeat() bool {
	return c.Status == Unknown && (c.Reason == ReasonStatusUnknown || c.Reason == ReasonStatusNeverUpdated)
}

// Node is a node of the cluster.
type Node struct {
	Name          string
	UID           string
	Created       time.Time
	Labels        Labels
	Unschedulable bool
	Taints        []Taint
	Conditions    [ConditionTypes]Condition
	// Autonomy is how long the pods of an unreachable node stay: 0 for no longer than on other
	// nodes, Forever, or a duration.
	Autonomy time.Duration
	// Pressures are the condition types of the node's Plimsoll agent (plimsoll.dev/…) that are
	// not False, in the order of their names.
	Pressures []string
}

// Forever is longer than any other duration.
const Forever = time.Duration(1<<63 - 1)

// Labels are the labels of a node that decisions depend on.
type Labels struct {
	Region, Zone string // of the older failure-domain labels if present, otherwise of topology.kubernetes.io
	OS, Arch     Label
	OldOS        Label // beta.kubernetes.io/os
	OldArch      Label // beta.kubernetes.io/arch
	Excluded     bool  // node.kubernetes.io/exclude-disruption, with any value
}

// Label is a label's value, if the object has it.
type Label struct {
	Value string
	Is    bool
}

// Place identifies a zone. The zero value is that of nodes without labels, which form one zone.
type Place struct{ Region, Zone string }

// Place returns the zone of the node.
func (l *Labels) Place() Place { return Place{l.Region, l.Zone} }

// String returns region/zone, and "" if there is neither.
func (p Place) String() string {
	if p == (Place{}) {
		return ""
	}
	return p.Region + "/" + p.Zone
}

// Compare compares places by their names, bytewise.
func (p Place) Compare(q Place) int {
	switch a, b := p.String(), q.String(); {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
