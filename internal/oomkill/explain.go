package oomkill

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Evidence is the memory around a kill.
type Evidence struct {
	At time.Time // the time at which the line about the kill was written
	// Before are readings before the kill, oldest first. After is one after it, for the limit that was
	// met; nil without one.
	Before []signals.Holdings
	After  *signals.Holdings
	// Capacity is the memory of the machine, and PageSize the size of its pages.
	Capacity signals.Measured[signals.Bytes]
	PageSize signals.Bytes
	// Freed is the anonymous memory of the largest process that this kill ended in the container of its
	// place. Several processes may share memory, so it is no sum.
	Freed signals.Bytes
	// Others are the places of further processes that were killed shortly before, or until the reading
	// After. A place without a cgroup may be anywhere.
	Others []Place
}

// Party is what held or grew most. The zero Party is unknown.
type Party struct {
	Known     bool
	Pod       *signals.Pod // nil: memory of the node outside of pods
	Container string       // of a limit of a container or of a pod
	Bytes     signals.Bytes
}

// Report explains a kill.
type Report struct {
	Kill  Kill
	Place Place
	// HeldMost held most of the memory below the limit, at least Bytes. GrewMost grew most, by at least
	// Bytes within Window; both are 0 where there is only one that could have grown.
	HeldMost, GrewMost Party
	Window             time.Duration
}

// Bounds of a clear answer.
const (
	// maxDelay is the maximum time between a kill and the reading after it.
	maxDelay = 100 * time.Millisecond
	// maxUnread is the maximum time between two readings, and between the last one and the kill. What
	// falls and rises again in a longer time looks steady.
	maxUnread = 2 * time.Second
	// minWindow is the minimum time over which growth is measured.
	minWindow = 500 * time.Millisecond
	// minDoubt is the minimum amount by which a reading may be wrong.
	minDoubt = signals.Bytes(1 << 20)
	// minGrowth is the minimum growth of what grew most.
	minGrowth = signals.Bytes(1 << 20)
)

// Explain explains a kill at its place. An answer is clear if the lower bound of one member exceeds the
// upper bounds of all others by an eighth, doubts of the readings included. What grew most must also
// have more than half of all growth. Below the limit of one container there is only one member. Without
// a reading soon after the kill, what the kernel ended is the only lower bound.
//
// One case is beyond the readings: a member that grew faster than ever until the kill, by no more than all
// members can have grown together, and freed that by itself before the reading after the kill.
func Explain(n *Node, k *Kill, p *Place, e *Evidence) Report {
	r := Report{Kill: *k, Place: *p}
	switch p.Level {
	case UnknownLevel:
		return r
	case ContainerLevel:
		r.GrewMost = Party{Known: p.Pod != nil, Pod: p.Pod, Container: p.Container}
		r.HeldMost = r.GrewMost
		r.HeldMost.Bytes = k.Used.Value
		return r
	}
	dense := *e
	dense.Before = e.dense()
	e = &dense
	total, exact := e.total(k)
	if k.LimitCgroup != "" && p.Limit == "/" || !total.Known {
		return r // a node in a container does not see the total of its own cgroup
	}
	all := e.charged(p)
	if all == nil {
		r.HeldMost = e.victimAlone(n, p, total.Value)
		return r
	}
	b := bounds{all: all, total: total.Value, exact: exact, unread: e.unread()}
	b.set(e.doubt())
	if m := clearest(all, e.doubt(), (*member).low, (*member).high); m != nil {
		r.HeldMost = n.party(p, m, m.lower)
	}
	if len(e.Before) < minReadings || e.At.Sub(e.Before[0].At) < minWindow {
		return r
	}
	if m := clearest(all, e.doubt(), (*member).minGrowth, (*member).maxGrowth); m != nil && m.minGrowth() >= minGrowth && growsMost(all, m) {
		if r.GrewMost = n.party(p, m, m.minGrowth()); r.GrewMost.Known {
			r.Window = e.At.Sub(e.Before[0].At)
		}
	}
	return r
}

