package confirm

import (
	"slices"
	"time"
)

// Decide says what follows, in a cluster of so many nodes.
func (j *Judge) Decide(nodes int, now time.Time) Findings {
	j.now = now
	j.storm.watch(j, nodes)
	j.revisit()
	f := Findings{Floor: j.outage.tell(), Dead: j.sentence()}
	for j.policy.LiveReads {
		name, ok := j.nextToRead()
		if !ok {
			break
		}
		f.Read = append(f.Read, name)
	}
	return f
}

// revisit has those read again whose lease was read before an outage was over, or
// before the breaker closed unexplained.
func (j *Judge) revisit() {
	for j.policy.LiveReads {
		name, read, ok := j.agreed.Next()
		if !ok || !read.Before(j.countsFrom()) {
			return
		}
		j.agreed.Remove(name)
		j.line(name, j.suspects[name])
	}
}

// sentence tells who is dead.
func (j *Judge) sentence() (dead []string) {
	if j.storm.open || j.outage.on || j.now.Before(j.outage.floor) {
		return nil
	}
	for {
		name, ok := j.agreed.Pop(j.now)
		if !ok {
			break
		}
		j.suspects[name].dead = true
		j.dead++
		dead = append(dead, name)
	}
	slices.Sort(dead)
	return dead
}

// nextToRead takes the next suspect whose lease may be read now.
func (j *Judge) nextToRead() (name string, ok bool) {
	for {
		name, ok = j.later.Pop(j.now)
		if !ok {
			break
		}
		j.line(name, j.suspects[name])
	}
	if j.readsFrom().After(j.now) {
		return "", false
	}
	p, _, ok := j.turn.Next()
	if !ok {
		return "", false
	}
	j.turn.Remove(p)
	name = p.name()
	j.suspects[name].tries++
	j.flying[name] = j.now
	if j.policy.ReadsPerSecond > 0 {
		j.nextRead = j.now.Add(pause(j.policy.ReadsPerSecond))
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
func (j *Judge) readsFrom() time.Time {
	if !j.outage.on && j.outage.floor.After(j.nextRead) {
		return j.outage.floor
	}
	return j.nextRead
}

// line puts a suspect among those whose lease is read as soon as possible.
func (j *Judge) line(name string, s *suspect) {
	j.turn.Set(placeOf(name), time.Unix(int64(s.tries), 0))
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
func (j *Judge) Next() (at time.Time, ok bool) {
	soonest := func(t time.Time) {
		if t = later(t, j.now); !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if j.outage.untold {
		soonest(j.now)
	}
	if j.storm.due(j) {
		soonest(j.now)
	}
	if j.storm.open {
		soonest(j.storm.since.Add(j.policy.StormLongest))
	}
	if j.agreed.Len() > 0 && !j.storm.open && !j.outage.on {
		soonest(j.outage.floor)
	}
	if j.turn.Len() > 0 {
		soonest(j.readsFrom())
	}
	if _, t, some := j.later.Next(); some {
		soonest(later(t, j.readsFrom()))
	}
	return at, ok
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
