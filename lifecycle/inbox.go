package lifecycle

import (
	"sync"
	"sync/atomic"
	"time"
)

// renewalDelay is how long a renewal may wait to be applied with others: each wakeup of
// the owner of the fleet costs some 100 µs, many times the cost of a renewal. It moves
// no deadline: a renewal counts from the time it was received, and a due round
// applies the inbox before it decides. Only the end of a silence is noticed later, by
// that at most.
const renewalDelay = time.Second

// event is an input of the owner of the fleet.
type event interface {
	apply(c *Controller, now time.Time)
}

// renewal is a renewal of the lease named after a node. A zero time stands for a deleted lease.
type renewal struct {
	name     string
	at       time.Time
	received time.Duration // after the inbox was made
}

// renewals are in the order in which they were received.
type renewals []renewal

// maxRenewals is the number of renewals above which outdated ones are dropped. It is
// reached only if the owner of the fleet is late.
const maxRenewals = 1 << 17

// add appends a renewal. The last one of a lease counts. At most twice as many are stored as
// there are leases, however late they are applied.
func (r renewals) add(one renewal) renewals {
	if len(r) >= maxRenewals && len(r) == cap(r) {
		r = r.latest()
	}
	return append(r, one)
}

// latest returns the last renewal of each lease.
func (r renewals) latest() renewals {
	last := make(map[string]int, len(r))
	for i := range r {
		last[r[i].name] = i
	}
	latest := make(renewals, 0, 2*len(last))
	for i := range r {
		if last[r[i].name] == i {
			latest = append(latest, r[i])
		}
	}
	return latest
}

// batch is the content of an inbox, in the order in which it was received.
type batch struct {
	events        []event
	nodes, agents renewals
}

// inbox collects the observations of many goroutines for the one that owns the fleet. Its methods
// do not block.
type inbox struct {
	made     time.Time
	some     chan struct{} // has a token while the owner is to be woken
	renewals atomic.Uint64 // of leases of nodes, since the start

	mu      sync.Mutex
	pending batch
	spare   batch
	delay   *time.Timer
	delayed bool // delay runs
}

func newInbox() *inbox {
	return &inbox{made: time.Now(), some: make(chan struct{}, 1)}
}

// put adds an event.
func (m *inbox) put(l event) {
	m.mu.Lock()
	m.pending.events = append(m.pending.events, l)
	m.mu.Unlock()
	m.wake()
}

// putLater adds an event that may wait as long as a renewal. It is created with the
// time it was received.
func (m *inbox) putLater(write func(came time.Duration) event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pending.events = append(m.pending.events, write(time.Since(m.made)))
	m.wakeLater()
}

// renewed adds a renewal of a node's lease, or of its agent's.
func (m *inbox) renewed(agents bool, name string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := renewal{name, at, time.Since(m.made)}
	if agents {
		m.pending.agents = m.pending.agents.add(one)
	} else {
		m.pending.nodes = m.pending.nodes.add(one)
		m.renewals.Add(1)
	}
	m.wakeLater()
}

// wakeLater wakes the owner after renewalDelay. The caller holds mu.
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
	default: // the owner is about to be woken
	}
}

// maxSpare is the maximum capacity of a reused batch: enough for the renewals of
// 150,000 nodes within renewalDelay.
const maxSpare = 1 << 15

// timeOf returns when something was received, by the process's own clock.
func (m *inbox) timeOf(received time.Duration) time.Time { return m.made.Add(received) }

// collect empties the inbox. The result is valid until the next call.
func (m *inbox) collect() batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := m.pending
	m.pending, m.spare = m.spare.emptied(), full
	if m.delayed {
		m.delay.Stop() // its events are collected
	}
	m.delayed = false
	return full
}

// emptied returns an empty batch, with the capacity of all unless it is large.
func (p batch) emptied() batch {
	return batch{emptied(p.events), emptied(p.nodes), emptied(p.agents)}
}

// emptied returns an empty slice, with the capacity of all unless it is large.
func emptied[E any](all []E) []E {
	if cap(all) > maxSpare {
		return nil
	}
	clear(all)
	return all[:0]
}
