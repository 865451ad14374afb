package logcapture

import (
	"log/slog"
	"strings"
	"sync"
)

// Book is a log that tests can read. The zero Book is empty and ready for use.
type Book struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends the output of a handler. It never returns an error.
func (b *Book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns everything that was logged.
func (b *Book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Logger returns a logger that writes into the book, one line for each record.
func (b *Book) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// Count returns the number of lines that contain the part. A record that repeats it in its
// error counts once.
func (b *Book) Count(part string) (n int) {
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}
