package stats

import (
	"os"
	"runtime"
	"time"

	"plimsoll.dev/plimsoll/cgroup"
	"plimsoll.dev/plimsoll/signal"
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
// reading them makes their counters move on again in those above.

// A counted cgroup is one with cgroups below it, whose memory.stat may stand
// still.
type counted struct {
	moved cgroup.MemoryUsage // as of when memory.stat was last seen to move
	hits  uint64             // of the limit, as of then
	known bool               // hits are
	at    time.Time          // of the last look at it
}

// unnoticed is how much may change without being in memory.stat, in bytes.
var unnoticed = uint64(64 * runtime.NumCPU() * os.Getpagesize())

// stands reports whether memory.stat stands still although memory moves: the
// usage has, or, where page cache fills the cgroup up to its limit, the limit was
// met again.
func (c *counted) stands(m *cgroup.Memory, u cgroup.MemoryUsage, limit signal.Amount) bool {
	if u.MemoryStat != c.moved.MemoryStat {
		*c = counted{moved: u, at: c.at}
		return false
	}
	if max(u.Usage, c.moved.Usage)-min(u.Usage, c.moved.Usage) > unnoticed {
		return true
	}
	if u.Usage+unnoticed < uint64(max(limit, 0)) {
		return false
	}
	hits, err := m.LimitHits()
	again := err == nil && c.known && hits != c.hits
	if !c.known {
		c.hits, c.known = hits, err == nil
	}
	return again
}

// lagPace is how often all pods are read at most because memory.stat stands
// still: 110 of them take 1-3 ms.
const lagPace = 20 * time.Millisecond

// usageOf is the usage of the node or of kubepods with counters that are up to
// date: where memory.stat stands still, what the pods' own say is taken for what
// kubepods has of it.
func (n *Node) usageOf(m *cgroup.Memory, c *counted, limit signal.Amount, at time.Time) (cgroup.MemoryUsage, error) {
	u, err := m.Read()
	if err != nil || n.pods == nil || n.kubepods == nil {
		return u, err
	}
	fresh := n.pods.countedAt.After(c.at) // a pod is about to be chosen: what it goes by is used here, too
	stands := c.stands(m, u, limit)
	c.at = at
	if !fresh && !stands {
		return u, nil
	}
	all, err := n.kubepods.Read()
	if err != nil {
		return u, nil // nothing is known better
	}
	if !fresh && at.Sub(n.pods.countedAt) >= lagPace {
		n.pods.collect()
	}
	sum := &n.pods.counted
	if sum.Usage+sum.Usage/8+unnoticed < all.Usage {
		return u, nil // kubepods holds much that is none of the pods known
	}
	u.Anon = sum.Anon + u.Anon - min(u.Anon, all.Anon)
	u.File = sum.File + u.File - min(u.File, all.File)
	u.ActiveFile = sum.ActiveFile + u.ActiveFile - min(u.ActiveFile, all.ActiveFile)
	u.InactiveFile = sum.InactiveFile + u.InactiveFile - min(u.InactiveFile, all.InactiveFile)
	return u, nil
}

// Among tells the node which pods are below it.
func (n *Node) Among(pods *Pods) { n.pods = pods }

// collect reads the counters of all pods that are open, from their containers
// up to the QoS classes.
func (p *Pods) collect() {
	p.counted = cgroup.MemoryUsage{}
	for _, m := range p.known {
		if !m.kept {
			continue
		}
		u, err := m.upToDate()
		if err != nil {
			continue // removed since
		}
		p.count(u)
	}
	if p.treeErr != nil {
		return
	}
	for _, class := range p.tree.Classes() {
		if m, err := cgroup.OpenMemoryWith(p.h, class, p.buf); err == nil {
			_, _ = m.Read() // so that its counters are passed on
			m.Close()
		}
	}
}

// count adds what a pod uses to what all do.
func (p *Pods) count(u cgroup.MemoryUsage) {
	p.countedAt = time.Now()
	p.counted.Usage += u.Usage
	p.counted.Anon += u.Anon
	p.counted.File += u.File
	p.counted.ActiveFile += u.ActiveFile
	p.counted.InactiveFile += u.InactiveFile
}

// upToDate is what the pod uses. Its own counters may stand still, those of its
// containers do not; what is left of containers that have ended is in its own
// alone.
func (m *pod) upToDate() (cgroup.MemoryUsage, error) {
	var below cgroup.MemoryStat
	for i := range m.containers {
		c, err := m.containers[i].memory.Read()
		if err != nil {
			return cgroup.MemoryUsage{}, err
		}
		below.Anon += c.Anon
		below.File += c.File
		below.ActiveFile += c.ActiveFile
		below.InactiveFile += c.InactiveFile
	}
	u, err := m.own.memory.Read()
	u.Anon, u.File = max(u.Anon, below.Anon), max(u.File, below.File)
	u.ActiveFile, u.InactiveFile = max(u.ActiveFile, below.ActiveFile), max(u.InactiveFile, below.InactiveFile)
	return u, err
}
