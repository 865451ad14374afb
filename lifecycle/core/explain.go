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
	Verdict  Verdict
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
	WhyNot   Hold      // and why not yet
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

// A Verdict is what is thought of a node's silence.
type Verdict string

// The verdicts.
const (
	Alive     Verdict = "alive"
	Suspect   Verdict = "suspect"   // silent, and not enough evidence yet
	Dead      Verdict = "dead"      // silent, and believed to be
	Returning Verdict = "returning" // heard again, but its Ready is Unknown still
)

// Explain says what is thought of a node. It costs what one look costs, but for
// its place in the queue, which is counted.
func (f *Fleet) Explain(name string, now time.Time) Explanation {
	f.now = now
	e := Explanation{Node: name, Leads: f.leading}
	h := f.hosts[name]
	if h == nil || h.object == nil {
		return e
	}
	e.Known, e.Pods, e.Zone = true, len(h.pods), h.place()
	h.see()
	e.Ready, e.Since, e.Verdict = h.ready(), h.since, h.verdict()
	if last, ok := f.health.Last(name); ok {
		e.LastSign, e.Silent, e.Source = last, f.death(h), h.source(last)
	}
	if f.leading {
		f.explainDecisions(h, &e)
	}
	return e
}

func (h *host) verdict() Verdict {
	switch {
	case h.lost && h.silent:
		return Dead
	case h.silent:
		return Suspect
	case h.bySilence():
		return Returning
	}
	return Alive
}

// source guesses what told of the last sign of life: a status is written with its
// moment, and is seen within a second.
func (h *host) source(last time.Time) Source {
	heartbeat := h.object.Conditions[model.Ready].Heartbeat
	if age := last.Sub(heartbeat); age >= 0 && age <= time.Second {
		return Status
	}
	return Lease
}

func (f *Fleet) explainDecisions(h *host, e *Explanation) {
	e.State, e.Rate = f.zones.State(e.Zone)
	e.Queued, e.Failures = h.waiting, max(h.spec.fails, h.status.fails)
	if h.waiting {
		e.Ahead = f.ahead(h)
		e.Turn = f.turnOf(e)
	}
	for _, p := range h.pods {
		if at, ok := f.timers.At(p.facts.UID); ok && (e.NextPod.IsZero() || at.Before(e.NextPod)) {
			e.NextPod = at
		}
	}
	if h.unready() {
		e.WhyNot, e.Until = f.hold(h)
	}
	e.Next = f.next(h, e)
}

// ahead counts those of a host's zone that wait longer.
func (f *Fleet) ahead(h *host) (n int) {
	for _, other := range f.concerned {
		if other == h || !other.waiting || other.place() != h.place() {
			continue
		}
		if age := other.since.Compare(h.since); age < 0 || age == 0 && other.name < h.name {
			n++
		}
	}
	return n
}

// turnOf is when it is a host's turn, if nothing changes until then: one token
// for each that waits longer. Zero: not at the present rate.
func (f *Fleet) turnOf(e *Explanation) time.Time {
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
func (f *Fleet) next(h *host, e *Explanation) string {
	at, legacy := f.expiry(h)
	switch {
	case h.silent && !h.lost:
		return "its lease is read, and it is Unknown if that was not renewed"
	case h.status.underWay() || h.spec.underWay():
		return "what is being written to it comes back"
	case h.ready() == model.True && h.bears():
		return "its NoExecute taints are removed"
	case f.wantsTurn(h) && f.policy.NoExecute:
		return "it is tainted " + model.KeyOf(h.ready()) + ":NoExecute"
	case f.wantsTurn(h):
		return "its pods are evicted"
	case legacy && at.After(f.now):
		return "its pods are evicted, from " + at.UTC().Format(time.RFC3339) + " on"
	case !e.NextPod.IsZero():
		return "a pod is evicted at " + e.NextPod.UTC().Format(time.RFC3339)
	}
	return ""
}
