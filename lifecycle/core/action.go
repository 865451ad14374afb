package core

import (
	"errors"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/taints"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// Kind is the kind of an action.
type Kind uint8

// The kinds, in the order in which one call of Act returns them.
const (
	// MarkUnknown sets the Conditions of Node to Unknown: one write of its status.
	MarkUnknown Kind = iota
	// Zone reports that a zone's state or rate changed.
	Zone
	// Taint changes taints and labels of Node: Add and Remove (by key and effect),
	// and Labels: one write.
	Taint
	// MarkNotReady sets the condition Ready of Pod to False.
	MarkNotReady
	// Evict ends Pod for the reason Why: a delete with its UID as precondition, and the
	// writes that precede it.
	Evict
	// Cancel reports that the scheduled eviction of Pod was cancelled, and none is left.
	Cancel
	// SoftEvict requests the eviction of Pod that the agent of its node asked for
	// (model.Pod.Asked): policy/v1 Eviction, which a budget may refuse.
	SoftEvict
	// CleanUpAgent removes the conditions and taints that a dead agent left on Node.
	CleanUpAgent
	// DeleteEvictedPod deletes the object of Pod, which failed because the agent of its
	// node evicted it, after EvictedPodTTL.
	DeleteEvictedPod
	// ReadLease requests a live read of the lease of Node; [Fleet.LeaseRead] receives
	// the result.
	ReadLease
	// ReportEvent reports Event, of Node or (none) of the cluster.
	ReportEvent
	kinds
)

var kindNames = [kinds]string{"mark-unknown", "zone", "taint", "mark-not-ready", "evict", "cancel", "soft-evict", "cleanup-agent", "delete-evicted-pod", "read-lease", "event"}

// String returns the kind as logs show it.
func (k Kind) String() string { return kindNames[k] }

// Writes reports whether actions of this kind write to the API. Each of them is
// finished once, see [Fleet.Finished].
func (k Kind) Writes() bool {
	switch k {
	case MarkUnknown, Taint, MarkNotReady, Evict, SoftEvict, CleanUpAgent, DeleteEvictedPod:
		return true
	}
	return false
}

// Action is one write, read or report. It is not changed after Act has returned it.
type Action struct {
	Kind Kind
	Node string // name; of the pod's node for actions on pods
	// Object is the latest observation of Node; nil without one.
	Object *model.Node
	Pod    *model.Pod

	Conditions []UnknownCondition   // of MarkUnknown, in the order of types
	Add        []model.Taint        // of Taint
	Remove     []model.Taint        // of Taint: by key and effect
	Labels     []taints.LabelChange // of Taint, in the order of keys
	Why        Why                  // of Evict
	Due        time.Time            // of Evict: its deadline
	First      time.Time            // of Evict and MarkNotReady: the first attempt, unless it was cancelled since
	Zone       zones.Change         // of Zone
	Event      Event                // of ReportEvent
	// Message is the event in words: of ReportEvent.
	Message string

	id     uint64    // of the write
	at     time.Time // when it was decided
	spends bool      // a token of the zone, if it succeeds
}

// Fresh reports whether a taint to add replaces no other one. Its time is that of the
// write; one that replaces another has the time of that.
func (a *Action) Fresh(t *model.Taint) bool { return t.Added.Equal(a.at) }

// freshKey returns the key of the fresh taint among these; "" if there is none.
func (a *Action) freshKey(taints []model.Taint) string {
	for i := range taints {
		if a.Fresh(&taints[i]) {
			return taints[i].Key
		}
	}
	return ""
}

// Repeated reports whether an Evict or a MarkNotReady has failed before.
func (a *Action) Repeated() bool { return a.First.Before(a.at) && !a.First.IsZero() }

// UnknownCondition is a condition that becomes Unknown. It has the heartbeat of the
// condition that it replaces; without one, the node's creation.
type UnknownCondition struct {
	Type    model.ConditionType
	Reason  string // model.ReasonStatusUnknown or model.ReasonStatusNeverUpdated
	Message string
}

// Why is the reason of an eviction.
type Why uint8

// The reasons.
const (
	ByTaint  Why = iota // it does not tolerate a taint, or not for longer
	NodeLost            // its node is lost, in the mode without taints
)

// String returns the reason as simulate and logs show it.
func (w Why) String() string { return [...]string{"taint", "node-lost"}[w] }

// Event is an incident of a node or the cluster.
type Event uint8

// The events. The first four exist in Kubernetes' own controller, by the same names.
const (
	RegisteredNode  Event = iota // first seen while this fleet leads
	RemovingNode                 // its object is gone
	NodeNotReady                 // it was ready before
	DeletingAllPods              // it got a token in the mode without taints
	SecondOpinion                // its kubelet is silent, and its live agent blocks its eviction
	BreakerOpened                // so many nodes fell silent that our own view may be wrong
	BreakerClosed
	BudgetExceeded // too many nodes are unready: none is tainted NoExecute, and no eviction begins
	BudgetRestored
	events
)

var eventNames = [events]string{"RegisteredNode", "RemovingNode", "NodeNotReady", "DeletingAllPods", "SecondOpinion", "BreakerOpened", "BreakerClosed", "BudgetExceeded", "BudgetRestored"}

// String returns the reason of the event in the API.
func (e Event) String() string { return eventNames[e] }

// ErrObsolete finishes an action that was not carried out because of [Fleet.Obsolete].
// It is no failure, and causes no backoff.
var ErrObsolete = errors.New("no longer wanted")
