package healthz_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/healthz"
)

func TestListenSocket_RestrictsToOwnUser(t *testing.T) {
	path := servedOnSocket(t, http.NotFoundHandler())
	there, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := there.Mode().Perm(); mode != 0o600 {
		t.Errorf("mode %o, want 600", mode)
	}
	status, text, err := healthz.Get(t.Context(), path, "/livez?verbose")
	if err != nil || status != http.StatusOK || text != "[+]ping ok\nlivez check passed\n" {
		t.Errorf("status %d, %q, %v", status, text, err)
	}
}

// A response is complete, or there is an error.
func TestGet_ReturnsNoPartOfResponse(t *testing.T) {
	var size atomic.Int64
	path := servedOnSocket(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("x"), int(size.Load())))
	}))
	for _, n := range []int{256 << 10, 1 << 20} {
		size.Store(int64(n))
		if status, text, err := healthz.Get(t.Context(), path, "/metrics"); err != nil || status != http.StatusOK || len(text) != n {
			t.Errorf("%d bytes: status %d, %d bytes, %v", n, status, len(text), err)
		}
	}
	size.Add(1)
	if _, text, err := healthz.Get(t.Context(), path, "/metrics"); err == nil || !strings.Contains(err.Error(), "larger than 1024 KiB") {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestListenSocket_ReplacesStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "health.sock")
	first, err := healthz.ListenSocket(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := healthz.ListenSocket(t.Context(), path); err == nil {
		t.Error("the socket of a running process was replaced")
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false) // as after SIGKILL
	first.Close()
	second, err := healthz.ListenSocket(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
	if err := os.WriteFile(path, []byte("notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := healthz.ListenSocket(t.Context(), path); err == nil {
		t.Error("a regular file was replaced")
	}
}

func TestTLS_SelfSignedServes(t *testing.T) {
	t.Parallel()
	settings, err := healthz.TLS("", "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := healthz.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := healthz.New(healthz.Settings{Metrics: http.NotFoundHandler(), TLS: settings, Bounds: patient, Log: slog.New(slog.DiscardHandler)})
	go func() { _ = s.Run(t.Context(), l) }()
	c := client(t)
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	if status, text := get(t, c, "https://"+l.Addr().String()+"/livez"); status != http.StatusOK || text != "ok" {
		t.Errorf("status %d, %q", status, text)
	}
	if status, _ := get(t, c, "http://"+l.Addr().String()+"/livez"); status != http.StatusBadRequest {
		t.Errorf("HTTP: status %d, want 400", status)
	}
	for range 2 * healthz.TCPLimits.Total { // clients that never start the handshake
		silent, err := net.DialTimeout("tcp", l.Addr().String(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { silent.Close() })
	}
	if status, _ := get(t, c, "https://"+l.Addr().String()+"/readyz"); status != http.StatusOK {
		t.Errorf("beside silent connections: status %d", status)
	}
	if _, err := healthz.TLS(filepath.Join(t.TempDir(), "none.crt"), "none.key", slog.New(slog.DiscardHandler)); err == nil {
		t.Error("missing files are no error")
	}
}
