package oomkill

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// minReadings is the minimum number of readings before a kill that show how a member behaves.
const minReadings = 4

// member is a part of the memory below a limit: a pod, a container, or the rest.
type member struct {
	name   string // the UID of the pod or the name of the container's cgroup; empty for the rest
	first  signals.Measured[signals.Bytes]
	after  signals.Bytes // 0 if it is gone
	own    signals.Bytes // anonymous memory of its largest process that this kill ended
	victim bool
	shrunk bool // it may have freed memory since the kill, without being the victim

	// known: there are enough readings before the kill. They are between least and most, and last is the
	// last one; rises is the greatest increase per second between two of them, and steady reports
	// whether none of them is less than the one before.
	known             bool
	least, most, last signals.Bytes
	rises             float64
	steady            bool

	// lower and upper bound its holdings at the kill.
	lower, upper signals.Bytes
}

// members returns the members below the limit of a kill, the rest last. ok is false if the reading after
// the kill does not cover the limit.
func (e *Evidence) members(p *Place) (all []member, ok bool) {
	if e.After == nil || !e.After.Complete {
		return nil, false
	}
	after, before := viewOf(e.After), make([]view, len(e.Before))
	for i := range before {
		before[i] = viewOf(&e.Before[i])
	}
	names := namesOf(p, append(before, after))
	for _, name := range names {
		held := after.holding(p, name)
		if !held.Known {
			return nil, false
		}
		m := member{name: name, after: held.Value}
		m.read(before, e.doubt(), func(v *view) signals.Measured[signals.Bytes] { return v.holding(p, name) })
		m.shrunk = m.known && m.last > 0 && m.after == 0 // it has ended
		all = append(all, m)
	}
	left := after.rest(p, names)
	rest := member{after: left.Value}
	rest.read(before, e.doubt(), func(v *view) signals.Measured[signals.Bytes] { return v.rest(p, names) })
	return append(all, rest), left.Known
}

// view is a reading in which pods are found by their UIDs.
type view struct {
	*signals.Holdings
	pods map[string]*signals.PodHoldings
}

func viewOf(h *signals.Holdings) view {
	v := view{h, make(map[string]*signals.PodHoldings, len(h.Pods))}
	for i := range h.Pods {
		v.pods[h.Pods[i].UID] = &h.Pods[i]
	}
	return v
}

// read reads the holdings of a member before the kill.
func (m *member) read(before []view, doubt signals.Bytes, of func(*view) signals.Measured[signals.Bytes]) {
	n, at := 0, time.Time{}
	m.steady = true
	for i := range before {
		held := of(&before[i])
		if i == 0 {
			m.first = held
		}
		if !held.Known {
			continue
		}
		if n == 0 {
			m.least, m.most = held.Value, held.Value
		} else {
			m.rises = max(m.rises, float64(held.Value-m.last)/before[i].At.Sub(at).Seconds())
			m.steady = m.steady && held.Value >= m.last-doubt
		}
		m.least, m.most = min(m.least, held.Value), max(m.most, held.Value)
		m.last, at = held.Value, before[i].At
		n++
	}
	m.known = n >= minReadings
}

// limitOr returns the cgroup at its limit, or another one for the machine.
func (p *Place) limitOr(machine string) string {
	if p.Limit == "" {
		return machine
	}
	return p.Limit
}

// namesOf returns the names of all members of any reading but the rest.
func namesOf(p *Place, readings []view) (names []string) {
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, v := range readings {
		if p.Level == PodLevel {
			if pod := v.pods[p.UID]; pod != nil {
				for i := range pod.Containers {
					add(pod.Containers[i].Name)
				}
			}
			continue
		}
		for i := range v.Pods {
			if pod := &v.Pods[i]; !seen[pod.UID] && cgroup.Within(p.limitOr("/"), pod.Path) {
				add(pod.UID)
			}
		}
	}
	return names
}

// holding returns what a member held in the reading. A member that a complete reading does not list held
// nothing.
func (v *view) holding(p *Place, name string) signals.Measured[signals.Bytes] {
	uid := name
	if p.Level == PodLevel {
		uid = p.UID
	}
	pod := v.pods[uid]
	switch {
	case pod == nil:
		return signals.Measured[signals.Bytes]{Known: v.Complete}
	case p.Level != PodLevel:
		return pod.Held
	case pod.Containers == nil:
		return signals.Measured[signals.Bytes]{}
	}
	for i := range pod.Containers {
		if pod.Containers[i].Name == name {
			return pod.Containers[i].Held
		}
	}
	return signals.Of(signals.Bytes(0))
}

