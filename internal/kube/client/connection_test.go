package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/kube/client"
)

func TestNodeName_FromFlagEnvironmentOrHostname(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ given, environment, want string }{
		{"n1", "n2", "n1"},
		{" Node.Example.COM ", "", "node.example.com"},
		{"", "N2", "n2"},
		{"", "", strings.ToLower(host)},
		{" ", " ", strings.ToLower(host)},
		{"a/b", "", ""},
		{"a_b", "", ""},
		{"", "metadata.name=x", ""},
		{"a..b", "", ""},
		{"-a", "", ""},
		{strings.Repeat("a", 254), "", ""},
	} {
		t.Setenv("NODE_NAME", tc.environment)
		got, err := client.NodeName(tc.given)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("given %q, NODE_NAME %q: %q, %v; want %q", tc.given, tc.environment, got, err, tc.want)
		}
	}
}

func TestConnect_RejectsUnusableKubeconfigs(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1") // of a cluster: it must not silently replace a given kubeconfig
	t.Setenv("KUBERNETES_SERVICE_PORT", "1")
	for name, text := range map[string]string{
		"empty":               "",
		"not YAML":            "{[",
		"missing context":     "apiVersion: v1\nkind: Config\ncurrent-context: x\n",
		"missing certificate": "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority: missing.crt}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n",
	} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := client.Connect(client.Options{Kubeconfig: path, NodeName: "n1"}); err == nil {
			t.Errorf("%s: connected to %v", name, c)
		} else if name == "missing certificate" != strings.Contains(err.Error(), "missing.crt") || name != "missing certificate" && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: the error does not name the fault: %v", name, err)
		}
	}
	if _, err := client.Connect(client.Options{Kubeconfig: "/nowhere/kubeconfig", NodeName: "n1"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing kubeconfig: got %v, want ErrNotExist", err)
	}
	if _, err := client.Connect(client.Options{NodeName: "n1"}); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("in a cluster without a token: %v", err)
	}
}

// An eviction does not wait for the other requests of the agent: urgent requests end while ordinary
// ones of before still wait for their turn.
func TestUrgent_NotDelayedByOtherRequests(t *testing.T) {
	s := newServer(t, true)
	c, _ := s.connect(t, s.URL)
	list := func(ctx context.Context) error {
		_, err := c.Client().Pods("").List(ctx, metav1.ListOptions{})
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var pending sync.WaitGroup
	const ordinary, urgent, burst, perSecond = 1000, 100, 20, 10 // the ordinary ones need at least 98 s
	start := time.Now()
	for range ordinary {
		pending.Go(func() { _ = list(ctx) })
	}
	eventually(t, "the ordinary client has used its burst", func() bool { return s.requestCount() >= burst })
	for range urgent {
		if _, err := c.Urgent().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ended := s.requestCount() - urgent
	if ended >= ordinary {
		t.Errorf("%d urgent requests ended after all ordinary ones", urgent)
	}
	if limit := burst + perSecond*time.Since(start).Seconds(); float64(ended) > limit {
		t.Errorf("%d ordinary requests meanwhile, want at most %.1f: they are not rate limited", ended, limit)
	}
	if limited(c.Urgent()) {
		t.Error("the urgent client has a rate limiter")
	}
	cancel()
	pending.Wait()
}

// limited reports whether a client delays its requests.
func limited(c api.Interface) bool {
	return c.Core().GetRateLimiter() != nil || c.Coordination().GetRateLimiter() != nil
}

// timeoutOf returns the bound of each request of a client.
func timeoutOf(t *testing.T, c api.Interface) time.Duration {
	t.Helper()
	r, ok := c.Core().(*rest.RESTClient)
	if !ok {
		t.Fatalf("got a %T, want a REST client", c.Core())
	}
	return r.Client.Timeout
}

func TestUrgent_TimesOutOnSilentServer(t *testing.T) {
	silent := func() net.Listener { // accepts connections, and never responds
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}()
	s := newServer(t, true)
	const timeout = 200 * time.Millisecond
	c, err := client.Connect(client.Options{Kubeconfig: s.kubeconfig(t, "https://"+silent.Addr().String()), NodeName: "n1", Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.Urgent().Pods("").List(ctx, metav1.ListOptions{}); err == nil || ctx.Err() != nil {
		t.Errorf("got %v from a silent server, and the caller's context ended: %v", err, ctx.Err())
	}
	if got := timeoutOf(t, c.Urgent()); got != timeout { // without it the TLS handshake ends after 10 s
		t.Errorf("a request may take %v, want %v", got, timeout)
	}
}

// A dead connection without an error, as behind a firewall that dropped it, is closed. The pods are
// watched on a new connection.
func TestWatchPods_ReconnectsAfterDeadConnection(t *testing.T) {
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	s := newServer(t, true)
	s.set(pod("a"))
	wire := newWire(t, s.Listener.Addr().String())
	c, _ := s.connect(t, "https://"+wire.addr)
	p := client.WatchPods(t.Context(), c, nil, nil)
	eventually(t, "the pods are known and watched", func() bool { return p.Synced() && s.watched() == 1 })
	wire.cut()
	s.set(pod("b"))
	eventually(t, "b is known", func() bool { return names(p.Active()) == "a b" }) // after 2 s and a backoff; a watch lasts minutes
}

// Values of an operator remain; unset ones get a short default.
func TestConnect_SetsHTTP2PingTimeouts(t *testing.T) {
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "7")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "") // restored after the test
	if err := os.Unsetenv("HTTP2_PING_TIMEOUT_SECONDS"); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, true)
	s.connect(t, s.URL)
	if idle, ping := os.Getenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS"), os.Getenv("HTTP2_PING_TIMEOUT_SECONDS"); idle != "7" || ping != "5" {
		t.Errorf("read idle timeout %s s, ping timeout %s s; want 7 and 5", idle, ping)
	}
}

// wire forwards bytes until it is cut. Then the existing connections stay open and forward nothing
// more. New connections work.
type wire struct {
	addr string
	mu   sync.Mutex
	dead chan struct{} // closed for the connections at the time of the cut
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{addr: l.Addr().String(), dead: make(chan struct{})}
	var open sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	open.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = near.Close(), far.Close() })
			w.mu.Lock()
			dead := w.dead
			w.mu.Unlock()
			open.Go(func() { pass(far, near, dead) })
			open.Go(func() { pass(near, far, dead) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		cancel()
		open.Wait()
	})
	return w
}

func pass(to io.Writer, from io.Reader, dead chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-dead: // dropped
		default:
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.dead)
	w.dead = make(chan struct{})
}
