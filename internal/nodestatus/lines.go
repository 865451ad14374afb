package nodestatus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// How many lines may wait for the stream. The controller decides about many nodes
// at one instant: a zone that dies, or that comes back.
const (
	backlog       = 256
	LargerBacklog = 16384
)

// Lines writes lines to a stream that may be slow, without making anybody
// wait. It is an io.Writer (a whole line at a time) for loggers.
type Lines struct {
	queue   chan []byte
	dropped atomic.Int64 // and not told of yet
	lost    atomic.Int64 // since the start
	done    chan struct{}
	mu      sync.RWMutex // of closed
	closed  bool
}

// NewLines starts to write to out. Close flushes and ends it.
func NewLines(out io.Writer) *Lines { return NewLinesOf(out, backlog) }

// NewLinesOf is NewLines with room for so many lines.
func NewLinesOf(out io.Writer, room int) *Lines {
	l := &Lines{queue: make(chan []byte, room), done: make(chan struct{})}
	go l.drain(out)
	return l
}

// JSON writes v as one line of JSON.
func (l *Lines) JSON(v any) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		fmt.Fprintf(&b, "{\"error\":%q}\n", "encode a line of the decision log: "+err.Error())
	}
	l.enqueue(b.Bytes())
}

// Write implements io.Writer. It never fails: a line that can not be queued is
// dropped and counted.
func (l *Lines) Write(line []byte) (int, error) {
	l.enqueue(bytes.Clone(line))
	return len(line), nil
}

func (l *Lines) enqueue(line []byte) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return
	}
	select {
	case l.queue <- line:
	default:
		l.dropped.Add(1)
		l.lost.Add(1)
	}
}

// Dropped is how many lines were dropped and not told of yet.
func (l *Lines) Dropped() int64 { return l.dropped.Load() }

// Lost is how many lines were dropped since the start.
func (l *Lines) Lost() int64 { return l.lost.Load() }

// closeWait bounds the wait for a stream that takes nothing.
const closeWait = 2 * time.Second

// Close writes what is queued and ends the writer. What is written afterwards
// is lost.
func (l *Lines) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(closeWait):
	}
}

func (l *Lines) drain(out io.Writer) {
	defer close(l.done)
	for line := range l.queue {
		// A stream that is gone takes no lines; the agent goes on without it.
		_, _ = out.Write(line)
		if n := l.dropped.Swap(0); n > 0 {
			fmt.Fprintf(out, "{\"decision\":\"log\",\"reason\":\"%d lines were dropped: the stream was too slow\"}\n", n)
		}
	}
}
