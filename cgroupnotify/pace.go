package cgroupnotify

import "time"

// A pace bounds how often one source wakes: burst times at once, and then once
// in every. In any time t it wakes at most burst + t/every times, whatever the
// kernel has to say.
type pace struct {
	every time.Duration
	burst int
	full  time.Time // when nothing of what was taken counts any more
}

// The paces. A look costs tens of microseconds, so that a source which never
// rests costs about 0.1 % of a core near the line and next to nothing far from
// it.
var (
	// near is for what the node's own memory does: at most 20 wakes a second, 8
	// at once. Where memory hovers at a line the timer looks more often anyhow.
	near = pace{every: 50 * time.Millisecond, burst: 8}
	// far is for what may go on for hours on a node that has memory to spare,
	// such as a pod that thrashes at its own limit: 1 wake a second, 2 at once.
	far = pace{every: time.Second, burst: 2}
)

// take counts a wake.
func (p *pace) take(now time.Time) {
	if p.full.Before(now) {
		p.full = now
	}
	p.full = p.full.Add(p.every)
}

// free is from when on the next wake is allowed.
func (p *pace) free() time.Time { return p.full.Add(-time.Duration(p.burst-1) * p.every) }
