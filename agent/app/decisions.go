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
// do not displace them. Nil stores nothing. The loop never waits for it, nor for another goroutine.
type storedDecisions struct {
	ring *ring.Ring   // of the loop
	lost atomic.Int64 // beyond maxBeside

	some   atomic.Bool // beside has lines
	mu     sync.Mutex
	beside []storedLine // of other goroutines
}

type storedLine struct {
	line any
	at   time.Time
}

// openDecisions starts to store decisions. It returns nil if none are to be stored.
func (a *app) openDecisions() *storedDecisions {
	c := a.config
	if c.DecisionLogDir == "" {
		return nil
	}
	header := a.recordingHeader(c, time.Now())
	header.Config = nil // each line has its threshold
	s := &storedDecisions{ring: ring.Start(ring.Options{Dir: c.DecisionLogDir, Size: int64(c.DecisionLogSize), Queue: decisionQueue, Header: header, Failed: a.logDecisions})}
	a.closers = append(a.closers, func() { // the loop has ended
		s.addWaiting()
		s.ring.Close()
	})
	return s
}

func (a *app) logDecisions(err error) {
	if err != nil {
		a.log.Error("Failed to store decisions on the node, dropping them until it works again", "decisionLogDir", a.config.DecisionLogDir, "error", err)
		return
	}
	a.log.Info("Resumed storing decisions on the node", "decisionLogDir", a.config.DecisionLogDir)
}

// add stores a line of the loop, which must not be changed afterwards. The loop calls it.
func (s *storedDecisions) add(line any, at time.Time) {
	if s == nil {
		return
	}
	s.addWaiting()
	s.put(line, at)
}

func (s *storedDecisions) put(line any, at time.Time) {
	if e := s.ring.Next(); e != nil {
		e.Decision, e.At = line, at
		s.ring.Commit(at, true)
	}
}

// addWaiting stores the lines of other goroutines, unless one of them is adding another line. The loop calls it
// after each check. Without such lines it costs a read of memory.
func (s *storedDecisions) addWaiting() {
	if s == nil || !s.some.Load() || !s.mu.TryLock() {
		return
	}
	waiting := s.beside
	s.beside = nil
	s.some.Store(false)
	s.mu.Unlock()
	for _, w := range waiting {
		s.put(w.line, w.at)
	}
}

// addBeside has the loop store a line after its next check, which is within a monitoring period. Other goroutines
// call it.
func (s *storedDecisions) addBeside(line any, at time.Time) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.beside) >= maxBeside {
		s.lost.Add(1)
		return
	}
	s.beside = append(s.beside, storedLine{line, at})
	s.some.Store(true)
}

// stats returns the number of lines that were not stored, and the size of the ring.
func (s *storedDecisions) stats() (dropped, bytes int64) {
	if s == nil {
		return 0, 0
	}
	return s.ring.Dropped() + s.lost.Load(), s.ring.Bytes()
}
