package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/healthz"
	"plimsoll.dev/plimsoll/internal/options"
)

// serving opens endpoints as agent and controller do, until the test ends. It
// returns the addresses of the listeners, in the order in which they were opened.
func serving(t *testing.T, address string, c *options.Endpoints, live *atomic.Bool, review healthz.Review) (at []string) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	ctx, cancel := context.WithCancel(context.Background())
	all, err := openEndpoints(ctx, address, c, healthz.Settings{
		Live: []healthz.Check{{Name: "loop", Err: func() error {
			if live.Load() {
				return nil
			}
			return errors.New("the loop hangs")
		}}},
		Metrics: http.NotFoundHandler(), Log: log,
	}, review)
	if err != nil {
		t.Fatal(err)
	}
	var crew sync.WaitGroup
	runEndpoints(ctx, all, &crew, log)
	t.Cleanup(func() {
		cancel()
		crew.Wait()
	})
	for _, o := range all {
		at = append(at, o.listener.Addr().String())
	}
	return at
}

// TestHealth_AnswersBesideHangingConnections runs the command of the exec probe while
// 2,000 connections hang at the address.
func TestHealth_AnswersBesideHangingConnections(t *testing.T) {
	var live atomic.Bool
	live.Store(true)
	socket := filepath.Join(t.TempDir(), "health.sock")
	at := serving(t, "0.0.0.0:0", &options.Endpoints{HealthSocket: socket}, &live, nil)
	_, port, err := net.SplitHostPort(at[1])
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for _, ok := range []bool{true, false} {
		live.Store(ok)
		for _, check := range []string{"livez", "readyz"} {
			var out, errs bytes.Buffer
			begun := time.Now()
			status := run([]string{"health", check, "--socket=" + socket, "--timeout=1s"}, strings.NewReader(""), &out, &errs)
			if want := map[bool]int{true: 0, false: exitFailed}[ok]; status != want || !strings.Contains(out.String(), "loop") {
				t.Errorf("%s, live %t, after %s: exit status %d, want %d: %s%s", check, ok, time.Since(begun), status, want, &out, &errs)
			}
		}
	}
	live.Store(true)
	var out, errs bytes.Buffer
	if status := run([]string{"health", "/livez/loop", "--socket=" + socket}, strings.NewReader(""), &out, &errs); status != 0 || out.String() != "ok\n" {
		t.Errorf("a path: exit status %d: %s%s", status, &out, &errs)
	}
	if status := run([]string{"health"}, strings.NewReader(""), &out, &errs); status != exitInvalid {
		t.Errorf("without a check: exit status %d", status)
	}
}

// TestEndpoints_NeedATokenBeyondLoopback: on loopback all is served as it was; on
// other addresses by HTTPS, and metrics to those with a right alone.
func TestEndpoints_NeedATokenBeyondLoopback(t *testing.T) {
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
	loopback := serving(t, "127.0.0.1:0", &options.Endpoints{}, &live, known)[0]
	_, port, err := net.SplitHostPort(serving(t, "0.0.0.0:0", &options.Endpoints{}, &live, known)[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url, token string
		want       int
	}{
		{"http://" + loopback + "/metrics", "", http.StatusNotFound}, // as the handler answers
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

func TestMemoryLimitFor_LeavesRoomForTheProgram(t *testing.T) {
	for _, c := range []struct{ limit, least, most uint64 }{
		{256 << 20, 170 << 20, 180 << 20},
		{512 << 20, 370 << 20, 512<<20 - programText},
		{40 << 20, 20 << 20, 20 << 20},
		{1 << 63, 1 << 60, 1 << 63},
	} {
		if got := uint64(memoryLimitFor(c.limit)); got < c.least || got > c.most {
			t.Errorf("%d MiB: %d MiB, want %d to %d", c.limit>>20, got>>20, c.least>>20, c.most>>20)
		}
	}
}
