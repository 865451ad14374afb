package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A host is a node with its pods: what was observed of it, and what was decided.
// It may have pods before, and after, it has an object.
type host struct {
	name    string
	object  *model.Node // as observed; nil: there is none
	view    *model.Node // the object with what we know better; often the object itself
	pods    []*pod      // in no order
	beliefs []belief
	moments []moment // of NoExecute taints
	turned  moment   // the transition of Ready, if it is dated ahead

	// The verdict.
	silent bool            // health said so
	heard  bool            // it was silent and is, or was, heard again; until it is lost once more
	lost   bool            // and there is evidence: its conditions are Unknown
	word   model.Condition // its own Ready when it was lost
	fell   time.Time       // when it was lost
	since  time.Time       // not ready since; zero: it is ready
	stands standing        // what it counts as in its zone and the cluster
	opined bool            // SecondOpinion was told

	// Its turn to lose its pods.
	waiting bool // in its zone's queue
	turn    bool // it was given a token, in this very Act
	freed   bool // a recovery: its taints may go

	status, spec write // a Silence, a Taint

	// Its pods.
	marking bool          // they are not ready any more
	evicted bool          // its turn came in the mode without taints
	driving []model.Taint // by which they are evicted
	held    bool          // some taints drive nobody off for the moment
	stale   bool          // its timers have to be set again, whatever changed

	looking bool // in the list of those to be looked at
}

// A standing is what a host counts as.
type standing struct {
	ready   model.Status
	counted bool
	known   bool // false: it does not count at all
}

// host is that of the name, made if there is none.
func (f *Fleet) host(name string) *host {
	h := f.hosts[name]
	if h == nil {
		h = &host{name: name}
		f.hosts[name] = h
	}
	return h
}

// release forgets a host without an object and pods.
func (f *Fleet) release(h *host) {
	if h.object == nil && len(h.pods) == 0 && f.hosts[h.name] == h {
		delete(f.hosts, h.name)
		f.alarms.Remove(h.name)
	}
}

// look puts a host among those that the next Act looks at.
func (f *Fleet) look(h *host) {
	if f.leading && !h.looking {
		h.looking = true
		f.touch.hosts = append(f.touch.hosts, h)
	}
}

// leave ends all that was decided about a host whose object is gone, or is
// another now: nothing is inherited.
func (f *Fleet) leave(h *host) {
	f.nodes--
	if f.leading {
		f.tell(h, RemovingNode, "")
		f.withdraw(h)
		f.zones.Remove(h.name)
		f.evidence.Clear(h.name)
		f.budgets.count(h.stands, standing{})
		f.recovery.waiting.Remove(h.name)
		f.alarms.Remove(h.name)
		delete(f.silent, h.name)
		delete(f.concerned, h.name)
	}
	for _, p := range h.pods {
		p.marked = false
	}
	*h = host{name: h.name, pods: h.pods, driving: h.driving, looking: h.looking}
	f.look(h)
}

// ready is the host's effective Ready.
func (h *host) ready() model.Status {
	if h.view == nil {
		return model.Absent
	}
	return h.view.Conditions[model.Ready].Status
}

// unready reports whether the host says, or is said, not to be ready.
func (h *host) unready() bool {
	r := h.ready()
	return r == model.False || r == model.Unknown
}

// bySilence reports whether the host's Ready is Unknown because it was not heard,
// and not because it says so itself.
func (h *host) bySilence() bool {
	if h.ready() != model.Unknown {
		return false
	}
	return h.lost || h.view.Conditions[model.Ready].Unheard()
}

// bears reports whether the host has one of our NoExecute taints.
func (h *host) bears() bool {
	if h.view == nil {
		return false
	}
	for i := range h.view.Taints {
		if ours(&h.view.Taints[i]) {
			return true
		}
	}
	return false
}

// ours reports whether the taint is one of the two that drive pods off a node
// that died.
func ours(t *model.Taint) bool {
	return t.Is(model.KeyNotReady, model.NoExecute) || t.Is(model.KeyUnreachable, model.NoExecute)
}
