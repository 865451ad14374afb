package confirm

import (
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
)

// A Policy says what evidence is asked for.
type Policy struct {
	LiveReads      bool    // a silent node's lease is read before it is dead
	ReadsPerSecond float64 // at most so many, evenly; 0: without a bound

	Outage time.Duration // what everybody has to show himself after an outage; 0 and above

	StormNodes   int           // the breaker opens above so many suspects within StormWindow, 0: never,
	StormShare   float64       // and above this share of all nodes, 0..1: both
	StormWindow  time.Duration // above zero where StormNodes is
	StormLongest time.Duration // the breaker is open so long at most
}

// An Answer is what a live read of a lease came to.
type Answer uint8

// The answers.
const (
	Failed    Answer = iota // nobody knows
	Unrenewed               // it stands as we knew it, or there is none
	Renewed                 // the node is alive, and it is our watch that did not say so
)

// Findings are what Decide comes to.
type Findings struct {
	Read []string // begin a live read of these leases; each is to be answered once
	Lost []string // in the order of names
	// NotBefore is told once after an outage: nobody is to fall silent before it. Zero:
	// there was none.
	NotBefore time.Time
}

// A Checker holds the suspects. Of its calls' now none is earlier than the one
// before.
type Checker struct {
	policy   Policy
	suspects map[string]*suspect
	lost     int // of the suspects

	delayed   *timerqueue.Queue[string] // suspects to be read at a moment
	queued    *timerqueue.Queue[place]  // suspects to be read as soon as the rate allows it, by how often they were asked
	unrenewed *timerqueue.Queue[string] // suspects that are dead unless the breaker or an outage is in the way, by when that read began
	inFlight  map[string]time.Time      // reads that were not answered yet, by when they began: of suspects and of former ones

	nextRead time.Time // the rate allows one then

	outage outage
	storm  storm

	now time.Time // of the last call
}

// A suspect is a node that is silent.
type suspect struct {
	since     time.Time
	tries     int  // reads that began
	fails     int  // those that failed, since one did not
	confirmed bool // told as such
}

// A place is that of a suspect among those that wait for a read.
type place string

// New makes a judge without suspects.
func New(p Policy) *Checker {
	return &Checker{policy: p, suspects: map[string]*suspect{}, inFlight: map[string]time.Time{},
		delayed: timerqueue.New[string](), queued: timerqueue.New[place](), unrenewed: timerqueue.New[string]()}
}

// Reset is a judge without suspects, who knows of the same outages: whoever takes
// over when the API server is back has to give nodes time to renew as well.
func (c *Checker) Reset() *Checker {
	fresh := New(c.policy)
	fresh.now, fresh.outage = c.now, c.outage
	return fresh
}

// Add takes in that a node fell silent. Of one that is suspected or dead
// already it is no news.
func (c *Checker) Add(name string, now time.Time) {
	c.now = now
	if c.suspects[name] != nil {
		return
	}
	s := &suspect{since: now}
	c.suspects[name] = s
	c.storm.count(&c.policy, now)
	if !c.policy.LiveReads {
		c.unrenewed.Set(name, now)
	} else if _, flies := c.inFlight[name]; !flies { // else it is asked when that answer, which says nothing of now, is there
		c.queueRead(name, s)
	}
}

// Clear takes in that a node was heard again, or is gone.
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

// Heard takes in that our own watch of leases delivered something, whatever it
// was, at a moment before now, or now. It is O(1) and allocates nothing.
func (c *Checker) Heard(at, now time.Time) {
	c.now = now
	c.outage.heard = later(c.outage.heard, at)
	if c.outage.on {
		c.recovered(now)
	}
}

// Answered takes in what a read came to. An answer of nobody's read says only
// that the API server answers.
func (c *Checker) Answered(name string, a Answer, now time.Time) {
	c.now = now
	began, flew := c.inFlight[name]
	delete(c.inFlight, name)
	c.reached(a, began, now)
	if a == Renewed {
		c.storm.confirmedInRow = 0
	}
	if s := c.suspects[name]; s != nil && flew && !s.confirmed {
		c.evaluate(name, s, a, began)
	}
}

// evaluate says what an answer is worth for the suspect itself.
func (c *Checker) evaluate(name string, s *suspect, a Answer, began time.Time) {
	switch {
	case a == Failed:
		s.fails++
		c.delayed.Set(name, c.now.Add(retryDelay(s.fails)))
	case a == Renewed: // whoever asked clears it; until then it is only a little later
		s.fails = 0
		c.delayed.Set(name, c.now.Add(minRetry))
	case !c.counts(s, began):
		s.fails = 0
		c.queueRead(name, s)
	default:
		s.fails = 0
		c.storm.confirmedInRow++
		c.unrenewed.Set(name, began)
	}
}

// counts reports whether a read that began then says something of the suspect.
func (c *Checker) counts(s *suspect, began time.Time) bool {
	return !began.Before(s.since) && !began.Before(c.countsFrom())
}

// countsFrom is when a read must have begun at the earliest to be worth anything.
func (c *Checker) countsFrom() time.Time { return later(c.outage.notBefore, c.storm.closed) }

// Between one read that failed and the next of the same lease.
const (
	minRetry = time.Second
	maxRetry = 10 * time.Second
)

func retryDelay(fails int) time.Duration {
	return min(minRetry<<min(fails-1, 10), maxRetry)
}
