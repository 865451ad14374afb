package decisionlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Capacities of the queue, in lines. The controller decides about many nodes at one instant, when a
// zone fails or recovers.
const (
	backlog       = 256
	LargerBacklog = 16384
)

// Lines writes lines to a stream that may be slow, without blocking the caller. For loggers it is
// an io.Writer that accepts one whole line at a time.
type Lines struct {
	queue   chan []byte
	dropped atomic.Int64 // and not reported yet
	lost    atomic.Int64 // since the start
	done    chan struct{}
	mu      sync.RWMutex // guards closed
	closed  bool
}

// NewLines returns Lines that write to out until Close, with a queue of 256 lines.
func NewLines(out io.Writer) *Lines { return NewLinesOf(out, backlog) }

// NewLinesOf returns Lines with a queue of room lines.
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

// Write implements io.Writer. It never fails: a line that does not fit into the queue is dropped
// and counted.
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

// Dropped returns the number of dropped lines that are not reported yet.
func (l *Lines) Dropped() int64 { return l.dropped.Load() }

// Lost returns the number of dropped lines since the start.
func (l *Lines) Lost() int64 { return l.lost.Load() }

// closeWait bounds the wait for a blocked stream.
const closeWait = 2 * time.Second

// Close writes the queued lines and stops. Later lines are lost.
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
		// Errors are ignored: the agent continues without its log stream.
		_, _ = out.Write(line)
		if n := l.dropped.Swap(0); n > 0 {
			fmt.Fprintf(out, "{\"decision\":\"log\",\"reason\":\"%d lines were dropped: the stream was too slow\"}\n", n)
		}
	}
}
