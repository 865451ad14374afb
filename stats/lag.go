package stats

import (
	"os"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// The usage of a cgroup is exact, its memory.stat is not: every CPU counts for
// itself, and the kernel collects that when memory.stat is read, but only if at
// least 64 pages for each CPU have changed. A cgroup that is due keeps what
// changes in it from being noted in those above it; if it gets due in the moment
// in which those were collected, they stand still until the kernel collects
// everything, every 2 s. (Linux 6.8 and later; seen on 6.18 with looks every few
// milliseconds: 250 MiB behind.) Page cache that comes then looks like memory in
// use, and cache that goes for a program like memory available.
//
// The cgroups of the pods have nobody below them that is looked at as often, and
// reading them makes their counters move on again in those above. That holds for the
// last in which processes are: with crun on version 2 that is one further down than
// the container's (up to 143 MiB behind if it is left out).

// A counted cgroup is one with cgroups below it, whose memory.stat may stand
// still.
type counted struct {
	right   cgroup.MemoryUsage // when it was corrected last
	rightAt time.Time
	told    bool      // what was told last was right
	used    time.Time // when the pods' counters were read that were used last

	gap   int64 // of usage to what memory.stat said of it when it was right: kernel memory, mostly
	known bool  // the gap is

	basis uint32 // of observations, see signal.Observation

	stat  cgroup.MemoryStat
	hits  uint64 // of the limit, since stat is as it is
	asked bool   // for the hits
}

// unnoticed is how much may change without being in memory.stat, in bytes.
var unnoticed = uint64(64 * processors() * os.Getpagesize())

// gapOf is the part of the usage that is neither anonymous memory nor page cache.
func gapOf(u *cgroup.MemoryUsage) int64 { return int64(u.Usage) - int64(u.Anon) - int64(u.File) }

// stands reports whether memory.stat stands still although memory moves: it no
// longer makes up the usage; or, where page cache fills the cgroup and one kind
// of memory takes the place of another, it is the same and the limit was met
// again.
func (c *counted) stands(m *cgroup.Memory, u *cgroup.MemoryUsage, limit signals.Amount) bool {
	if off := gapOf(u) - c.gap; !c.known || max(off, -off) > int64(4*unnoticed) {
		return true
	}
	if u.MemoryStat != c.stat {
		c.stat, c.asked = u.MemoryStat, false
		return false
	}
	if u.Usage+unnoticed < uint64(max(limit, 0)) {
		return false
	}
	hits, err := m.LimitHits()
	again := err == nil && c.asked && hits != c.hits
	if !c.asked {
		c.hits, c.asked = hits, err == nil
	}
	return again
}

// Reading all pods, where memory.stat stands still, takes a tenth of the time at
// most, and a quarter where there are so many that this would be longer than
// mostLag: 110 pods take 1-3 ms. In between, the last that was right is told,
// with its time.
const (
	lagShare = 10
	lagLeast = 3
	maxLag   = 20 * time.Millisecond
)

// rest is how long the pods are not read again.
func (p *Pods) rest() time.Duration {
	return min(lagShare*p.counting, max(maxLag, lagLeast*p.counting))
}

// usageOf is the usage of the node or of kubepods with counters that are up to
// date, and when it was: where memory.stat stands still, what the pods' own say
// is taken for what kubepods has of it.
func (n *Node) usageOf(m *cgroup.Memory, c *counted, limit signals.Amount, at time.Time) (cgroup.MemoryUsage, time.Time, error) {
	u, err := m.Read()
	if err != nil || n.pods == nil || n.kubepods == nil {
		return u, at, err
	}
	p := n.pods
	// A pod is about to be chosen: what it goes by is used here, too, while it is new.
	fresh := p.countedAt.After(c.used) && at.Sub(p.countedAt) < maxLag
	stands := c.stands(m, &u, limit)
	switch rests := at.Sub(p.countedAt) < p.rest(); {
	case fresh:
	case stands && rests && at.Sub(c.rightAt) < p.rest()+p.counting:
		return c.right, c.rightAt, nil
	case !stands || rests:
		c.told = false
		return u, at, nil
	}
	all, err := n.kubepods.Read()
	if err != nil {
		c.told = false
		return u, at, nil // nothing is known better
	}
	if !fresh {
		p.collect(all.Usage)
	}
	c.used = p.countedAt
	if !p.countsMost(all.Usage) { // kubepods holds much that is no pod's: there is nothing better
		c.gap, c.known, c.told = gapOf(&u), true, false
		return u, at, nil
	}
	c.correct(&u, p.counted.MemoryStat.Plus(beside(&all, &p.counted)).Plus(beside(&u, &all)))
	c.right, c.rightAt = u, at
	return u, at, nil
}

// beside is what a cgroup holds besides a part of it: a node besides kubepods,
// kubepods besides the pods that are counted (page cache of those that have ended
// stays with it). The counters of the two may stand still at different times: it
// is no more than the usage of the two leaves.
func beside(whole, part *cgroup.MemoryUsage) cgroup.MemoryStat {
	stat := whole.MemoryStat.Minus(part.MemoryStat)
	left := whole.Usage - min(whole.Usage, part.Usage) + unnoticed
	stat.Anon = min(stat.Anon, left)
	stat.File = min(stat.File, left-stat.Anon)
	stat.ActiveFile = min(stat.ActiveFile, stat.File)
	stat.InactiveFile = min(stat.InactiveFile, stat.File-stat.ActiveFile)
	return stat
}

// correct puts counters that are right in the place of those that may not be.
// Between two corrections a rate can be taken.
func (c *counted) correct(u *cgroup.MemoryUsage, right cgroup.MemoryStat) {
	was := u.ActiveFile + u.InactiveFile
	u.MemoryStat = right
	now := u.ActiveFile + u.InactiveFile
	if !c.told && max(was, now)-min(was, now) > 16*unnoticed {
		c.basis++
	}
	c.gap, c.known, c.told = gapOf(u), true, true
}

// Among tells the node which pods are below it.
func (n *Node) Among(pods *Pods) { n.pods = pods }

// collect reads the counters of all pods, from their containers up to the QoS
// classes, where usage is that of all together. Pods that are not open are
// opened if those that are do not make it up: new ones fill memory, too.
func (p *Pods) collect(usage uint64) {
	begun := time.Now()
	p.collectKnown()
	if !p.countsMost(usage) && p.treeErr == nil {
		found, _ := p.tree.Pods() // what vanishes meanwhile is none
		for _, f := range found {
			p.lookUp(f.UID)
		}
		p.collectKnown()
	}
	p.countedAt = time.Now()
	p.counting = p.countedAt.Sub(begun)
}

// countsMost reports whether the pods counted make up the usage of kubepods, but
// for a ninth of it.
func (p *Pods) countsMost(usage uint64) bool {
	return p.counted.Usage+p.counted.Usage/8+unnoticed >= usage
}

func (p *Pods) collectKnown() {
	p.counted = cgroup.MemoryUsage{}
	for _, m := range p.known {
		if !m.kept {
			continue
		}
		if u, err := m.upToDate(); err == nil { // else it was removed since
			p.count(u)
		}
	}
	if p.treeErr == nil {
		for _, class := range p.tree.Classes() {
			if m, err := cgroup.OpenMemoryWith(p.h, class, p.buf); err == nil {
				_, _ = m.Read() // so that its counters are passed on
				m.Close()
			}
		}
	}
}

// count adds what a pod uses to what all do.
func (p *Pods) count(u cgroup.MemoryUsage) {
	p.countedAt = time.Now()
	p.counted.Usage += u.Usage
	p.counted.MemoryStat = p.counted.MemoryStat.Plus(u.MemoryStat)
}

// upToDate is what the pod uses, by its own counters or by those of its
// containers, whichever make up its usage: its own may stand still, and what is
// left of containers that have ended is in its own alone.
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
