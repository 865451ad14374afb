package logcapture

import (
	"log/slog"
	"strings"
	"sync"
)

// A Book is a log that tests can read. The zero Book is empty and ready for use.
type Book struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds what a handler wrote. It never fails.
func (b *Book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is everything that was logged.
func (b *Book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Logger writes into the book, one line for each record.
func (b *Book) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// Count is how many lines hold the part: how often it was said, even where a
// record repeats it in the error that it tells.
func (b *Book) Count(part string) (n int) {
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}
