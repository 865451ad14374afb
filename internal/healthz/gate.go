package healthz

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Limits bound the connections of one listener. A new connection is always accepted: above a limit,
// an older one is closed for it.
type Limits struct {
	// Total is the maximum number of concurrent connections.
	Total int
	// PerSource is the maximum number from one source: an IPv4 address, or the 64-bit prefix of an
	// IPv6 address.
	PerSource int
	// Rate is the number of connections accepted per second after Burst of them. Above it they
	// wait, so that a flood costs a bounded share of a processor.
	Rate, Burst float64
}

// The limits of the two kinds of listeners.
var (
	// TCPLimits are those of an address that other machines may reach.
	TCPLimits = Limits{Total: 64, PerSource: 16, Rate: 5000, Burst: 10000}
	// SocketLimits are those of a Unix socket, where all connections have one source.
	SocketLimits = Limits{Total: 16, PerSource: 16, Rate: 5000, Burst: 10000}
)

// gate is a listener that enforces the limits.
type gate struct {
	net.Listener
	limits Limits
	// slots holds one element per connection that the server has not closed. There are twice as
	// many as the limit, because the goroutine of a connection closed by the gate ends a little
	// later.
	slots chan struct{}
	done  chan struct{}
	end   sync.Once

	mu    sync.Mutex
	pace  bucket
	conns []*conn // those within the limits, oldest first
}

func newGate(l net.Listener, limits Limits) *gate {
	return &gate{Listener: l, limits: limits, slots: make(chan struct{}, 2*limits.Total), done: make(chan struct{}),
		pace: bucket{rate: limits.Rate, burst: limits.Burst}}
}

// Accept returns the next connection. Returns net.ErrClosed after Close.
func (g *gate) Accept() (net.Conn, error) {
	select {
	case g.slots <- struct{}{}:
	case <-g.done:
		return nil, net.ErrClosed
	}
	accepted, err := g.next()
	if err != nil {
		<-g.slots
		return nil, err
	}
	c := &conn{Conn: accepted, gate: g, source: sourceOf(accepted.RemoteAddr())}
	if victim := g.admit(c); victim != nil {
		victim.abort()
	}
	return c, nil
}

// next accepts at the rate of the limits.
func (g *gate) next() (net.Conn, error) {
	g.mu.Lock()
	wait := g.pace.take(time.Now())
	g.mu.Unlock()
	if wait > 0 {
		due := time.NewTimer(wait)
		defer due.Stop()
		select {
		case <-due.C:
		case <-g.done:
			return nil, net.ErrClosed
		}
	}
	return g.Listener.Accept()
}

// Close ends Accept.
func (g *gate) Close() error {
	g.end.Do(func() { close(g.done) })
	return g.Listener.Close()
}

// admit adds c, and returns the connection that exceeds a limit now, if any.
func (g *gate) admit(c *conn) (victim *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if victim = g.surplus(c.source); victim != nil {
		g.remove(victim)
	}
	g.conns = append(g.conns, c)
	return victim
}

// surplus returns the connection to close for one more from source; nil if the limits allow it.
// Connections without a request in progress are closed first; of these, those of the source with
// most connections; of these, the oldest.
func (g *gate) surplus(source netip.Prefix) (found *conn) {
	counts := map[netip.Prefix]int{}
	for _, c := range g.conns {
		counts[c.source]++
	}
	own := counts[source] >= g.limits.PerSource
	if !own && len(g.conns) < g.limits.Total {
		return nil
	}
	for _, c := range g.conns {
		switch {
		case own && c.source != source:
		case found == nil, found.busy && !c.busy, found.busy == c.busy && counts[c.source] > counts[found.source]:
			found = c
		}
	}
	return found
}

// remove takes c off the list. The caller holds mu.
func (g *gate) remove(c *conn) {
	if i := slices.Index(g.conns, c); i >= 0 {
		g.conns = slices.Delete(g.conns, i, i+1)
	}
}

// conn is a connection within the limits of a gate.
type conn struct {
	net.Conn
	gate   *gate
	source netip.Prefix // zero for a Unix socket
	busy   bool         // an allowed request is in progress; guarded by gate.mu
	closed sync.Once
}

// Close closes the connection and releases its slot.
func (c *conn) Close() error {
	c.closed.Do(func() {
		c.gate.mu.Lock()
		c.gate.remove(c)
		c.gate.mu.Unlock()
		<-c.gate.slots
	})
	return c.Conn.Close()
}

// abort ends the connection and discards its data in the kernel. The server closes it as soon as
// its goroutine gets the error.
func (c *conn) abort() {
	if tcp, is := c.Conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.Close()
}

// setBusy sets whether an allowed request is in progress.
func (c *conn) setBusy(is bool) {
	c.gate.mu.Lock()
	c.busy = is
	c.gate.mu.Unlock()
}

type connKey struct{}

// withConn stores the gate's connection in the context of its requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if wrapped, is := c.(interface{ NetConn() net.Conn }); is {
		c = wrapped.NetConn() // TLS
	}
	return context.WithValue(ctx, connKey{}, c)
}

// underWay runs next with its connection marked busy.
func underWay(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, is := r.Context().Value(connKey{}).(*conn); is {
			c.setBusy(true)
			defer c.setBusy(false)
		}
		next.ServeHTTP(w, r)
	})
}

// sourceOf returns the source of an address; zero for a Unix socket.
func sourceOf(a net.Addr) netip.Prefix {
	tcp, is := a.(*net.TCPAddr)
	if !is {
		return netip.Prefix{}
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 32
	if address.Is6() {
		bits = 64
	}
	prefix, err := address.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// bucket is a token bucket: it allows burst actions at once and rate per second after that. The
// zero time of last means that it is full.
type bucket struct {
	rate, burst float64
	spent       float64
	last        time.Time
}

// take uses one token, and returns the delay until the action is allowed.
func (b *bucket) take(now time.Time) (wait time.Duration) {
	b.refill(now)
	b.spent++
	return time.Duration(max(0, b.spent-b.burst) / b.rate * float64(time.Second))
}

// tryTake uses one token if the action is allowed at once.
func (b *bucket) tryTake(now time.Time) bool {
	if b.refill(now); b.spent > b.burst-1 {
		return false
	}
	b.spent++
	return true
}

func (b *bucket) refill(now time.Time) {
	b.spent = max(0, b.spent-now.Sub(b.last).Seconds()*b.rate)
	b.last = now
}
