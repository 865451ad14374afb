package healthz

import (
	"crypto/tls"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// TestGate_BoundsHoldForAnyConnections: for any sequence of connections no limit is exceeded and
// every new connection is admitted. A source with one connection retains it while another source
// has more.
func TestGate_BoundsHoldForAnyConnections(t *testing.T) {
	limits := Limits{Total: 8, PerSource: 3}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		g := newGate(nil, limits)
		for range 200 {
			if len(g.conns) > 0 && random.IntN(3) == 0 {
				c := g.conns[random.IntN(len(g.conns))]
				if c.busy = !c.busy; random.IntN(2) == 0 {
					g.remove(c)
				}
			}
			address := netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(12))})
			c := &conn{gate: g, source: netip.PrefixFrom(address, 32)}
			counts, idle := census(g.conns)
			victim := g.admit(c)
			checkAdmitted(t, g, c)
			if victim != nil && counts[c.source] < limits.PerSource && idle > 0 && (victim.busy || counts[victim.source] < highestIdle(g.conns, victim, counts)) {
				t.Fatalf("seed %d: closed a connection of %s, busy %t, counts %v", seed, victim.source, victim.busy, counts)
			}
		}
	}
}

// census returns the number of connections of each source, and of all without a request.
func census(conns []*conn) (counts map[netip.Prefix]int, idle int) {
	counts = map[netip.Prefix]int{}
	for _, c := range conns {
		if counts[c.source]++; !c.busy {
			idle++
		}
	}
	return counts, idle
}

// highestIdle returns the highest count of a source that had a connection to close.
func highestIdle(left []*conn, victim *conn, counts map[netip.Prefix]int) (highest int) {
	highest = counts[victim.source]
	for _, c := range left[:len(left)-1] {
		if !c.busy {
			highest = max(highest, counts[c.source])
		}
	}
	return highest
}

func checkAdmitted(t *testing.T, g *gate, c *conn) {
	t.Helper()
	counts, _ := census(g.conns)
	if len(g.conns) > g.limits.Total || counts[c.source] > g.limits.PerSource || g.conns[len(g.conns)-1] != c {
		t.Fatalf("%d connections, %d of %s, the new one admitted: %t", len(g.conns), counts[c.source], c.source, g.conns[len(g.conns)-1] == c)
	}
}

func TestSourceOf_GroupsAddressesOfOneClient(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"10.0.0.1:1", "10.0.0.1:2", true},
		{"10.0.0.1:1", "10.0.0.2:1", false},
		{"[::ffff:10.0.0.1]:1", "10.0.0.1:2", true},
		{"[fd00::1]:1", "[fd00::2]:1", true},
		{"[fd00::1]:1", "[fd00:0:0:1::1]:1", false},
	} {
		of := func(text string) netip.Prefix {
			return sourceOf(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)))
		}
		if got := of(c.a) == of(c.b); got != c.same {
			t.Errorf("%s and %s: one source %t, want %t", c.a, c.b, got, c.same)
		}
	}
}

func TestBucket_AllowsBurstAndThenRate(t *testing.T) {
	b := bucket{rate: 10, burst: 3}
	now := time.Unix(1e9, 0)
	var allowed int
	for i := range 1000 { // 10 s
		if b.tryTake(now.Add(time.Duration(i) * 10 * time.Millisecond)) {
			allowed++
		}
	}
	if allowed < 100 || allowed > 103 {
		t.Errorf("%d actions in 10 s, want 3 and 10 per second", allowed)
	}
	p := bucket{rate: 10, burst: 3}
	for i, want := range []time.Duration{0, 0, 0, 100 * time.Millisecond, 200 * time.Millisecond} {
		if wait := p.take(now); wait.Round(time.Microsecond) != want {
			t.Errorf("action %d waits for %s, want %s", i, wait, want)
		}
	}
}

// TestTLS_HandshakesAreBounded: a source above its share gets no handshake, other sources do.
func TestTLS_HandshakesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := boundHandshakes(&tls.Config{})
		hello := func(from string) bool {
			_, err := config.GetConfigForClient(&tls.ClientHelloInfo{Conn: fromAddress{from: netip.MustParseAddrPort(from + ":1")}})
			return err == nil
		}
		allowed := 0
		for range 1000 {
			if hello("10.0.0.1") {
				allowed++
			}
			<-time.After(10 * time.Millisecond)
		}
		if bound := 10*sourceHandshakes + sourceHandshakeBurst; float64(allowed) > bound+1 || float64(allowed) < bound-1 {
			t.Errorf("%d handshakes in 10 s from one source, want %.0f", allowed, bound)
		}
		if !hello("10.0.0.2") {
			t.Error("another source is refused")
		}
		allowed = 0
		for i := range 3000 {
			if hello(netip.AddrFrom4([4]byte{10, 1, byte(i / 256), byte(i)}).String()) {
				allowed++
			}
		}
		if allowed > handshakeBurst {
			t.Errorf("%d handshakes at once", allowed)
		}
	})
}

// fromAddress is a connection that has only an address.
type fromAddress struct {
	net.Conn
	from netip.AddrPort
}

func (c fromAddress) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.from) }
