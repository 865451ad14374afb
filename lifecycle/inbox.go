package lifecycle

import (
	"sync"
	"sync/atomic"
	"time"
)

// renewalDelay is how long a renewal may wait to be read with others: each time that
// the owner of the fleet is woken costs some 100 µs, many times what a renewal
// does. It moves no deadline: a renewal counts from when it came, and who comes
// round for a deadline reads before deciding. Who was silent is heard again later
// by that at most.
const renewalDelay = time.Second

// A event is something that the owner of the fleet has to know.
type event interface {
	apply(c *Controller, now time.Time)
}

// A renewal is that of the lease named after a node; a zero time: it is gone.
type renewal struct {
	name     string
	at       time.Time
	received time.Duration // after the mailbox was made
}

// renewals are in the order in which they came.
type renewals []renewal

// maxHeld is how many renewals are held before it is seen which of them are
// outdated. It takes an owner of the fleet who does not come round.
const maxHeld = 1 << 17

// add appends a renewal. Of one lease the last one counts, so that however long
// nobody reads them, no more are held than there are leases and as many again.
func (r renewals) add(one renewal) renewals {
	if len(r) >= maxHeld && len(r) == cap(r) {
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

// A batch is what a mailbox held, in the order in which it came.
type batch struct {
	events        []event
	nodes, agents renewals
}

// A inbox takes what many goroutines have learnt, for the one that owns the
// fleet. Nobody waits for it.
type inbox struct {
	made     time.Time
	some     chan struct{} // has a token while something is worth waking for
	renewals atomic.Uint64 // of leases of nodes, since the start

	mu      sync.Mutex
	held    batch
	spare   batch
	delay   *time.Timer
	delayed bool // linger runs
}

func newInbox() *inbox {
	return &inbox{made: time.Now(), some: make(chan struct{}, 1)}
}

// put takes a letter.
func (m *inbox) put(l event) {
	m.mu.Lock()
	m.held.events = append(m.held.events, l)
	m.mu.Unlock()
	m.wake()
}

// putLater takes a letter that need not be read before a renewal would be; it is told
// when it came.
func (m *inbox) putLater(write func(came time.Duration) event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held.events = append(m.held.events, write(time.Since(m.made)))
	m.wakeLater()
}

// renewed takes a renewal of a node's lease, or of its agent's.
func (m *inbox) renewed(agents bool, name string, at time.Time) {
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
func (m *inbox) wakeLater() {
	if m.delayed {
		return
	}
	m.delayed = true
	if m.delay == nil {
		m.delay = time.AfterFunc(renewalDelay, m.wake)
	} else {
		m.delay.Reset(renewalDelay)
	}
}

func (m *inbox) wake() {
	select {
	case m.some <- struct{}{}:
	default: // the one that is there tells of this, too
	}
}

// maxSpare is how much room of a post is kept to be filled again: for what 150 000
// nodes renew while a renewal lingers.
const maxSpare = 1 << 15

// moment is when something came, by the process's own clock.
func (m *inbox) moment(came time.Duration) time.Time { return m.made.Add(came) }

// collect empties the mailbox. What it returns is valid until the next call.
func (m *inbox) collect() batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := m.held
	m.held, m.spare = m.spare.emptied(), full
	if m.delayed {
		m.delay.Stop() // what it would wake for is read
	}
	m.delayed = false
	return full
}

func (p batch) emptied() batch {
	return batch{emptied(p.events), emptied(p.nodes), emptied(p.agents)}
}

// emptied holds nothing, and has room where that costs little.
func emptied[E any](all []E) []E {
	if cap(all) > maxSpare {
		return nil
	}
	clear(all)
	return all[:0]
}
