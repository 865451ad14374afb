package healthz

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// errNotKnown is what a finding says before anybody has looked.
var errNotKnown = errors.New("not known yet")

// sound is the finding that nothing is wrong.
var sound error

// A Finding is what was found last: an error, or that all is well. It is stored
// by who looks and read by a check, neither of which waits. The zero value is
// "not known yet".
type Finding struct{ last atomic.Pointer[error] }

// Set stores what was found. Storing nil allocates nothing.
func (f *Finding) Set(err error) {
	if err == nil {
		f.last.Store(&sound)
		return
	}
	found := err // a copy: the parameter itself would be allocated for nil, too
	f.last.Store(&found)
}

// Err returns what was found last.
func (f *Finding) Err() error {
	if last := f.last.Load(); last != nil {
		return *last
	}
	return errNotKnown
}

// A Pulse shows that a loop goes round. It is measured on the monotonic clock:
// setting the time stops no heart.
type Pulse struct {
	start time.Time
	last  atomic.Int64 // nanoseconds after start
	limit time.Duration
}

// pulseSlack is what a loop may be late for besides: a kill, a collection of
// images, a machine without processor time.
const pulseSlack = 15 * time.Second

// NewPulse returns the pulse of a loop that goes round at least once a period,
// and counts from now. It is missing when two periods and some slack have passed
// without a beat.
func NewPulse(period time.Duration) *Pulse {
	return &Pulse{start: time.Now(), limit: 2*period + pulseSlack}
}

// Beat says that the loop went round.
func (p *Pulse) Beat() { p.last.Store(int64(time.Since(p.start))) }

// Err is nil while the loop goes round.
func (p *Pulse) Err() error {
	silent := time.Since(p.start) - time.Duration(p.last.Load())
	if silent <= p.limit {
		return nil
	}
	return fmt.Errorf("the loop has not gone round for %s, at most %s are normal: it hangs, or the agent gets no processor time",
		silent.Round(time.Millisecond), p.limit)
}
