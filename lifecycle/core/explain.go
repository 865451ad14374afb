package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// Explanation is the state of a node, with the next step and what blocks it.
type Explanation struct {
	Node  string
	Known bool // the node has an object
	Leads bool // else everything about decisions is empty

	LastHeartbeat time.Time // latest sign of life, by our own clock unless it is older than our watch; zero: none
	Source        Source    // of that, as far as the objects show it
	GraceEnds     time.Time // when the grace period ends, or ended, without a further one
	Health        Health
	Ready         model.Status // the effective one, with a confirmed loss
	Since         time.Time    // when it became unready; zero: it did not

	Zone          model.Place
	State         zones.State
	Rate          float64   // of the zone, nodes per second
	Queued        bool      // it is in its zone's queue
	QueuePosition int       // nodes ahead of it in the queue
	ExpectedTaint time.Time // when it gets a token if nothing changes; zero: not at the present rate
	Pods          int
	NextPod       time.Time // the first deadline of its pods; zero: none
	Next          string    // the next step; "": none
	BlockedBy     Block     // what blocks that
	Until         time.Time // and until when; zero: not known
	Failures      int       // successive ones, of writes to it
}

// Source is the object that a sign of life came from.
type Source string

// The sources. Leases are renewed too often to store the source of each sign of life:
// one that was not the node's status was its lease.
const (
	NoSource Source = ""
	Status   Source = "status"
	Lease    Source = "lease"
)

// Health is what heartbeats and reports of a node come to.
type Health string

// The healths.
const (
	Healthy     Health = "alive"
	Suspected   Health = "suspected"   // silent, and the loss is not confirmed
	Unreachable Health = "unreachable" // silent, and the loss is confirmed
	Recovering  Health = "recovering"  // heartbeats resumed, but its Ready is still Unknown
)

// Explain returns the state of a node. It costs as much as one evaluation, and a visit
// of the affected nodes for the position in the queue.
func (f *Fleet) Explain(name string, now time.Time) Explanation {
	f.now = now
	e := Explanation{Node: name, Leads: f.leading}
	node := f.nodes[name]
	if node == nil || node.object == nil {
		return e
	}
	e.Known, e.Pods, e.Zone = true, len(node.pods), node.place()
	node.refreshView()
	e.Ready, e.Since, e.Health = node.ready(), node.unreadySince, node.reportedHealth()
	if last, ok := f.heartbeats.Last(name); ok {
		e.LastHeartbeat, e.GraceEnds, e.Source = last, f.graceEnd(node), node.source(last)
	}
	if f.leading {
		f.explainDecisions(node, &e)
	}
	return e
}

// reportedHealth returns the health as operators see it. It is recovering, too, if the
// object was Unknown for silence before this process watched and heartbeats resumed.
func (node *nodeState) reportedHealth() Health {
	switch {
	case node.health.lost() && node.health.silent():
		return Unreachable
	case node.health.silent():
		return Suspected
	case node.unknownBySilence():
		return Recovering
	}
	return Healthy
}

// source derives the source of the last sign of life: a status is written with its
// moment, and observed within a second.
func (node *nodeState) source(last time.Time) Source {
	heartbeat := node.object.Conditions[model.Ready].Heartbeat
	if age := last.Sub(heartbeat); age >= 0 && age <= time.Second {
		return Status
	}
	return Lease
}

func (f *Fleet) explainDecisions(node *nodeState, e *Explanation) {
	e.State, e.Rate = f.zones.State(e.Zone)
	e.Queued, e.Failures = node.queue == stateQueued, max(node.taintWrite.fails, node.statusWrite.fails)
	if e.Queued {
		e.QueuePosition = f.aheadOf(node)
		e.ExpectedTaint = f.expectedToken(e)
	}
	for _, p := range node.pods {
		if at, ok := f.timers.At(p.object.UID); ok && (e.NextPod.IsZero() || at.Before(e.NextPod)) {
			e.NextPod = at
		}
	}
	if node.unready() {
		e.BlockedBy, e.Until = f.blockedBy(node)
	}
	e.Next = f.next(node, e)
}

// aheadOf returns the number of nodes of the same zone that have waited for longer.
func (f *Fleet) aheadOf(node *nodeState) (n int) {
	for _, other := range f.affected {
		if other == node || other.queue != stateQueued || other.place() != node.place() {
			continue
		}
		if age := other.unreadySince.Compare(node.unreadySince); age < 0 || age == 0 && other.name < node.name {
			n++
		}
	}
	return n
}

// expectedToken returns when the node gets a token if nothing changes until then: one
// for each node ahead of it. It is zero if the present rate grants none.
func (f *Fleet) expectedToken(e *Explanation) time.Time {
	token, ok := f.zones.TokenOf(e.Zone)
	if !ok {
		return time.Time{}
	}
	if token.Before(f.now) {
		token = f.now
	}
	return token.Add(time.Duration(float64(e.QueuePosition) / e.Rate * float64(time.Second)))
}

// next describes the next step for a node.
func (f *Fleet) next(node *nodeState, e *Explanation) string {
	at, legacy := f.legacyDeadline(node)
	switch {
	case node.health.silent() && !node.health.lost():
		return "its lease is read, and it is Unknown if that was not renewed"
	case node.statusWrite.underWay() || node.taintWrite.underWay():
		return "what is being written to it comes back"
	case node.ready() == model.True && node.hasNoExecute():
		return "its NoExecute taints are removed"
	case f.needsToken(node) && f.policy.NoExecute:
		return "it is tainted " + model.KeyOf(node.ready()) + ":NoExecute"
	case f.needsToken(node):
		return "its pods are evicted"
	case legacy && at.After(f.now):
		return "its pods are evicted, from " + at.UTC().Format(time.RFC3339) + " on"
	case !e.NextPod.IsZero():
		return "a pod is evicted at " + e.NextPod.UTC().Format(time.RFC3339)
	}
	return ""
}