// rest returns what was held below the limit outside of its members.
func (v *view) rest(p *Place, names []string) signals.Measured[signals.Bytes] {
	left := v.Total(p.limitOr("/"))
	if p.Level == PodLevel {
		left = signals.Measured[signals.Bytes]{}
		if pod := v.pods[p.UID]; pod != nil {
			left = pod.Held
		}
	}
	for _, name := range names {
		held := v.holding(p, name)
		left.Value, left.Known = left.Value-held.Value, left.Known && held.Known
	}
	left.Value = max(left.Value, 0)
	return left
}

// bounds bound what members held at a kill.
type bounds struct {
	all   []member
	total signals.Bytes // held below the limit at the kill; an upper bound unless exact
	exact bool
	// unread is the time from the last reading before the kill to the one after it.
	unread time.Duration
}

// set sets the bounds of all members:
//
//   - The victim held at least the anonymous memory of its largest killed process.
//   - A member with enough readings held no less than the least of them, or than the last one if it
//     never fell, if it held that after the kill as well.
//   - No member held more than what the lower bounds of all others leave of the total.
//
// The bounds by growth are narrower, see [bounds.narrow]. Memory that was freed by the kill and is allocated
// again before it is read raises only the upper bounds of others.
func (b *bounds) set(doubt signals.Bytes) {
	var lowest, grown signals.Bytes
	for i := range b.all {
		m := &b.all[i]
		m.lower = m.own
		if m.known {
			before := m.least
			if m.steady {
				before = m.last
			}
			m.lower = max(m.lower, min(before, m.after))
		}
		lowest += m.lower
	}
	narrow := b.exact
	for i := range b.all {
		m := &b.all[i]
		m.upper = max(b.total-(lowest-m.lower), m.lower)
		most, known := m.grown(b.unread)
		grown, narrow = grown+most, narrow && known
	}
	if narrow && grown+doubt+b.total/growthDoubt >= b.total {
		b.narrow(max(b.total-grown, 0))
	}
}

// growthDoubt is the part of the total by which growth may exceed that between readings.
const growthDoubt = 64

// grown returns the amount that a member held at most if it grew no faster than between its readings. It
// is unknown for a member that was killed too, or has ended. Memory outside of pods that was not read
// before does not fall within the milliseconds after a kill.
func (m *member) grown(unread time.Duration) (most signals.Bytes, known bool) {
	most = max(m.most, m.after) + signals.Bytes(m.rises*unread.Seconds())
	return most, (m.known || m.name == "") && (m.victim || !m.shrunk)
}

// narrow narrows the bounds by growth. It requires that all members together can have grown to the total.
// Otherwise one of them grew faster than before, and may have freed that memory again before it was read.
// The victim held at least what the upper bounds of all others leave of the total. This covers processes
// that end with the killed one, without a line of the kernel.
func (b *bounds) narrow(missing signals.Bytes) {
	var victim *member
	var highest signals.Bytes // of all but the victim
	for i := range b.all {
		m := &b.all[i]
		if m.victim {
			victim = m
			continue
		}
		most, _ := m.grown(b.unread)
		m.upper = min(m.upper, most+missing)
		highest += m.upper
	}
	if victim != nil {
		victim.lower = min(max(victim.lower, b.total-highest), victim.upper)
	}
}

// charge adds the killed processes to their members. Returns false if a killed process may belong to
// any member.
func (e *Evidence) charge(all []member, p *Place) bool {
	victim := memberOf(all, p.Level, p)
	if victim == nil {
		return false
	}
	victim.victim, victim.own = true, e.Freed
	for i := range e.Others {
		o := &e.Others[i]
		if o.Cgroup == "" {
			return false
		}
		if p.Limit != "" && !cgroup.Within(p.Limit, o.Cgroup) {
			continue
		}
		m := memberOf(all, p.Level, o)
		if m == nil {
			return false
		}
		m.shrunk = true
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
