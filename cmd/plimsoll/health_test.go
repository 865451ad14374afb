package main

import (
	"bytes"
	"context"
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
)

// The command of the exec probe runs while 2,000 connections hang at the address.
func TestHealth_AnswersBesideHangingConnections(t *testing.T) {
	var live atomic.Bool
	live.Store(true)
	socket := filepath.Join(t.TempDir(), "health.sock")
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	ctx, cancel := context.WithCancel(context.Background())
	all, err := healthz.Open(ctx, healthz.Addresses{Socket: socket, TCP: "0.0.0.0:0"}, healthz.Settings{
		Live: []healthz.Check{{Name: "loop", Err: func() error {
			if live.Load() {
				return nil
			}
			return errors.New("the loop hangs")
		}}},
		Metrics: http.NotFoundHandler(), Log: log,
		Bounds: healthz.Bounds{Header: time.Minute, Answer: time.Minute}, // those of the product end a request of a paused machine
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	all.Run(ctx, &group, log)
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	_, port, err := net.SplitHostPort(all[1].Address().String())
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
			status := run(t.Context(), []string{"health", check, "--socket=" + socket, "--timeout=1m"}, strings.NewReader(""), &out, &errs)
			if want := map[bool]int{true: 0, false: exitFailed}[ok]; status != want || !strings.Contains(out.String(), "loop") {
				t.Errorf("%s, live %t, after %s: exit status %d, want %d: %s%s", check, ok, time.Since(begun), status, want, &out, &errs)
			}
		}
	}
	live.Store(true)
	var out, errs bytes.Buffer
	if status := run(t.Context(), []string{"health", "/livez/loop", "--socket=" + socket, "--timeout=1m"}, strings.NewReader(""), &out, &errs); status != 0 || out.String() != "ok\n" {
		t.Errorf("path: exit status %d: %s%s", status, &out, &errs)
	}
	if status := run(t.Context(), []string{"health"}, strings.NewReader(""), &out, &errs); status != exitInvalid {
		t.Errorf("without a check: exit status %d", status)
	}
}

func TestHealthPath_AsksForCauses(t *testing.T) {
	for check, want := range map[string]string{"readyz": "/readyz?verbose", "readyz/memory": "/readyz/memory?verbose", "readyz?verbose": "/readyz?verbose", "/configz": "/configz"} {
		if got := healthPath(check); got != want {
			t.Errorf("%s: %s, want %s", check, got, want)
		}
	}
}
