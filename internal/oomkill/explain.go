package oomkill

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Evidence is the memory around a kill.
type Evidence struct {
	At time.Time // the time at which the line about the kill was read
	// First and Last are the first and the last reading before the kill, nil without one. After is a
	// reading after it, for the limit that was met; nil without one.
	First, Last, After *signals.Holdings
	// Capacity is the memory of the machine.
	Capacity signals.Measured[signals.Bytes]
	// Freed is the anonymous memory of all processes that this kill ended. Others are further kills
	// until the reading After.
	Freed  signals.Bytes
	Others []Loss
}

// Loss is the memory that another kill may have freed.
type Loss struct {
	Place Place
	Freed signals.Bytes
}

// Party is a holder or a grower. The zero Party is unknown.
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
	// Holder held most of the memory below the limit, at least Bytes. Grower grew most, by at least
	// Bytes within Window; both are 0 where there is only one that could have grown.
	Holder, Grower Party
	Window         time.Duration
}

// Bounds of a clear answer.
const (
	// maxDelay is the maximum time between a kill and the reading after it.
	maxDelay = time.Second
	// minWindow is the minimum time over which growth is measured.
	minWindow = 500 * time.Millisecond
	// minDoubt is the minimum amount by which a reading may be wrong.
	minDoubt = signals.Bytes(1 << 20)
	// minGrowth is the minimum growth of a grower.
	minGrowth = signals.Bytes(1 << 20)
)

// Explain explains a kill at its place. An answer is clear if the lower bound of one member exceeds the
// upper bounds of all others by a quarter, doubts of the readings included. A grower must also have
// more than half of all growth. Below the limit of one container there is only one member.
func Explain(n *Node, k *Kill, p *Place, e *Evidence) Report {
	r := Report{Kill: *k, Place: *p}
	switch p.Level {
	case UnknownLevel:
		return r
	case ContainerLevel:
		r.Grower = Party{Known: p.Pod != nil, Pod: p.Pod, Container: p.Container}
		r.Holder = r.Grower
		r.Holder.Bytes = k.Used.Value
		return r
	}
	capacity := k.Used
	if k.LimitCgroup == "" {
		capacity = e.Capacity
	}
	all, ok := e.members(p)
	if !ok || !capacity.Known || e.After.At.Before(e.At) || e.After.At.Sub(e.At) > maxDelay || !e.charge(all, p) {
		return r
	}
	bound(all, capacity.Value, len(e.Others) == 0)
	doubt := max(e.After.Doubt, minDoubt)
	if m := clearest(all, doubt, (*member).low, (*member).high); m != nil {
		r.Holder = n.party(p, m, m.lower)
	}
	if e.First == nil || e.At.Sub(e.First.At) < minWindow {
		return r
	}
	if m := clearest(all, doubt, (*member).minGrowth, (*member).maxGrowth); m != nil && m.minGrowth() >= minGrowth && growsMost(all, m) {
		if r.Grower = n.party(p, m, m.minGrowth()); r.Grower.Known {
			r.Window = e.At.Sub(e.First.At)
		}
	}
	return r
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
		if m := &all[i]; m != best && (low(best)-doubt)/5 < (high(m)+doubt)/4 {
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

// party returns a member as a holder or a grower; the zero Party if it has no name.
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
