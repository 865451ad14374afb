package app

import (
	"sync"
	"time"

	"plimsoll.dev/plimsoll/internal/recording/ring"
)

// decisionQueue is the number of lines that wait for the disk, each in 1.5 KB.
const decisionQueue = 128

// storedDecisions stores the last lines of the decision log on the node, in a ring of their own: usage and checks
// do not displace them. Nil stores nothing. It is safe for concurrent use.
type storedDecisions struct {
	mu   sync.Mutex // the loop reports decisions, and another goroutine OOM kills
	ring *ring.Ring
}

// openDecisions starts to store decisions. It returns nil if none are to be stored.
func (a *app) openDecisions() *storedDecisions {
	c := a.config
	if c.DecisionLogDir == "" {
		return nil
	}
	header := a.recordingHeader(time.Now())
	header.Config = nil // each line has its threshold
	s := &storedDecisions{ring: ring.Start(ring.Options{Dir: c.DecisionLogDir, Size: int64(c.DecisionLogSize), Queue: decisionQueue, Header: header, Failed: a.logDecisions})}
	a.closers = append(a.closers, func() { s.ring.Close() })
	return s
}

func (a *app) logDecisions(err error) {
	if err != nil {
		a.log.Error("Failed to store decisions on the node, dropping them until it works again", "decisionLogDir", a.config.DecisionLogDir, "error", err)
		return
	}
	a.log.Info("Resumed storing decisions on the node", "decisionLogDir", a.config.DecisionLogDir)
}

// add stores a line of the decision log, which must not be changed afterwards. It does not wait for the disk.
func (s *storedDecisions) add(line any, at time.Time) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.ring.Next(); e != nil {
		e.Decision, e.At = line, at
		s.ring.Commit(at, true)
	}
}
