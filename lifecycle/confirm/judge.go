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
	Dead []string // in the order of names
	// Floor is told once after an outage: nobody is to fall silent before it. Zero:
	// there was none.
	Floor time.Time
}

// A Judge holds the suspects. Of its calls' now none is earlier than the one
// before.
type Judge struct {
	policy   Policy
	suspects map[string]*suspect
	dead     int // of the suspects

	later  *timerqueue.Queue[string] // suspects to be read at a moment
	turn   *timerqueue.Queue[place]  // suspects to be read as soon as the rate allows it, by how often they were asked
	agreed *timerqueue.Queue[string] // suspects that are dead unless the breaker or an outage is in the way, by when that read began
	flying map[string]time.Time      // reads that were not answered yet, by when they began: of suspects and of former ones

	nextRead time.Time // the rate allows one then

	outage outage
	storm  storm

	now time.Time // of the last call
}

// A suspect is a node that is silent.
type suspect struct {
	since time.Time
	tries int  // reads that began
	fails int  // those that failed, since one did not
	dead  bool // told as such
}

// A place is that of a suspect among those that wait for a read.
type place string

// New makes a judge without suspects.
func New(p Policy) *Judge {
	return &Judge{policy: p, suspects: map[string]*suspect{}, flying: map[string]time.Time{},
		later: timerqueue.New[string](), turn: timerqueue.New[place](), agreed: timerqueue.New[string]()}
}

// Anew is a judge without suspects, who knows of the same outages: whoever takes
// over when the API server is back has to give nodes time to renew as well.
func (j *Judge) Anew() *Judge {
	fresh := New(j.policy)
	fresh.now, fresh.outage = j.now, j.outage
	return fresh
}

// Suspect takes in that a node fell silent. Of one that is suspected or dead
// already it is no news.
func (j *Judge) Suspect(name string, now time.Time) {
	j.now = now
	if j.suspects[name] != nil {
		return
	}
	s := &suspect{since: now}
	j.suspects[name] = s
	j.storm.count(&j.policy, now)
	if !j.policy.LiveReads {
		j.agreed.Set(name, now)
	} else if _, flies := j.flying[name]; !flies { // else it is asked when that answer, which says nothing of now, is there
		j.line(name, s)
	}
}

// Clear takes in that a node was heard again, or is gone.
func (j *Judge) Clear(name string) {
	s := j.suspects[name]
	if s == nil {
		return
	}
	if s.dead {
		j.dead--
	}
	delete(j.suspects, name)
	j.later.Remove(name)
	j.agreed.Remove(name)
	j.turn.Remove(placeOf(name))
}

// Heard takes in that our own watch of leases delivered something, whatever it
// was, at a moment before now, or now. It is O(1) and allocates nothing.
func (j *Judge) Heard(at, now time.Time) {
	j.now = now
	j.outage.heard = later(j.outage.heard, at)
	if j.outage.on {
		j.recovered(now)
	}
}

// Answered takes in what a read came to. An answer of nobody's read says only
// that the API server answers.
func (j *Judge) Answered(name string, a Answer, now time.Time) {
	j.now = now
	began, flew := j.flying[name]
	delete(j.flying, name)
	j.reached(a, began, now)
	if a == Renewed {
		j.storm.run = 0
	}
	if s := j.suspects[name]; s != nil && flew && !s.dead {
		j.weigh(name, s, a, began)
	}
}

// weigh says what an answer is worth for the suspect itself.
func (j *Judge) weigh(name string, s *suspect, a Answer, began time.Time) {
	switch {
	case a == Failed:
		s.fails++
		j.later.Set(name, j.now.Add(patience(s.fails)))
	case a == Renewed: // whoever asked clears it; until then it is only a little later
		s.fails = 0
		j.later.Set(name, j.now.Add(shortest))
	case !j.counts(s, began):
		s.fails = 0
		j.line(name, s)
	default:
		s.fails = 0
		j.storm.run++
		j.agreed.Set(name, began)
	}
}

// counts reports whether a read that began then says something of the suspect.
func (j *Judge) counts(s *suspect, began time.Time) bool {
	return !began.Before(s.since) && !began.Before(j.countsFrom())
}

// countsFrom is when a read must have begun at the earliest to be worth anything.
func (j *Judge) countsFrom() time.Time { return later(j.outage.floor, j.storm.closed) }

// Between one read that failed and the next of the same lease.
const (
	shortest = time.Second
	longest  = 10 * time.Second
)

func patience(fails int) time.Duration {
	return min(shortest<<min(fails-1, 10), longest)
}
