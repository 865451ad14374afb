package healthz

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// errNotKnown is the error of a finding without a result.
var errNotKnown = errors.New("not known yet")

// sound is the result of a successful check.
var sound error

// Finding is the latest result of a check: an error, or success. The examining goroutine stores it
// and a check reads it; neither waits. The zero value is "not known yet".
type Finding struct{ last atomic.Pointer[error] }

// Set stores a result. For nil it does not allocate.
func (f *Finding) Set(err error) {
	if err == nil {
		f.last.Store(&sound)
		return
	}
	found := err // a copy: the parameter itself would be allocated for nil, too
	f.last.Store(&found)
}

// Err returns the latest result.
func (f *Finding) Err() error {
	if last := f.last.Load(); last != nil {
		return *last
	}
	return errNotKnown
}

// Pulse monitors the progress of a loop. It uses the monotonic clock: a change of the system time
// has no effect.
type Pulse struct {
	start time.Time
	last  atomic.Int64 // nanoseconds after start
	limit time.Duration
}

// pulseSlack is the tolerated delay of a loop beyond its period, for a kill, an image collection or
// a machine without processor time.
const pulseSlack = 15 * time.Second

// NewPulse returns the pulse of a loop with at least one iteration per period, starting now. It
// fails after two periods and pulseSlack without a beat.
func NewPulse(period time.Duration) *Pulse {
	return &Pulse{start: time.Now(), limit: 2*period + pulseSlack}
}

// Beat records an iteration of the loop.
func (p *Pulse) Beat() { p.last.Store(int64(time.Since(p.start))) }

// Err returns nil while the loop makes progress, otherwise the time since its last iteration.
func (p *Pulse) Err() error {
	silent := time.Since(p.start) - time.Duration(p.last.Load())
	if silent <= p.limit {
		return nil
	}
	return fmt.Errorf("the loop has not gone round for %s, at most %s are normal: it hangs, or the agent gets no processor time",
		silent.Round(time.Millisecond), p.limit)
}
