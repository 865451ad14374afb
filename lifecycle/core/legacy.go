package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// ripe reports whether a host that is not ready has been so for long enough to
// lose its pods, and has any to lose.
func (f *Fleet) ripe(h *host) bool {
	at, ok := f.expiry(h)
	return ok && !at.After(f.now) && f.peopled(h)
}

// expiry is when a host has been dead for PodEvictionTimeout: since its last sign
// of life, or since it said itself that it is not ready.
func (f *Fleet) expiry(h *host) (at time.Time, ok bool) {
	if !f.policy.LegacyEvictions || h.evicted {
		return time.Time{}, false
	}
	switch h.ready() {
	case model.Unknown:
		last, heard := f.health.Last(h.name)
		return last.Add(f.policy.PodEvictionTimeout), heard
	case model.False:
		since := notAfter(f.now, h.view.Conditions[model.Ready].Transition)
		return since.Add(f.policy.PodEvictionTimeout), true
	}
	return time.Time{}, false
}

// peopled reports whether a host has pods that eviction is for.
func (f *Fleet) peopled(h *host) bool {
	for _, p := range h.pods {
		if p.movable() {
			return true
		}
	}
	return false
}

// movable reports whether a pod is evicted with its node: those of DaemonSets
// would come back to it.
func (p *pod) movable() bool { return !p.facts.Daemon && !p.facts.Finished && !p.facts.Deleting }

// emptyOut evicts all pods of a host whose turn it is.
func (f *Fleet) emptyOut(h *host) {
	h.turn, h.evicted = false, true
	f.tell(h, DeletingAllPods, "Deleting all Pods from Node %s.", h.name)
	for _, p := range h.pods {
		f.lookPod(p)
	}
}

// oust evicts a pod of a host whose turn has come, now or long ago.
func (f *Fleet) oust(p *pod, leaving []departure) []departure {
	if !p.host.evicted || !p.movable() {
		return leaving
	}
	if hands := f.hands[p.facts.UID]; hands != nil && !hands.evict.may(f.now) {
		return leaving
	}
	return append(leaving, departure{at: f.now, pod: p, why: NodeLost})
}
