package core

import (
	"errors"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/taints"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// A Kind is what an action does.
type Kind uint8

// The kinds, in the order in which one call of Act returns them.
const (
	// MarkUnknown sets the Conditions of Node to Unknown: one write of its status.
	MarkUnknown Kind = iota
	// Zone tells that a zone's state or rate changed.
	Zone
	// Taint changes taints and labels of Node: Add and Remove (by key and effect),
	// and Labels: one write.
	Taint
	// MarkNotReady sets the condition Ready of Pod to False.
	MarkNotReady
	// Evict ends Pod for the reason Why: a delete with its UID as precondition, with
	// whatever goes before it.
	Evict
	// Cancel tells that the timed eviction of Pod was called off, and none is left.
	Cancel
	// SoftEvict asks for the eviction of Pod as the agent of its node wants it
	// (facts.Pod.Asked): policy/v1 Eviction, which a budget may refuse.
	SoftEvict
	// CleanUpAgent removes the conditions and taints that a dead agent left on Node.
	CleanUpAgent
	// DeleteEvictedPod deletes the object of Pod, which has failed because the agent on its
	// node evicted it, and has been kept for long enough since.
	DeleteEvictedPod
	// ReadLease asks for a live read of the lease of Node; [Fleet.LeaseRead] takes
	// the answer.
	ReadLease
	// ReportEvent tells what happened, Event, and to which Node (none: to the cluster).
	ReportEvent
	kinds
)

var kindNames = [kinds]string{"silence", "zone", "taint", "mark-not-ready", "evict", "cancel", "soft-evict", "clear-agent", "clear-pod", "read-lease", "tell"}

// String is the kind as logs show it.
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

// An Action is one thing that is to be done or told. It is not changed after Act
// has returned it.
type Action struct {
	Kind Kind
	Node string // name; of the pod's node for actions on pods
	// Object is Node as it was observed last; nil where no such object is known.
	Object *model.Node
	Pod    *model.Pod

	Conditions []UnknownCondition   // of Silence, in the order of types
	Add        []model.Taint        // of Taint
	Remove     []model.Taint        // of Taint: by key and effect
	Labels     []taints.LabelChange // of Taint, in the order of keys
	Why        Why                  // of Evict
	Due        time.Time            // of Evict: when the pod had to go
	First      time.Time            // of Evict and MarkNotReady: when that was tried first, since nothing called it off
	Zone       zones.Change         // of Zone
	Event      Event                // of Tell
	// Message says more, for people: of Tell.
	Message string

	id     uint64    // which of all writes it is
	at     time.Time // when it was decided
	spends bool      // a token of the zone, if it succeeds
}

// Fresh reports whether a taint to add replaces none: it is there since the write,
// not since the moment that it has from the one that it replaces.
func (a *Action) Fresh(t *model.Taint) bool { return t.Added.Equal(a.at) }

// freshKey is the key of the fresh one of these taints; "" if there is none.
func (a *Action) freshKey(taints []model.Taint) string {
	for i := range taints {
		if a.Fresh(&taints[i]) {
			return taints[i].Key
		}
	}
	return ""
}

// Again reports whether an Evict or a MarkNotReady has failed before.
func (a *Action) Again() bool { return a.First.Before(a.at) && !a.First.IsZero() }

// UnknownCondition is a condition that becomes Unknown. Of one that the node never had,
// the heartbeat is the node's creation; of others it is kept.
type UnknownCondition struct {
	Type    model.ConditionType
	Reason  string // facts.ReasonStatusUnknown or facts.ReasonStatusNeverUpdated
	Message string
}

// Why a pod is evicted.
type Why uint8

// The reasons.
const (
	ByTaint  Why = iota // it does not tolerate a taint, or not any longer
	NodeLost            // its node died, in the mode without taints
)

// String is the reason as simulate and logs show it.
func (w Why) String() string { return [...]string{"taint", "node-lost"}[w] }

// An Event is something that happened to a node or the cluster.
type Event uint8

// The events. The first four are those of Kubernetes' own controller, with its
// names.
const (
	RegisteredNode  Event = iota // first seen while this fleet leads
	RemovingNode                 // its object is gone
	NodeNotReady                 // it was ready and is not any more
	DeletingAllPods              // its turn came in the mode without taints
	SecondOpinion                // its kubelet is silent, its agent lives: it is not given up yet
	BreakerOpened                // so many nodes fell silent that our own view is in doubt
	BreakerClosed
	BudgetExceeded // too many nodes are unready: no further node is given up
	BudgetRestored
	events
)

var eventNames = [events]string{"RegisteredNode", "RemovingNode", "NodeNotReady", "DeletingAllPods", "SecondOpinion", "BreakerOpened", "BreakerClosed", "BudgetExceeded", "BudgetRestored"}

// String is the event's reason as the API has it.
func (e Event) String() string { return eventNames[e] }

// ErrObsolete finishes an action that was not carried out because
// [Fleet.Overtaken] said so. It is no failure: nothing is backed off.
var ErrObsolete = errors.New("no longer wanted")
