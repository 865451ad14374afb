package healthz_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/healthz"
)

// patient are bounds that a pause of the machine does not exceed.
var patient = healthz.Bounds{Header: time.Minute, Answer: time.Minute, Shutdown: time.Minute}

// served is servedWithin for tests that are not about these bounds.
func served(t *testing.T, metrics http.Handler) (address string, stop func() error) {
	t.Helper()
	return servedWithin(t, patient, metrics)
}

// servedWithin runs a server on a port of its own until the test ends. stop ends it earlier and returns
// the result of Run.
func servedWithin(t *testing.T, bounds healthz.Bounds, metrics http.Handler) (address string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l, err := healthz.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := healthz.New(healthz.Settings{Metrics: metrics, Bounds: bounds, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), stop
}

// client opens a connection for each request, as different clients do.
func client(t *testing.T) *http.Client {
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

func get(t *testing.T, c *http.Client, url string) (status int, text string) {
	t.Helper()
	answer, err := c.Get(url)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(body)
}

// slow opens a connection that begins a request and never ends it.
func slow(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: agent\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServer_EndsSlowRequests(t *testing.T) {
	t.Parallel()
	address, _ := servedWithin(t, healthz.Bounds{Answer: time.Minute}, http.NotFoundHandler())
	c := slow(t, address)
	// The server closes the connection on its own, which ends the read.
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the connection of a slow client is still open")
	}
}

// TestServer_EndsUnreadResponses requests a large response and reads nothing.
func TestServer_EndsUnreadResponses(t *testing.T) {
	t.Parallel()
	writeFailed := make(chan error, 1)
	address, _ := servedWithin(t, healthz.Bounds{Header: time.Minute}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for {
			if _, err := w.Write(chunk); err != nil {
				writeFailed <- err
				return
			}
		}
	}))
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: agent\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-writeFailed:
	case <-time.After(30 * time.Second):
		t.Error("the server still writes to a client that reads nothing")
	}
}

func TestServer_RefusesLargeHeaders(t *testing.T) {
	t.Parallel()
	address, _ := served(t, http.NotFoundHandler())
	request, err := http.NewRequest(http.MethodGet, "http://"+address+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	answer, err := client(t).Do(request)
	if err != nil {
		return // refused before the end of the request
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d, want %d", answer.StatusCode, http.StatusRequestHeaderFieldsTooLarge)
	}
}

func TestServer_ServesConcurrentClients(t *testing.T) {
	t.Parallel()
	address, _ := served(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "metrics") }))
	var all sync.WaitGroup
	for i := range healthz.TCPLimits.Total {
		// One address has no more connections than its limit.
		from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i%8))}}
		c := client(t)
		c.Transport.(*http.Transport).DialContext = from.DialContext
		path, want := "/readyz", "ok"
		if i%2 == 0 {
			path, want = "/metrics", "metrics"
		}
		all.Go(func() {
			if status, text := get(t, c, "http://"+address+path); status != http.StatusOK || text != want {
				t.Errorf("%s: status %d, %q", path, status, text)
			}
		})
	}
	all.Wait()
}

func TestServer_FinishesResponsesOnShutdown(t *testing.T) {
	t.Parallel()
	started, finish := make(chan struct{}), make(chan struct{})
	address, stop := served(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(started)
		<-finish
		fmt.Fprint(w, "whole")
	}))
	var all sync.WaitGroup
	all.Go(func() {
		if status, text := get(t, client(t), "http://"+address+"/metrics"); status != http.StatusOK || text != "whole" {
			t.Errorf("status %d, %q: the response was truncated", status, text)
		}
	})
	<-started
	all.Go(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	untilRefused(t, address)
	close(finish)
	all.Wait()
}

// untilRefused returns when the address refuses connections.
func untilRefused(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		c.Close()
	}
	t.Error("the server still listens")
}

func TestServer_BoundsShutdown(t *testing.T) {
	t.Parallel()
	started, finish := make(chan struct{}), make(chan struct{})
	defer close(finish)
	address, stop := servedWithin(t, healthz.Bounds{Header: time.Minute, Answer: time.Minute}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(started)
		<-finish
	}))
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: agent\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-started
	start := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the shutdown took %s", took)
	}
}

func TestServer_ReportsBrokenListener(t *testing.T) {
	t.Parallel()
	l, err := healthz.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s := healthz.New(healthz.Settings{Metrics: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler)})
	if err := s.Run(t.Context(), l); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("got %v, want an error that names the address", err)
	}
}

func TestListen_RejectsInvalidAddresses(t *testing.T) {
	t.Parallel()
	inUse, err := healthz.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inUse.Close()
	for _, address := range []string{"", "10350", "127.0.0.1", "localhost:10350", ":10350", "127.0.0.1:port", inUse.Addr().String()} {
		l, err := healthz.Listen(t.Context(), address)
		if err == nil {
			l.Close()
			t.Errorf("%q was accepted", address)
			continue
		}
		if !strings.HasPrefix(err.Error(), "serve endpoints") || !strings.Contains(err.Error(), "give") {
			t.Errorf("%q: %v: does not name the attempt and the remedy", address, err)
		}
	}
}
