package app

import (
	"sync"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/internal/recording/ring"
)

const (
	// decisionQueue is the number of lines that wait for the disk, each in 1.5 KB.
	decisionQueue = 128
	// maxBeside bounds the lines of other goroutines that wait for the loop.
	maxBeside = 256
)

// storedDecisions stores the last lines of the decision log on the node, in a ring of their own: usage and checks
// do not displace them. Nil stores nothing.
type storedDecisions struct{ ring *ring.Ring }

// openDecisions starts to store decisions. It returns nil if none are to be stored.
func (a *app) openDecisions() *storedDecisions {
	c := a.config
	if c.DecisionLogDir == "" {
		return nil
	}
	header := a.recordingHeader(c, time.Now())
	header.Config = nil // each line has its threshold
	s := &storedDecisions{ring: ring.Start(ring.Options{Dir: c.DecisionLogDir, Size: int64(c.DecisionLogSize), Queue: decisionQueue, Header: header, Failed: a.logDecisions})}
	a.closers = append(a.closers, func() { s.ring.Close() }) // the loop has ended
	return s
}

func (a *app) logDecisions(err error) {
	if err != nil {
		a.log.Error("Failed to store decisions on the node, dropping them until it works again", "decisionLogDir", a.config.DecisionLogDir, "error", err)
		return
	}
	a.log.Info("Resumed storing decisions on the node", "decisionLogDir", a.config.DecisionLogDir)
}

// add stores a line, which must not be changed afterwards. The loop calls it.
func (s *storedDecisions) add(line any, at time.Time) {
	if s == nil {
		return
	}
	if e := s.ring.Next(); e != nil {
		e.Decision, e.At = line, at
		s.ring.Commit(at, true)
	}
}

// stats returns the number of lines that were not stored, and the size of the ring.
func (s *storedDecisions) stats() (dropped, bytes int64) {
	if s == nil {
		return 0, 0
	}
	return s.ring.Dropped(), s.ring.Bytes()
}

// besideLines are lines of other goroutines that wait for the loop, which stores them. The loop waits for no
// goroutine. Nil has none.
type besideLines struct {
	lost  atomic.Int64 // beyond maxBeside
	some  atomic.Bool  // there are lines
	mu    sync.Mutex
	lines []besideLine
}

type besideLine struct {
	line any
	at   time.Time
}

// add has the loop store a line after its next check, which is within a monitoring period. The line must not be
// changed afterwards.
func (b *besideLines) add(line any, at time.Time) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) >= maxBeside {
		b.lost.Add(1)
		return
	}
	b.lines = append(b.lines, besideLine{line, at})
	b.some.Store(true)
}

// take returns the lines that wait, unless a goroutine is adding another one. Without such lines it costs a read
// of memory.
func (b *besideLines) take() (waiting []besideLine) {
	if b == nil || !b.some.Load() || !b.mu.TryLock() {
		return nil
	}
	defer b.mu.Unlock()
	waiting, b.lines = b.lines, nil
	b.some.Store(false)
	return waiting
}
