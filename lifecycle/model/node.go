package model

import "time"

// A Status is that of a condition.
type Status uint8

// The statuses. The zero value is a condition that the object does not have.
const (
	Absent Status = iota
	True
	False
	Unknown
)

var statusNames = [...]string{Absent: "", True: "True", False: "False", Unknown: "Unknown"}

// String is the status as the API writes it, "" for Absent.
func (s Status) String() string { return statusNames[s] }

// ParseStatus reads a condition's status; what the API does not know is Unknown.
func ParseStatus(text string) Status {
	for s, name := range statusNames {
		if name == text {
			return Status(s)
		}
	}
	return Unknown
}

// A ConditionType is one of those conditions of a node by which is decided.
type ConditionType uint8

// The condition types. Those before NetworkUnavailable become Unknown with a
// node that is not heard of any more.
const (
	Ready ConditionType = iota
	MemoryPressure
	DiskPressure
	PIDPressure
	NetworkUnavailable
	ConditionTypes // how many there are
)

// Silenced are the types that become Unknown when a node falls silent.
const Silenced = NetworkUnavailable

var conditionNames = [...]string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}

// String is the type as the API writes it.
func (t ConditionType) String() string { return conditionNames[t] }

// ParseConditionType reads a condition's type; ok is false for one that decides
// nothing here.
func ParseConditionType(text string) (t ConditionType, ok bool) {
	for i, name := range conditionNames {
		if name == text {
			return ConditionType(i), true
		}
	}
	return 0, false
}

// A Condition is what a node, or the controller for it, says of one thing.
type Condition struct {
	Status     Status
	Heartbeat  time.Time // lastHeartbeatTime, by the clock of who wrote it
	Transition time.Time // lastTransitionTime, likewise
	Reason     string
}

// Reasons of conditions that the controller sets.
const (
	ReasonStatusUnknown      = "NodeStatusUnknown"
	ReasonStatusNeverUpdated = "NodeStatusNeverUpdated"
)

// Unheard reports whether the condition is Unknown because the node was not heard,
// and not because the node says so itself.
func (c *Condition) Unheard() bool {
	return c.Status == Unknown && (c.Reason == ReasonStatusUnknown || c.Reason == ReasonStatusNeverUpdated)
}

// A Node is a node of the cluster.
type Node struct {
	Name          string
	UID           string
	Created       time.Time
	Labels        Labels
	Unschedulable bool
	Taints        []Taint
	Conditions    [ConditionTypes]Condition
	// Autonomy is how long the pods of an unreachable node stay where they are: 0
	// not longer than others, Forever, or that long.
	Autonomy time.Duration
	// Pressures are the condition types of the node's Plimsoll agent (plimsoll.dev/…)
	// that are not False, in the order of their names.
	Pressures []string
}

// Forever is longer than anything lasts.
const Forever = time.Duration(1<<63 - 1)

// Labels are those of a node that decide something.
type Labels struct {
	Region, Zone string // of the older failure-domain labels where a node has them, else topology.kubernetes.io
	OS, Arch     Label
	OldOS        Label // beta.kubernetes.io/os
	OldArch      Label // beta.kubernetes.io/arch
	Excluded     bool  // node.kubernetes.io/exclude-disruption, whatever its value
}

// A Label is a label's value, if the object has it.
type Label struct {
	Value string
	Is    bool
}

// A Place is where a zone is. The zero value is that of nodes without labels,
// which are one zone.
type Place struct{ Region, Zone string }

// Place is the zone that a node is in.
func (l *Labels) Place() Place { return Place{l.Region, l.Zone} }

// String is region/zone, "" where there is neither.
func (p Place) String() string {
	if p == (Place{}) {
		return ""
	}
	return p.Region + "/" + p.Zone
}

// Compare orders places by their name, bytewise.
func (p Place) Compare(q Place) int {
	switch a, b := p.String(), q.String(); {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
