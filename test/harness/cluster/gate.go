package cluster

import (
	"errors"
	"net"
	"sync"
	"time"
)

// gate is a listener that injects faults into its connections. Initially it injects none.
type gate struct {
	network, address string

	mu       sync.Mutex
	listener net.Listener // nil while refusing
	serve    func(net.Listener)
	conns    map[*gated]struct{}
	delay    time.Duration
	stalled  chan struct{} // closed while bytes may pass
	closed   bool
}

// openGate listens on an address or a path, and serves.
func openGate(network, address string, serve func(net.Listener)) (*gate, error) {
	g := &gate{network: network, address: address, serve: serve, conns: map[*gated]struct{}{}, stalled: make(chan struct{})}
	close(g.stalled)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.listen(); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *gate) listen() error {
	l, err := net.Listen(g.network, g.address)
	if err != nil {
		return err
	}
	g.listener = l
	go g.serve(&gatedListener{l, g})
	return nil
}

// Address returns the address for clients: host and port, or a path.
func (g *gate) Address() string { return g.address }

// Refuse closes every connection and the listener: new connections are refused, as without a
// server.
func (g *gate) Refuse() {
	g.mu.Lock()
	if g.listener != nil {
		_ = g.listener.Close()
		g.listener = nil
	}
	g.mu.Unlock()
	g.Drop()
}

// Drop closes every open connection; new connections are accepted.
func (g *gate) Drop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		_ = c.Conn.Close()
	}
}

// Stall blocks bytes in both directions: connections are accepted without any response, as in a
// network partition.
func (g *gate) Stall() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.stalled:
		g.stalled = make(chan struct{})
	default: // already stalled
	}
}

// Delay delays every response by d.
func (g *gate) Delay(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = d
}

// Pass ends every fault of connections. Returns an error if it can not listen again.
func (g *gate) Pass() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = 0
	select {
	case <-g.stalled:
	default:
		close(g.stalled)
	}
	if g.listener == nil && !g.closed {
		return g.listen()
	}
	return nil
}

func (g *gate) close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.Refuse()
	return g.Pass() // blocked goroutines then fail on their closed connections
}

// wait blocks every byte of a response during a fault.
func (g *gate) wait() {
	g.mu.Lock()
	stalled, delay := g.stalled, g.delay
	g.mu.Unlock()
	if delay > 0 {
		<-time.After(delay)
	}
	<-stalled
}

type gatedListener struct {
	net.Listener
	gate *gate
}

func (l *gatedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &gated{conn, l.gate}
	l.gate.mu.Lock()
	defer l.gate.mu.Unlock()
	if l.gate.listener == nil { // refused in the meantime
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	l.gate.conns[c] = struct{}{}
	return c, nil
}

// gated is a connection of a client.
type gated struct {
	net.Conn
	gate *gate
}

func (c *gated) Write(b []byte) (int, error) {
	c.gate.wait()
	return c.Conn.Write(b)
}

// Read blocks bytes that arrived during a stall.
func (c *gated) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.mu.Lock()
	stalled := c.gate.stalled
	c.gate.mu.Unlock()
	<-stalled
	return n, err
}

func (c *gated) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.conns, c)
	c.gate.mu.Unlock()
	if err := c.Conn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
