package logcapture_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

func TestABookIsWrittenByManyAndReadMeanwhile(t *testing.T) {
	const writers = 8
	var book logcapture.Book
	log := book.Logger()
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			log.Warn("refused", "error", errors.New("refused\nby the server"))
			if book.Count("refused") == 0 {
				t.Error("what was said is not in the book")
			}
		})
	}
	all.Wait()
	for part, want := range map[string]int{"refused": writers, "level=WARN": writers, "granted": 0} {
		if got := book.Count(part); got != want {
			t.Errorf("%q is in %d lines, want %d:\n%s", part, got, want, &book)
		}
	}
	if n := strings.Count(book.String(), "by the server"); n != writers {
		t.Errorf("%d errors of %d are in the book", n, writers)
	}
}
