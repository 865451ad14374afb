package lifecycle

import (
	"sync"
	"sync/atomic"
	"time"
)

// lingering is how long a renewal may wait to be read with others: 15 000 a second
// would wake the owner of the fleet as often. Deadlines are later by that at most.
const lingering = 50 * time.Millisecond

// A letter is something that the owner of the fleet has to know.
type letter interface {
	read(c *Controller, now time.Time)
}

// renewals are the latest renewals by the names of nodes; a zero time: the lease
// is gone.
type renewals map[string]time.Time

// A post is what a mailbox held: renewals in no order, they are all of different
// leases; letters in theirs.
type post struct {
	letters       []letter
	nodes, agents renewals
}

// A mailbox takes what many goroutines have learnt, for the one that owns the
// fleet. Nobody waits for it. Of the renewals of one lease the last one is kept.
type mailbox struct {
	some     chan struct{} // has a token while something is worth waking for
	renewals atomic.Uint64 // of leases of nodes, since the start

	mu      sync.Mutex
	held    post
	spare   post
	linger  *time.Timer
	delayed bool // linger runs
}

func newMailbox() *mailbox {
	return &mailbox{
		some: make(chan struct{}, 1),
		held: post{nodes: renewals{}, agents: renewals{}}, spare: post{nodes: renewals{}, agents: renewals{}},
	}
}

// put takes a letter.
func (m *mailbox) put(l letter) {
	m.mu.Lock()
	m.held.letters = append(m.held.letters, l)
	m.mu.Unlock()
	m.wake()
}

// renewed takes a renewal of a node's lease, or of its agent's.
func (m *mailbox) renewed(agents bool, name string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if agents {
		m.held.agents[name] = at
	} else {
		m.held.nodes[name] = at
		m.renewals.Add(1)
	}
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

// mostSpare is how much of a post is kept to be filled again: clearing a map costs
// what it once held.
const mostSpare = 8192

// collect empties the mailbox. What it returns is valid until the next call.
func (m *mailbox) collect() post {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := m.held
	m.held, m.spare = m.spare.emptied(), full
	m.delayed = false
	return full
}

func (p post) emptied() post {
	if len(p.nodes) > mostSpare {
		p.nodes = renewals{}
	}
	if len(p.agents) > mostSpare {
		p.agents = renewals{}
	}
	if cap(p.letters) > mostSpare {
		p.letters = nil
	}
	clear(p.nodes)
	clear(p.agents)
	clear(p.letters)
	p.letters = p.letters[:0]
	return p
}
