package logcapture_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

func TestBook_AllowsConcurrentUse(t *testing.T) {
	const writers = 8
	var log logcapture.Book
	logger := log.Logger()
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			logger.Warn("refused", "error", errors.New("refused\nby the server"))
			if log.Count("refused") == 0 {
				t.Error("Count returned 0 after a record was written")
			}
		})
	}
	all.Wait()
	for part, want := range map[string]int{"refused": writers, "level=WARN": writers, "granted": 0} {
		if got := log.Count(part); got != want {
			t.Errorf("%q is in %d lines, want %d:\n%s", part, got, want, &log)
		}
	}
	if n := strings.Count(log.String(), "by the server"); n != writers {
		t.Errorf("got %d errors in the log, want %d", n, writers)
	}
}
