package cgroupnotify

import "time"

// pace is a rate limit for the wakes of one source: burst wakes at once, then one per interval
// every. In any time t it allows at most burst + t/every wakes.
type pace struct {
	every time.Duration
	burst int
	full  time.Time // the time at which the full burst is available again
}

// The paces. A check costs tens of microseconds, so a permanently active source costs about 0.1
// % of a core near the line, and almost nothing far from it.
var (
	// near is for the node's own memory: at most 20 wakes a second, bursts of 8. While memory
	// hovers at a line, the timer checks more often anyway.
	near = pace{every: 50 * time.Millisecond, burst: 8}
	// far is for events that may continue for hours on a node with available memory, such as a
	// pod thrashing at its own limit. It allows 1 wake a second, bursts of 2.
	far = pace{every: time.Second, burst: 2}
)

// record counts a wake.
func (p *pace) record(now time.Time) {
	if p.full.Before(now) {
		p.full = now
	}
	p.full = p.full.Add(p.every)
}

// free returns the time from which the next wake is allowed.
func (p *pace) free() time.Time { return p.full.Add(-time.Duration(p.burst-1) * p.every) }
