package confirm

import (
	"time"

	"plimsoll.dev/plimsoll/internal/backoff"
	"plimsoll.dev/plimsoll/internal/timerqueue"
)

// A Policy configures a Checker.
type Policy struct {
	LiveReads      bool    // a loss is confirmed only by a read of the node's lease
	ReadsPerSecond float64 // rate limit of reads; 0: none

	Outage time.Duration // time for nodes to renew after an outage; >= 0

	MassFailureMinNodes    int           // the breaker opens above this number of suspects within MassFailureWindow, 0: never,
	MassFailureFraction    float64       // and above this share of all nodes, 0..1: both
	MassFailureWindow      time.Duration // above zero where MassFailureMinNodes is
	MassFailureMaxDuration time.Duration // the breaker is open for this time at most
}

// An Answer is the result of a live read of a lease.
type Answer uint8

// The answers.
const (
	Failed    Answer = iota // the read failed
	Unrenewed               // the lease is as observed, or there is none
	Renewed                 // the node is alive, and our watch did not show it
)

// Findings are the result of Decide.
type Findings struct {
	Read []string // leases to read live; each read is to be answered once
	Lost []string // by name
	// NotBefore is set once after an outage: no grace period is to end before it. Zero
	// otherwise.
	NotBefore time.Time
}

// A Checker holds the suspected nodes. The now of its calls never decreases.
type Checker struct {
	policy   Policy
	suspects map[string]*suspect
	lost     int // of the suspects

	delayed   *timerqueue.Queue[string] // suspects to be read at a time
	queued    *timerqueue.Queue[place]  // suspects to be read as soon as the rate allows it, by their number of reads
	unrenewed *timerqueue.Queue[string] // suspects that are lost unless the breaker or an outage blocks that, by the start of the read
	inFlight  map[string]time.Time      // start of the reads without an answer, of suspects and of former ones

	nextRead time.Time // when the rate allows the next read

	outage      outage
	massFailure massFailure

	now time.Time // of the latest call
}

// A suspect is a node with missing heartbeats.
type suspect struct {
	since     time.Time
	tries     int  // reads that were started
	fails     int  // successive failures
	confirmed bool // reported as lost
}

// A place is the position of a suspect among those that wait for a read.
type place string

// New returns a checker without suspects.
func New(p Policy) *Checker {
	return &Checker{policy: p, suspects: map[string]*suspect{}, inFlight: map[string]time.Time{},
		delayed: timerqueue.New[string](), queued: timerqueue.New[place](), unrenewed: timerqueue.New[string]()}
}

// Reset returns a checker without suspects that has the same outages: a new leader,
// too, has to give nodes time to renew after the API server is back.
func (c *Checker) Reset() *Checker {
	fresh := New(c.policy)
	fresh.now, fresh.outage = c.now, c.outage
	return fresh
}

// SetPolicy replaces the policy. Suspects and outages stay, and so does the breaker, unless there is to be
// none. With a change of LiveReads all suspects are checked anew.
func (c *Checker) SetPolicy(p Policy, now time.Time) {
	switched := p.LiveReads != c.policy.LiveReads
	c.policy, c.now = p, now
	if !switched {
		return
	}
	for name, s := range c.suspects {
		if s.confirmed {
			continue
		}
		c.delayed.Remove(name)
		c.queued.Remove(placeOf(name))
		c.unrenewed.Remove(name)
		c.enqueue(name, s)
	}
}

// enqueue has a suspect read, or considers it lost without live reads.
func (c *Checker) enqueue(name string, s *suspect) {
	if !c.policy.LiveReads {
		c.unrenewed.Set(name, c.now)
	} else if _, reading := c.inFlight[name]; !reading { // else after that answer, which is of no use now
		c.queueRead(name, s)
	}
}

// Add adds a node with missing heartbeats. It changes nothing for one that is
// suspected or confirmed already.
func (c *Checker) Add(name string, now time.Time) {
	c.now = now
	if c.suspects[name] != nil {
		return
	}
	s := &suspect{since: now}
	c.suspects[name] = s
	c.massFailure.count(&c.policy, now)
	c.enqueue(name, s)
}

// Clear removes a node that sent a heartbeat, or is gone.
func (c *Checker) Clear(name string) {
	s := c.suspects[name]
	if s == nil {
		return
	}
	if s.confirmed {
		c.lost--
	}
	delete(c.suspects, name)
	c.delayed.Remove(name)
	c.unrenewed.Remove(name)
	c.queued.Remove(placeOf(name))
}

// Observed handles a delivery of our own watch of leases, of any lease, at a moment before
// now, or now. It is O(1) and allocates nothing.
func (c *Checker) Observed(at, now time.Time) {
	c.now = now
	c.outage.lastDelivery = later(c.outage.lastDelivery, at)
	if c.outage.on {
		c.recovered(now)
	}
}

// Answered handles the result of a read. One that was not requested shows only that the
// API server answers.
func (c *Checker) Answered(name string, a Answer, now time.Time) {
	c.now = now
	began, requested := c.inFlight[name]
	delete(c.inFlight, name)
	c.reached(a, began, now)
	if a == Renewed {
		c.massFailure.confirmedInRow = 0
	}
	if s := c.suspects[name]; s != nil && requested && !s.confirmed && c.policy.LiveReads {
		c.evaluate(name, s, a, began)
	}
}

// evaluate handles an answer about a suspect.
func (c *Checker) evaluate(name string, s *suspect, a Answer, began time.Time) {
	switch {
	case a == Failed:
		s.fails++
		c.delayed.Set(name, c.now.Add(readBackoff.After(s.fails)))
	case a == Renewed: // the caller clears it; until then the next read is delayed
		s.fails = 0
		c.delayed.Set(name, c.now.Add(readBackoff.Min))
	case !c.counts(s, began):
		s.fails = 0
		c.queueRead(name, s)
	default:
		s.fails = 0
		c.massFailure.confirmedInRow++
		c.unrenewed.Set(name, began)
	}
}

// counts reports whether a read that began then is evidence about the suspect.
func (c *Checker) counts(s *suspect, began time.Time) bool {
	return !began.Before(s.since) && !began.Before(c.countsFrom())
}

// countsFrom returns when a read must have begun at the earliest to be evidence.
func (c *Checker) countsFrom() time.Time { return later(c.outage.notBefore, c.massFailure.closed) }

// readBackoff is the delay after a failed read of a lease.
var readBackoff = backoff.Bounds{Min: time.Second, Max: 10 * time.Second}
