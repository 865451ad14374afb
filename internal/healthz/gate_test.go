package healthz_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/healthz"
)

// attackers is the number of connections of one attack: more than any limit, and few enough for the
// descriptors of a test.
const attackers = 2000

// reopened is the number of them that are opened again per second: enough for the server to stay at
// its limits, and few enough for a slow machine.
const reopened = 200

// maxAnswer is the maximum time for the response to a request. A server with clients that wait for each other
// would need two minutes; anything less depends on the speed of the machine.
const maxAnswer = time.Minute

// TestServer_AnswersProbesBesideHangingConnections attacks the TCP listener with connections that
// send nothing, or a byte per second. They are opened again after the server has closed them.
func TestServer_AnswersProbesBesideHangingConnections(t *testing.T) {
	for _, sends := range []string{"silent", "slow"} {
		for _, sources := range []int{1, 50} {
			t.Run(fmt.Sprintf("%s, %d sources", sends, sources), func(t *testing.T) {
				address, _ := served(t, http.NotFoundHandler())
				socket := servedOnSocket(t, http.NotFoundHandler())
				attack(t, address, sends == "slow", sources)
				probe(t, address, socket)
			})
		}
	}
}

// servedOnSocket runs a server on a socket of its own until the test ends.
func servedOnSocket(t *testing.T, metrics http.Handler) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "plimsoll") // t.TempDir is longer than the path of a socket may be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path = filepath.Join(dir, "health.sock")
	ctx, cancel := context.WithCancel(context.Background())
	l, err := healthz.ListenSocket(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	s := healthz.New(healthz.Settings{Metrics: metrics, Limits: healthz.SocketLimits, Bounds: patient, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return path
}

// attack opens connections to an address until the test ends. It returns after each has been opened
// once.
func attack(t *testing.T, address string, slow bool, sources int) {
	t.Helper()
	const workers = 50
	ctx, cancel := context.WithCancel(t.Context())
	var all, opened sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	opened.Add(workers)
	for w := range workers {
		all.Go(func() {
			a := &attacker{address: address, source: net.IPv4(127, 0, 0, byte(1+w%sources)), slow: slow, conns: make([]net.Conn, attackers/workers)}
			defer a.close()
			if err := a.round(ctx, len(a.conns)); err != nil {
				t.Errorf("the attack is not complete: %v: raise ulimit -n to 4096 at least", err)
			}
			opened.Done()
			second := time.NewTicker(time.Second)
			defer second.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-second.C:
					_ = a.round(ctx, reopened/workers) // a server that stops ends the attack
				}
			}
		})
	}
	opened.Wait()
}

// attacker owns some of the connections, from one address.
type attacker struct {
	address string
	source  net.IP
	slow    bool
	conns   []net.Conn // nil: closed already
}

// round sends a byte on each connection if the attack is slow, and opens at most some that are
// closed. A connection closed during its opening counts as opened.
func (a *attacker) round(ctx context.Context, limit int) error {
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: a.source}}
	for i, c := range a.conns {
		if c != nil && a.alive(c) {
			continue
		}
		if c != nil {
			c.Close()
		}
		if a.conns[i] = nil; limit == 0 {
			continue
		}
		limit--
		c, err := from.DialContext(ctx, "tcp", a.address)
		if a.conns[i] = c; errors.Is(err, syscall.ECONNRESET) {
			continue
		}
		if err != nil {
			return err
		}
		if a.slow {
			_, _ = io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: agent\r\nX-Slow: ")
		}
	}
	return nil
}

// alive reports without waiting whether the server has not closed a connection.
func (a *attacker) alive(c net.Conn) bool {
	if a.slow {
		_, err := c.Write([]byte("x"))
		return err == nil
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Microsecond))
	_, err := c.Read(make([]byte, 1))
	failed, is := err.(net.Error)
	return is && failed.Timeout()
}

func (a *attacker) close() {
	for _, c := range a.conns {
		if c != nil {
			c.Close()
		}
	}
}

// probe sends requests for 3 s or more on the socket, and over TCP from an address of its own.
func probe(t *testing.T, address, socket string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, 1)}}).DialContext}
	client := &http.Client{Transport: transport}
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	var bySocket, byTCP time.Duration
	for range 30 {
		for _, path := range []string{"/livez", "/readyz"} {
			bySocket = max(bySocket, measured(t, "the socket", func(ctx context.Context) (int, error) {
				status, _, err := healthz.Get(ctx, socket, path)
				return status, err
			}))
			byTCP = max(byTCP, measured(t, "TCP", func(ctx context.Context) (int, error) {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
				if err != nil {
					return 0, err
				}
				answer, err := client.Do(request)
				if err != nil {
					return 0, err
				}
				answer.Body.Close()
				return answer.StatusCode, nil
			}))
		}
		if t.Failed() {
			return
		}
		<-pace.C
	}
	t.Logf("the slowest of 60 probes took %s, of 60 requests over TCP %s", bySocket, byTCP)
}

func measured(t *testing.T, way string, request func(context.Context) (int, error)) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), maxAnswer)
	defer cancel()
	begun := time.Now()
	if status, err := request(ctx); err != nil || status != http.StatusOK {
		t.Errorf("request over %s: status %d, %v", way, status, err)
	}
	return time.Since(begun)
}

// TestServer_ActiveRequestOutlivesNewConnections: connections without a request are closed before
// those with one.
func TestServer_ActiveRequestOutlivesNewConnections(t *testing.T) {
	t.Parallel()
	started, finish := make(chan struct{}), make(chan struct{})
	address, _ := served(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(started)
		<-finish
		fmt.Fprint(w, "whole")
	}))
	var all sync.WaitGroup
	all.Go(func() {
		if status, text := get(t, client(t), "http://"+address+"/metrics"); status != http.StatusOK || text != "whole" {
			t.Errorf("status %d, %q", status, text)
		}
	})
	<-started
	var conns []net.Conn
	for range 3 * healthz.TCPLimits.Total {
		conns = append(conns, slow(t, address))
	}
	if status, text := get(t, client(t), "http://"+address+"/livez"); status != http.StatusOK || text != "ok" {
		t.Errorf("beside %d slow clients: status %d, %q", len(conns), status, text)
	}
	close(finish)
	all.Wait()
	// The first connections were closed in favour of later ones.
	if err := conns[0].SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conns[0].Read(make([]byte, 1)); err == nil {
		t.Error("the server answered an incomplete request")
	} else if failed, is := err.(net.Error); is && failed.Timeout() {
		t.Error("the oldest connection is still open")
	}
}
