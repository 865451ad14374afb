package confirm

import (
	"slices"
	"time"
)

// Decide returns what follows in a cluster of this many nodes.
func (c *Checker) Decide(nodes int, now time.Time) Findings {
	c.now = now
	c.massFailure.update(c, nodes)
	c.repeatOutdated()
	f := Findings{NotBefore: c.outage.takeNotBefore(), Lost: c.confirmed()}
	for c.policy.LiveReads {
		name, ok := c.nextToRead()
		if !ok {
			break
		}
		f.Read = append(f.Read, name)
	}
	return f
}

// repeatOutdated queues another read of leases that were read before an outage ended,
// or before the breaker closed without an explanation.
func (c *Checker) repeatOutdated() {
	for c.policy.LiveReads {
		name, read, ok := c.unrenewed.Next()
		if !ok || !read.Before(c.countsFrom()) {
			return
		}
		c.unrenewed.Remove(name)
		c.queueRead(name, c.suspects[name])
	}
}

// confirmed returns the nodes with a loss that is confirmed now.
func (c *Checker) confirmed() (lost []string) {
	if c.massFailure.open || c.outage.on || c.now.Before(c.outage.notBefore) {
		return nil
	}
	for {
		name, ok := c.unrenewed.Pop(c.now)
		if !ok {
			break
		}
		c.suspects[name].confirmed = true
		c.lost++
		lost = append(lost, name)
	}
	slices.Sort(lost)
	return lost
}

// nextToRead removes the next suspect with a lease that may be read now.
func (c *Checker) nextToRead() (name string, ok bool) {
	for {
		name, ok = c.delayed.Pop(c.now)
		if !ok {
			break
		}
		c.queueRead(name, c.suspects[name])
	}
	if c.readsFrom().After(c.now) {
		return "", false
	}
	p, _, ok := c.queued.Next()
	if !ok {
		return "", false
	}
	c.queued.Remove(p)
	name = p.name()
	c.suspects[name].tries++
	c.inFlight[name] = c.now
	if c.policy.ReadsPerSecond > 0 {
		c.nextRead = c.now.Add(pause(c.policy.ReadsPerSecond))
	}
	return name, true
}

// pause returns the time between two reads, rounded up, so that the rate is never
// exceeded. It is at most 31 years, a rate of practically zero.
func pause(rate float64) time.Duration {
	return time.Duration(min(float64(time.Second)/rate, 1e18)) + 1
}

// readsFrom returns when a read may begin: when the rate allows it and its result would
// count. During an outage reads detect its end.
func (c *Checker) readsFrom() time.Time {
	if !c.outage.on && c.outage.notBefore.After(c.nextRead) {
		return c.outage.notBefore
	}
	return c.nextRead
}

// queueRead has the lease of a suspect read as soon as possible: in the order of started reads,
// which serve as the time of the queue.
func (c *Checker) queueRead(name string, s *suspect) {
	c.queued.Set(placeOf(name), time.Unix(int64(s.tries), 0))
}

// placeOf returns a name behind its hash (FNV-1a, 64 bits, mixed once more, so that
// names which differ only in the last letter do not stay neighbours).
func placeOf(name string) place {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h = (h ^ h>>32) * 0x9e3779b97f4a7c15
	var b [8]byte
	for i := range b {
		b[i] = byte(h >> (56 - 8*i))
	}
	return place(b[:]) + place(name)
}

func (p place) name() string { return string(p[8:]) }

// Next returns when Decide could have findings, if nothing happens until then: perhaps
// too early, never too late. ok is false if there is nothing to wait for.
func (c *Checker) Next() (at time.Time, ok bool) {
	soonest := func(t time.Time) {
		if t = later(t, c.now); !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if c.outage.unreported {
		soonest(c.now)
	}
	if c.massFailure.due(c) {
		soonest(c.now)
	}
	if c.massFailure.open {
		soonest(c.massFailure.since.Add(c.policy.MassFailureMaxDuration))
	}
	if c.unrenewed.Len() > 0 && !c.massFailure.open && !c.outage.on {
		soonest(c.outage.notBefore)
	}
	if c.queued.Len() > 0 {
		soonest(c.readsFrom())
	}
	if _, t, some := c.delayed.Next(); some {
		soonest(later(t, c.readsFrom()))
	}
	return at, ok
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
