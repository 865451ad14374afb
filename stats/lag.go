package stats

import (
	"os"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// The usage of a cgroup is exact, its memory.stat is not. Every CPU has its own counters, and
// the kernel collects them when memory.stat is read, if at least 64 pages per CPU have changed.
// A cgroup with such pending changes does not report them to its ancestors. If it becomes
// pending during a collection, the ancestors' counters stand still until the kernel collects
// everything, every 2 s. (Linux 6.8 and later. With checks every few milliseconds, 6.18 was 250
// MiB behind.) New page cache then counts as memory in use, and cache replaced by a program's
// memory counts as available.
//
// The cgroups of pods have no descendants that are read as often, and reading them updates
// their ancestors' counters. This applies to the lowest cgroup with processes. With crun on
// version 2 it is one level below the container's (up to 143 MiB behind if it is omitted).

// counted is a cgroup with descendants, the memory.stat of which may stand still.
type counted struct {
	lastCorrect   cgroup.MemoryUsage // last corrected usage
	lastCorrectAt time.Time
	correctedBy   time.Time // time of the pod counters in it
	corrected     bool      // the last reported usage was corrected
	used          time.Time // time of the pod counters used last

	gap   int64 // usage minus memory.stat at the last correct reading: mostly kernel memory
	known bool  // gap is known

	epoch uint32 // of observations, see signals.Observation

	stat     cgroup.MemoryStat
	hits     uint64 // limit hits since stat last changed
	hitsRead bool   // hits is valid
}

// unnoticed is the amount that may change without an update of memory.stat, in bytes.
var unnoticed = uint64(64 * processors() * os.Getpagesize())

// gapOf returns the part of the usage that is neither anonymous memory nor page cache.
func gapOf(u *cgroup.MemoryUsage) int64 { return int64(u.Usage) - int64(u.Anon) - int64(u.File) }

// isStale reports whether memory.stat stands still while memory changes. Either it no longer
// adds up to the usage; or, in a cgroup filled by page cache, it is unchanged although the
// limit was met again.
func (c *counted) isStale(m *cgroup.Memory, u *cgroup.MemoryUsage, limit signals.Amount) bool {
	if off := gapOf(u) - c.gap; !c.known || max(off, -off) > int64(4*unnoticed) {
		return true
	}
	if u.MemoryStat != c.stat {
		c.stat, c.hitsRead = u.MemoryStat, false
		return false
	}
	if u.Usage+unnoticed < uint64(max(limit, 0)) {
		return false
	}
	hits, err := m.LimitHits()
	again := err == nil && c.hitsRead && hits != c.hits
	if !c.hitsRead {
		c.hits, c.hitsRead = hits, err == nil
	}
	return again
}

// Reading all pods while memory.stat stands still takes at most a tenth of the time. It takes
// at most a quarter if a tenth would need pauses longer than maxLag: 110 pods take 1-3 ms. In
// between, the last corrected usage is returned with its time.
const (
	lagShare    = 10
	minLagShare = 3
	maxLag      = 20 * time.Millisecond
)

// pause returns the pause between two reads of all pods.
func (p *Pods) pause() time.Duration {
	return min(lagShare*p.counting, max(maxLag, minLagShare*p.counting))
}

// usageOf returns the usage of the node or of kubepods with current counters, and its time.
// While memory.stat stands still, the sum of the pods' counters replaces the counters of
// kubepods.
func (n *Node) usageOf(m *cgroup.Memory, c *counted, limit signals.Amount, at time.Time) (cgroup.MemoryUsage, time.Time, error) {
	u, err := m.Read()
	if err != nil || n.pods == nil || n.kubepods == nil {
		return u, at, err
	}
	p := n.pods
	// A measurement for a choice of pods is used here too while it is recent.
	fresh := p.countedAt.After(c.used) && at.Sub(p.countedAt) < maxLag
	stale := c.isStale(m, &u, limit)
	switch resting := at.Sub(p.countedAt) < p.pause(); {
	case fresh:
	case stale && resting && (c.correctedBy.Equal(p.countedAt) || at.Sub(c.lastCorrectAt) < p.pause()+p.counting):
		// The thread may have been suspended between the begin of the check and the read of the pods: the
		// correction by the latest counters is not outdated then.
		return c.lastCorrect, c.lastCorrectAt, nil
	case !stale || resting:
		c.corrected = false
		return u, at, nil
	}
	all, err := n.kubepods.Read()
	if err != nil {
		c.corrected = false
		return u, at, nil // no better reading exists
	}
	if !fresh {
		p.collect(all.Usage)
	}
	c.used = p.countedAt
	if !p.coversUsage(all.Usage) { // kubepods holds much memory outside of pods: no better reading exists
		c.gap, c.known, c.corrected = gapOf(&u), true, false
		return u, at, nil
	}
	c.correct(&u, p.counted.MemoryStat.Plus(outside(&all, &p.counted)).Plus(outside(&u, &all)))
	c.lastCorrect, c.lastCorrectAt, c.correctedBy = u, at, p.countedAt
	return u, at, nil
}

// outside returns the memory of whole outside of part: the node's outside of kubepods, or that
// of kubepods outside of the counted pods (page cache of ended pods stays there). The counters
// of the two may stand still at different times, so the result is limited to the difference of
// their usages.
func outside(whole, part *cgroup.MemoryUsage) cgroup.MemoryStat {
	stat := whole.MemoryStat.Minus(part.MemoryStat)
	left := whole.Usage - min(whole.Usage, part.Usage) + unnoticed
	stat.Anon = min(stat.Anon, left)
	stat.File = min(stat.File, left-stat.Anon)
	stat.ActiveFile = min(stat.ActiveFile, stat.File)
	stat.InactiveFile = min(stat.InactiveFile, stat.File-stat.ActiveFile)
	return stat
}

// correct replaces counters that may be outdated by current ones. A rate can be calculated
// between two corrections.
func (c *counted) correct(u *cgroup.MemoryUsage, current cgroup.MemoryStat) {
	was := u.ActiveFile + u.InactiveFile
	u.MemoryStat = current
	now := u.ActiveFile + u.InactiveFile
	if !c.corrected && max(was, now)-min(was, now) > 16*unnoticed {
		c.epoch++
	}
	c.gap, c.known, c.corrected = gapOf(u), true, true
}

// SetPods sets the pods below the node.
func (n *Node) SetPods(pods *Pods) { n.pods = pods }

// collect reads the counters of all pods, from containers up to QoS classes; usage is that of
// kubepods. If the open pods do not add up to usage, it opens the others, because new pods
// consume memory too.
func (p *Pods) collect(usage uint64) {
	begun := time.Now()
	p.collectKnown()
	if !p.coversUsage(usage) && p.treeErr == nil {
		found, _ := p.tree.Pods() // vanished pods are omitted
		for _, f := range found {
			p.lookup(f.UID)
		}
		p.collectKnown()
	}
	p.countedAt = time.Now()
	p.counting = p.countedAt.Sub(begun)
}

// coversUsage reports whether the counted pods make up at least eight ninths of the usage of
// kubepods.
func (p *Pods) coversUsage(usage uint64) bool {
	return p.counted.Usage+p.counted.Usage/8+unnoticed >= usage
}

func (p *Pods) collectKnown() {
	p.counted = cgroup.MemoryUsage{}
	for _, m := range p.known {
		if !m.staysOpen {
			continue
		}
		if u, err := m.upToDate(); err == nil { // else it has been removed
			p.count(u)
		}
	}
	if p.treeErr == nil {
		for _, class := range p.tree.Classes() {
			if m, err := cgroup.OpenMemoryWith(p.h, class, p.buf); err == nil {
				_, _ = m.Read() // propagates its counters
				m.Close()
			}
		}
	}
}

// count adds the usage of a pod to the total.
func (p *Pods) count(u cgroup.MemoryUsage) {
	p.countedAt = time.Now()
	p.counted.Usage += u.Usage
	p.counted.MemoryStat = p.counted.MemoryStat.Plus(u.MemoryStat)
}

// upToDate returns the usage of the pod by its own counters or by those of its containers,
// whichever add up to its usage. Its own may stand still, but only they include memory of ended
// containers.
func (m *pod) upToDate() (cgroup.MemoryUsage, error) {
	var below cgroup.MemoryStat
	for i := range m.containers {
		c, err := m.containers[i].read()
		if err != nil {
			return cgroup.MemoryUsage{}, err
		}
		below = below.Plus(c.MemoryStat)
	}
	u, err := m.own.memory.Read()
	sum := cgroup.MemoryUsage{Usage: u.Usage, MemoryStat: below}
	if own := gapOf(&u); len(m.containers) > 0 && (own < -int64(unnoticed) || own > gapOf(&sum)) {
		return sum, err
	}
	return u, err
}
