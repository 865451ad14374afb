package oomkill

import (
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// member is a part of the memory below a limit: a pod, a container, or the rest.
type member struct {
	name string // the UID of the pod or the name of the container's cgroup; empty for the rest
	// before and first are its holdings in the last and in the first reading before the kill.
	before, first signals.Measured[signals.Bytes]
	after         signals.Measured[signals.Bytes] // known 0 if it is gone
	own           signals.Bytes                   // anonymous memory of its processes that this kill ended
	others        signals.Bytes                   // memory that other kills of that time may have freed
	victim        bool
	ended         bool // it was there before and is gone, without being the victim

	// lower and upper bound its holdings at the kill.
	lower, upper signals.Bytes
}

// members returns the members below the limit of a kill, the rest last. ok is false if the readings do
// not cover the limit.
func (e *Evidence) members(p *Place) (all []member, ok bool) {
	after := e.After
	if after == nil || !after.Complete || !after.Total.Known || after.Within != p.limitOr("/") {
		return nil, false
	}
	var sum signals.Bytes
	for _, name := range e.names(p) {
		m := member{name: name, after: holding(after, p, name), before: holding(e.Last, p, name), first: holding(e.First, p, name)}
		if !m.after.Known {
			return nil, false
		}
		m.ended = m.before.Known && m.before.Value > 0 && m.after.Value == 0
		sum += m.after.Value
		all = append(all, m)
	}
	rest := member{after: signals.Of(max(after.Total.Value-sum, 0)), before: e.rest(e.Last, p), first: e.rest(e.First, p)}
	return append(all, rest), true
}

// limitOr returns the cgroup at its limit, or another one for the machine.
func (p *Place) limitOr(machine string) string {
	if p.Limit == "" {
		return machine
	}
	return p.Limit
}

// names returns the names of all members of any reading but the rest.
func (e *Evidence) names(p *Place) (names []string) {
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, h := range []*signals.Holdings{e.After, e.Last, e.First} {
		if h == nil {
			continue
		}
		if p.Level == PodLevel {
			if pod := h.Pod(p.UID); pod != nil {
				for i := range pod.Containers {
					add(pod.Containers[i].Name)
				}
			}
			continue
		}
		for i := range h.Pods {
			if cgroup.Within(p.limitOr("/"), h.Pods[i].Path) {
				add(h.Pods[i].UID)
			}
		}
	}
	return names
}

// holding returns what a member held in a reading. A member that a complete reading does not list held
// nothing.
func holding(h *signals.Holdings, p *Place, name string) signals.Measured[signals.Bytes] {
	var unknown signals.Measured[signals.Bytes]
	switch {
	case h == nil:
		return unknown
	case p.Level != PodLevel:
		if pod := h.Pod(name); pod != nil {
			return pod.Held
		}
	default:
		pod := h.Pod(p.UID)
		if pod == nil {
			break
		}
		for i := range pod.Containers {
			if pod.Containers[i].Name == name {
				return pod.Containers[i].Held
			}
		}
		if pod.Containers == nil {
			return unknown
		}
		return signals.Of(signals.Bytes(0))
	}
	if h.Complete {
		return signals.Of(signals.Bytes(0))
	}
	return unknown
}

// rest returns what was held below the limit outside of its members in an earlier reading.
func (e *Evidence) rest(h *signals.Holdings, p *Place) signals.Measured[signals.Bytes] {
	if h == nil || !h.Complete || !h.Total.Known || h.Within != p.limitOr("/") {
		return signals.Measured[signals.Bytes]{}
	}
	left := h.Total.Value
	for _, name := range e.names(p) {
		held := holding(h, p, name)
		if !held.Known {
			return signals.Measured[signals.Bytes]{}
		}
		left -= held.Value
	}
	return signals.Of(max(left, 0))
}

// bound sets the bounds of all members. capacity is all memory below the limit.
//
// The lower bounds need no knowledge about the time between the kill and the reading after it, which
// may be long on a busy node, and in which freed memory is allocated again:
//
//   - The victim held at least the anonymous memory of its killed processes. Unless other kills freed
//     memory too, it held at least as much as afterwards: it can have allocated no more than it freed.
//   - Any member held at least the lesser of two readings, before and after the kill.
//
// Upper bounds follow: what all other lower bounds leave. A member that is no victim also held no
// more than the greater of both readings.
func bound(all []member, capacity signals.Bytes, alone bool) {
	var sum signals.Bytes
	for i := range all {
		m := &all[i]
		if m.before.Known {
			m.lower = min(m.before.Value, m.after.Value)
		}
		if m.victim {
			m.lower = max(m.lower, m.own)
		}
		if m.victim && alone {
			m.lower = max(m.lower, m.after.Value)
		}
		sum += m.lower
	}
	for i := range all {
		m := &all[i]
		m.upper = max(capacity-(sum-m.lower), m.lower)
		if !m.victim && !m.ended {
			m.upper = min(m.upper, max(m.after.Value, m.before.Value)+m.others)
		}
	}
}

// charge adds the killed processes to their members. Returns false if a killed process may belong to
// any member.
func (e *Evidence) charge(all []member, p *Place) bool {
	victim := memberOf(all, p.Level, p)
	if victim == nil {
		return false
	}
	victim.victim, victim.ended, victim.own = true, false, e.Freed
	for i := range e.Others {
		o := &e.Others[i]
		if o.Place.Cgroup == "" {
			return false
		}
		if p.Limit != "" && !cgroup.Within(p.Limit, o.Place.Cgroup) {
			continue
		}
		m := memberOf(all, p.Level, &o.Place)
		if m == nil {
			return false
		}
		m.others += o.Freed
	}
	return true
}

// memberOf returns the member to which a killed process belongs. In a pod it is nil for a process
// outside of its containers.
func memberOf(all []member, level Level, p *Place) *member {
	name := p.UID
	if level == PodLevel {
		if name = p.ID; name == "" {
			return nil
		}
	}
	for i := range all {
		if all[i].name == name {
			return &all[i]
		}
	}
	return nil
}
