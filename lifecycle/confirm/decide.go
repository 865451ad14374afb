package confirm

import (
	"slices"
	"time"
)

// Decide says what follows, in a cluster of so many nodes.
func (c *Checker) Decide(nodes int, now time.Time) Findings {
	c.now = now
	c.storm.watch(c, nodes)
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

// repeatOutdated has those read again whose lease was read before an outage was over, or
// before the breaker closed unexplained.
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

// confirmed tells who is dead.
func (c *Checker) confirmed() (dead []string) {
	if c.storm.open || c.outage.on || c.now.Before(c.outage.notBefore) {
		return nil
	}
	for {
		name, ok := c.unrenewed.Pop(c.now)
		if !ok {
			break
		}
		c.suspects[name].confirmed = true
		c.lost++
		dead = append(dead, name)
	}
	slices.Sort(dead)
	return dead
}

// nextToRead takes the next suspect whose lease may be read now.
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

// pause is the time between two reads, rounded up: rather a nanosecond late than
// one read too many. It ends at 31 years, where a rate is as good as zero.
func pause(rate float64) time.Duration {
	return time.Duration(min(float64(time.Second)/rate, 1e18)) + 1
}

// readsFrom is when a read may begin: when the rate allows it, and not in
// vain. During an outage reads are how its end is noticed.
func (c *Checker) readsFrom() time.Time {
	if !c.outage.on && c.outage.notBefore.After(c.nextRead) {
		return c.outage.notBefore
	}
	return c.nextRead
}

// queueRead puts a suspect among those whose lease is read as soon as possible.
func (c *Checker) queueRead(name string, s *suspect) {
	c.queued.Set(placeOf(name), time.Unix(int64(s.tries), 0))
}

// placeOf is a name behind its hash (FNV-1a, 64 bits, mixed once more so that
// names which differ in their last letter alone do not stay neighbours).
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

// Next is when Decide could come to something, if nothing is taken in until
// then: perhaps too early, never too late. ok is false when there is nothing to
// wait for.
func (c *Checker) Next() (at time.Time, ok bool) {
	soonest := func(t time.Time) {
		if t = later(t, c.now); !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if c.outage.unreported {
		soonest(c.now)
	}
	if c.storm.due(c) {
		soonest(c.now)
	}
	if c.storm.open {
		soonest(c.storm.since.Add(c.policy.StormLongest))
	}
	if c.unrenewed.Len() > 0 && !c.storm.open && !c.outage.on {
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
