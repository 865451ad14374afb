package clusterstatus

import (
	"time"

	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/vitals"
)

// Node is what the cluster shows of a node.
type Node struct {
	Name    string
	Created time.Time // zero: there is no Node of that name, only the lease of an agent
	// Conditions are the pressure conditions that are True, and [NotReady].
	Conditions []string
	Arming     arming.Source // the setting of its annotations
	Agent      *Agent        // nil: no agent has a lease for the node
}

// State returns the state of the node's agent at a time.
func (n *Node) State(now time.Time) State {
	switch a := n.Agent; {
	case a == nil:
		return Missing
	case a.silent(now):
		return Silent
	case a.Armed:
		return Armed
	}
	return Disarmed
}

// NotReady is the condition of a node with another status than True of its condition Ready.
const NotReady = "NotReady"

// Agent is what an agent published in its lease.
type Agent struct {
	Version      string
	Pod          string // namespace/name; empty outside of pods
	Armed        bool
	Reason       string // of Armed
	Findings     []string
	Conditions   []string // pressure conditions that are True
	Thresholds   string   // a digest
	Readings     []vitals.Reading
	LastEviction vitals.Eviction
	LastCheck    time.Time
	Renewed      time.Time
	Duration     time.Duration // of the lease
}

// silent reports whether the lease has expired.
func (a *Agent) silent(now time.Time) bool { return now.Sub(a.Renewed) > a.Duration }
