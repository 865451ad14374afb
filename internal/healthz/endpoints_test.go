package healthz_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"plimsoll.dev/plimsoll/internal/healthz"
)

// serving opens endpoints as agent and controller do, until the test ends. It returns the addresses
// of the listeners in the order of their creation.
func serving(t *testing.T, a healthz.Addresses, live *atomic.Bool, review healthz.Review) (at []string) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	ctx, cancel := context.WithCancel(context.Background())
	all, err := healthz.Open(ctx, a, healthz.Settings{
		Live: []healthz.Check{{Name: "loop", Err: func() error {
			if live.Load() {
				return nil
			}
			return errors.New("the loop hangs")
		}}},
		Metrics: http.NotFoundHandler(), Bounds: patient, Log: log,
	}, review)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	all.Run(ctx, &group, log)
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	for _, o := range all {
		at = append(at, o.Address().String())
	}
	return at
}

// TestEndpoints_RequireTokenBeyondLoopback: loopback serves everything without a token. Other
// addresses use HTTPS, and serve metrics to authorised clients only.
func TestEndpoints_RequireTokenBeyondLoopback(t *testing.T) {
	var live atomic.Bool
	live.Store(true)
	known := func(_ context.Context, token, path string) (bool, bool, error) {
		return token == "good", path == "/metrics", nil
	}
	status := func(url, token string) int {
		t.Helper()
		settings := http.DefaultTransport.(*http.Transport).Clone()
		settings.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
		defer settings.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := (&http.Client{Transport: settings}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	loopback := serving(t, healthz.Addresses{TCP: "127.0.0.1:0"}, &live, known)[0]
	_, port, err := net.SplitHostPort(serving(t, healthz.Addresses{TCP: "0.0.0.0:0"}, &live, known)[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url, token string
		want       int
	}{
		{"http://" + loopback + "/metrics", "", http.StatusNotFound}, // the handler's own response
		{"http://" + loopback + "/livez?verbose", "", http.StatusOK},
		{"http://127.0.0.1:" + port + "/livez", "", http.StatusBadRequest},
		{"https://127.0.0.1:" + port + "/livez", "", http.StatusOK},
		{"https://127.0.0.1:" + port + "/livez?verbose", "", http.StatusUnauthorized},
		{"https://127.0.0.1:" + port + "/livez?verbose", "good", http.StatusForbidden},
		{"https://127.0.0.1:" + port + "/metrics", "", http.StatusUnauthorized},
		{"https://127.0.0.1:" + port + "/metrics", "bad", http.StatusUnauthorized},
		{"https://127.0.0.1:" + port + "/metrics", "good", http.StatusNotFound},
	} {
		if got := status(c.url, c.token); got != c.want {
			t.Errorf("%s with token %q: status %d, want %d", c.url, c.token, got, c.want)
		}
	}
}
