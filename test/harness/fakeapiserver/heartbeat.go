package fakeapiserver

import (
	"context"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Defaults of a kubelet: it renews its lease every 10 s, a quarter of the lease's 40 s, and
// writes its unchanged node status every 5 minutes.
const (
	Renewal   = 10 * time.Second
	Statement = 5 * time.Minute
)

// Beats counts sent heartbeats.
type Beats struct {
	Leases, Statuses int
}

// Beats returns the number of all heartbeats so far.
func (c *Cluster) Beats() Beats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.beats
}

// Pace multiplies the rate of lease renewals.
func (c *Cluster) Pace(times float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pace = times
}

// Silence stops the kubelets of these nodes.
func (c *Cluster) Silence(nodes ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range nodes {
		last := c.leases.heartbeats[i]
		if at := c.nodes.heartbeats[i]; at.After(last) {
			last = at
		}
		c.silent[i] = last
	}
}

// Silent returns the time of the last heartbeat of each node with a stopped kubelet.
func (c *Cluster) Silent() map[int]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.silent)
}

// Live sends the heartbeats of all kubelets, evenly distributed, until ctx ends.
func (c *Cluster) Live(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	leases, nodes := turns{count: c.size.Nodes, every: Renewal}, turns{count: c.size.Nodes, every: Statement}
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		passed := now.Sub(last)
		last = now
		c.mu.Lock()
		for i := range leases.due(passed, c.pace) {
			c.beats.Leases += c.beat(c.leases, i, now)
		}
		for i := range nodes.due(passed, 1) {
			c.beats.Statuses += c.beat(c.nodes, i, now)
		}
		c.mu.Unlock()
	}
}

// beat sends the heartbeat of a kubelet and returns the number of updates. The caller holds the
// lock.
func (c *Cluster) beat(s *store, i int, now time.Time) int {
	if _, dead := c.silent[i]; dead {
		return 0
	}
	if o, written := s.written[key(s.names(i))]; written {
		n, is := o.(*corev1.Node)
		if !is {
			return 0 // deleted, or a lease that a client has acquired
		}
		n = n.DeepCopy()
		report(n, now)
		c.put(s, n, modified)
		return 1
	}
	c.version++
	s.heartbeats[i], s.versions[i] = now, c.version
	if len(s.watchers) == 0 {
		s.forgot = c.version
		return 1
	}
	o := s.build(i, now)
	o.SetResourceVersion(strconv.FormatUint(c.version, 10))
	s.notify(newEvent(modified, c.version, o))
	return 1
}

// turns distributes count turns evenly over every period.
type turns struct {
	count   int
	every   time.Duration
	next    int
	pending float64
}

// due yields the turns of a time span, with the period divided by pace.
func (t *turns) due(passed time.Duration, pace float64) func(yield func(int) bool) {
	t.pending += pace * float64(t.count) * passed.Seconds() / t.every.Seconds()
	return func(yield func(int) bool) {
		for ; t.pending >= 1; t.pending-- {
			i := t.next
			t.next = (t.next + 1) % t.count
			if !yield(i) {
				return
			}
		}
	}
}
