package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// An Explanation says what is thought of a node, and what happens next.
type Explanation struct {
	Node  string
	Known bool // it has an object
	Leads bool // this fleet decides; else all about decisions is empty

	LastSign time.Time // of life, by our own clock unless it is older than our watch; zero: none
	Source   Source    // what told of it, as far as the objects still tell
	Silent   time.Time // when it is, or was, taken for silent if it is not heard of
	Health   Health
	Ready    model.Status // as it counts, our own verdict included
	Since    time.Time    // not ready since; zero: it is, or never was

	Zone     model.Place
	State    zones.State
	Rate     float64   // of the zone, nodes a second
	Queued   bool      // it waits in its zone's queue
	Ahead    int       // so many of the zone wait longer; 0: none, or it does not wait
	Turn     time.Time // of it, if nothing changes; zero: not at the present rate
	Pods     int
	NextPod  time.Time // when the first of its pods is to be evicted; zero: none
	Next     string    // what is to happen to it next; "": nothing
	WhyNot   Block     // and why not yet
	Until    time.Time // and until when that is so; zero: nobody knows
	Failures int       // of writes to it in succession
}

// A Source is what told of a sign of life.
type Source string

// The sources. A lease renews too often for its moment to be kept beside what it
// changed: what is not told by the node's status was told by its lease.
const (
	NoSource Source = ""
	Status   Source = "status"
	Lease    Source = "lease"
)

// A Health is what is thought of a node's silence.
type Health string

// The verdicts.
const (
	Healthy     Health = "alive"
	Suspected   Health = "suspect"   // silent, and not enough evidence yet
	Unreachable Health = "dead"      // silent, and believed to be
	Recovering  Health = "returning" // heard again, but its Ready is Unknown still
)

// Explain says what is thought of a node. It costs what one look costs, but for
// its place in the queue, which is counted.
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
		e.LastSign, e.Silent, e.Source = last, f.graceEnd(node), node.source(last)
	}
	if f.leading {
		f.explainDecisions(node, &e)
	}
	return e
}

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

// source guesses what told of the last sign of life: a status is written with its
// moment, and is seen within a second.
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
		e.Ahead = f.aheadOf(node)
		e.Turn = f.expectedToken(e)
	}
	for _, p := range node.pods {
		if at, ok := f.timers.At(p.object.UID); ok && (e.NextPod.IsZero() || at.Before(e.NextPod)) {
			e.NextPod = at
		}
	}
	if node.unready() {
		e.WhyNot, e.Until = f.blockedBy(node)
	}
	e.Next = f.next(node, e)
}

// aheadOf counts those of a host's zone that wait longer.
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

// expectedToken is when it is a host's turn, if nothing changes until then: one token
// for each that waits longer. Zero: not at the present rate.
func (f *Fleet) expectedToken(e *Explanation) time.Time {
	token, ok := f.zones.TokenOf(e.Zone)
	if !ok {
		return time.Time{}
	}
	if token.Before(f.now) {
		token = f.now
	}
	return token.Add(time.Duration(float64(e.Ahead) / e.Rate * float64(time.Second)))
}

// next says what is to happen to a host next.
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