// charged returns the members below the limit with the killed processes, the rest last. It is nil without a
// complete reading soon after the kill, or if a killed process may belong to any member.
func (e *Evidence) charged(p *Place) []member {
	all, ok := e.members(p)
	if !ok || e.After.At.Before(e.At) || e.After.At.Sub(e.At) > maxDelay || !e.charge(all, p) {
		return nil
	}
	return all
}

// unread returns the time between the last reading before the kill and the one after it, 0 without one before.
func (e *Evidence) unread() time.Duration {
	if n := len(e.Before); n > 0 {
		return e.After.At.Sub(e.Before[n-1].At)
	}
	return 0
}

// victimAlone returns what held most by the bounds that the killed process sets: its own memory, and for all
// others together the rest of the total. It is unknown unless that is the victim.
func (e *Evidence) victimAlone(n *Node, p *Place, total signals.Bytes) Party {
	name := p.UID
	if p.Level == PodLevel {
		name = p.ID
	}
	own := min(e.Freed, total)
	all := []member{{name: name, lower: own, upper: total}, {upper: total - own}}
	if clearest(all, e.doubt(), (*member).low, (*member).high) == nil {
		return Party{}
	}
	return n.party(p, &all[0], own)
}

// dense returns the last readings with at most maxUnread between them, and between the last one and the
// kill.
func (e *Evidence) dense() []signals.Holdings {
	from, next := len(e.Before), e.At
	for from > 0 && next.Sub(e.Before[from-1].At) <= maxUnread {
		from--
		next = e.Before[from].At
	}
	return e.Before[from:]
}

// doubt returns the amount by which a reading may be wrong.
func (e *Evidence) doubt() signals.Bytes {
	doubt := minDoubt
	if e.After != nil {
		doubt = max(doubt, e.After.Doubt)
	}
	return doubt
}

// total returns the memory that was held below the limit at the kill. If exact is false, it is all memory
// below the limit, page cache included.
func (e *Evidence) total(k *Kill) (total signals.Measured[signals.Bytes], exact bool) {
	switch free := signals.Bytes(k.FreePages) * e.PageSize; {
	case k.LimitCgroup != "" && k.Held.Known:
		return k.Held, true
	case k.LimitCgroup != "":
		return k.Used, false
	case k.PagesKnown && e.Capacity.Known && e.PageSize > 0 && free <= e.Capacity.Value:
		return signals.Of(e.Capacity.Value - free), true
	}
	return e.Capacity, false
}

func (m *member) low() signals.Bytes  { return m.lower }
func (m *member) high() signals.Bytes { return m.upper }

// minGrowth returns the minimum growth since the first reading, 0 if it is unknown.
func (m *member) minGrowth() signals.Bytes {
	if !m.first.Known {
		return 0
	}
	return max(m.lower-m.first.Value, 0)
}

// maxGrowth returns the maximum growth since the first reading.
func (m *member) maxGrowth() signals.Bytes { return max(m.upper-m.first.Value, 0) }

// clearest returns the member of the greatest lower bound, nil if the upper bound of another one comes
// too close.
func clearest(all []member, doubt signals.Bytes, low, high func(*member) signals.Bytes) *member {
	best := &all[0]
	for i := range all {
		if low(&all[i]) > low(best) {
			best = &all[i]
		}
	}
	for i := range all {
		if m := &all[i]; m != best && (low(best)-doubt)/9 < (high(m)+doubt)/8 {
			return nil
		}
	}
	return best
}

// growsMost reports whether a member has more than half of all growth.
func growsMost(all []member, m *member) bool {
	var others signals.Bytes
	for i := range all {
		if &all[i] != m {
			others += all[i].maxGrowth()
		}
	}
	return m.minGrowth() > others
}

// party returns the name of a member; the zero Party if it has none.
func (n *Node) party(p *Place, m *member, bytes signals.Bytes) Party {
	switch {
	case m.name == "":
		return Party{Known: p.Level == NodeLevel, Bytes: bytes}
	case p.Level == PodLevel:
		name := containerName(p.Pod, m.name)
		return Party{Known: name != "", Pod: p.Pod, Container: name, Bytes: bytes}
	}
	for i := range n.Pods {
		if n.Pods[i].UID == m.name {
			return Party{Known: true, Pod: &n.Pods[i], Bytes: bytes}
		}
	}
	return Party{}
}
