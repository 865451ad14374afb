package lifecycle

import (
	"sync"
	"sync/atomic"
	"time"
)

// lingering is how long a renewal may wait to be read with others: each time that
// the owner of the fleet is woken costs some 100 µs, many times what a renewal
// does. It moves no deadline: a renewal counts from when it came, and who comes
// round for a deadline reads before deciding. Who was silent is heard again later
// by that at most.
const lingering = time.Second

// A letter is something that the owner of the fleet has to know.
type letter interface {
	read(c *Controller, now time.Time)
}

// A renewal is that of the lease named after a node; a zero time: it is gone.
type renewal struct {
	name string
	at   time.Time
	came time.Duration // after the mailbox was made
}

// renewals are in the order in which they came.
type renewals []renewal

// mostHeld is how many renewals are held before it is seen which of them are
// outdated. It takes an owner of the fleet who does not come round.
const mostHeld = 1 << 17

// add appends a renewal. Of one lease the last one counts, so that however long
// nobody reads them, no more are held than there are leases and as many again.
func (r renewals) add(one renewal) renewals {
	if len(r) >= mostHeld && len(r) == cap(r) {
		r = r.latest()
	}
	return append(r, one)
}

// latest are the last ones of each lease.
func (r renewals) latest() renewals {
	last := make(map[string]int, len(r))
	for i := range r {
		last[r[i].name] = i
	}
	kept := make(renewals, 0, 2*len(last))
	for i := range r {
		if last[r[i].name] == i {
			kept = append(kept, r[i])
		}
	}
	return kept
}

// A post is what a mailbox held, in the order in which it came.
type post struct {
	letters       []letter
	nodes, agents renewals
}

// A mailbox takes what many goroutines have learnt, for the one that owns the
// fleet. Nobody waits for it.
type mailbox struct {
	made     time.Time
	some     chan struct{} // has a token while something is worth waking for
	renewals atomic.Uint64 // of leases of nodes, since the start

	mu      sync.Mutex
	held    post
	spare   post
	linger  *time.Timer
	delayed bool // linger runs
}

func newMailbox() *mailbox {
	return &mailbox{made: time.Now(), some: make(chan struct{}, 1)}
}

// put takes a letter.
func (m *mailbox) put(l letter) {
	m.mu.Lock()
	m.held.letters = append(m.held.letters, l)
	m.mu.Unlock()
	m.wake()
}

// leave takes a letter that need not be read before a renewal would be; it is told
// when it came.
func (m *mailbox) leave(write func(came time.Duration) letter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held.letters = append(m.held.letters, write(time.Since(m.made)))
	m.wakeLater()
}

// renewed takes a renewal of a node's lease, or of its agent's.
func (m *mailbox) renewed(agents bool, name string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := renewal{name, at, time.Since(m.made)}
	if agents {
		m.held.agents = m.held.agents.add(one)
	} else {
		m.held.nodes = m.held.nodes.add(one)
		m.renewals.Add(1)
	}
	m.wakeLater()
}

// wakeLater has what came read when it has lingered. The mailbox is locked.
func (m *mailbox) wakeLater() {
	if m.delayed {
		return
	}
	m.delayed = true
	if m.linger == nil {
		m.linger = time.AfterFunc(lingering, m.wake)
	} else {
		m.linger.Reset(lingering)
	}
}

func (m *mailbox) wake() {
	select {
	case m.some <- struct{}{}:
	default: // the one that is there tells of this, too
	}
}

// mostSpare is how much room of a post is kept to be filled again: for what 150 000
// nodes renew while a renewal lingers.
const mostSpare = 1 << 15

// moment is when something came, by the process's own clock.
func (m *mailbox) moment(came time.Duration) time.Time { return m.made.Add(came) }

// collect empties the mailbox. What it returns is valid until the next call.
func (m *mailbox) collect() post {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := m.held
	m.held, m.spare = m.spare.emptied(), full
	if m.delayed {
		m.linger.Stop() // what it would wake for is read
	}
	m.delayed = false
	return full
}

func (p post) emptied() post {
	return post{emptied(p.letters), emptied(p.nodes), emptied(p.agents)}
}

// emptied holds nothing, and has room where that costs little.
func emptied[E any](all []E) []E {
	if cap(all) > mostSpare {
		return nil
	}
	clear(all)
	return all[:0]
}
