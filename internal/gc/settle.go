package gc

import (
	"context"
	"time"
)

// Waits for freed space.
const (
	// patience bounds the total of the waits between removals in one Free call or round. A busy
	// containerd collects some seconds after the removal of a container; meanwhile the disk may
	// fill further.
	patience = 10 * time.Second
	// minFinalWait is the minimum wait after the last removal.
	minFinalWait = 3 * time.Second
	// quiet is the time without growth after which grown space counts as final.
	quiet = time.Second
	// pollEvery is the interval between measurements in a wait.
	pollEvery = 100 * time.Millisecond
	// pause is the time without growth after which the expected growth counts as reached.
	pause = pollEvery / 2
	// noise is the amount that other programs free in between, in bytes: rotated logs.
	noise = 1 << 20
)

// waits are the constants patience, quiet and pause. A test of a real runtime has longer ones: a
// busy machine may starve the runtime.
type waits struct{ patience, quiet, pause time.Duration }

var usualWaits = waits{patience: patience, quiet: quiet, pause: pause}

// sweep removes objects until enough space is available. A wait between two removals takes at most
// half of the remaining patience. So the waits for removals that free nothing, because their layers
// are shared, become shorter and shorter.
type sweep struct {
	c      *Collector
	enough func(context.Context) (bool, error)
	left   time.Duration // of the patience
	// pending: a removal made when from bytes were available has not shown in the measurement.
	pending bool
	from    int64
}

func (c *Collector) newSweep(enough func(context.Context) (bool, error)) *sweep {
	return &sweep{c: c, enough: enough, left: c.waits.patience}
}

// settle waits, between removals, until a removal made when from bytes were available shows in the
// measurement. It shows as half of the expected bytes, because layers are shared, and a measurement
// without growth, or as a growth that has ended. An expectation of 0 is unknown. It returns immediately
// if enough space is available.
//
// The next removal must not come earlier: containerd forgets one that it gets while it deletes the files
// of the last collection, and collects it with a later removal only (containerd 2.4, plugins/gc/scheduler.go).
func (s *sweep) settle(ctx context.Context, from, expected int64) error {
	shown, err := s.await(ctx, from, expected, s.left/2)
	if !shown && !s.pending {
		s.pending, s.from = true, from
	}
	return err
}

// last waits for the removals that have not shown, with all remaining patience.
func (s *sweep) last(ctx context.Context) error {
	if !s.pending {
		return nil
	}
	_, err := s.await(ctx, s.from, 0, max(s.left, minFinalWait))
	return err
}

// await returns true when enough space is available, or the removal shows.
func (s *sweep) await(ctx context.Context, from, expected int64, maxWait time.Duration) (shown bool, err error) {
	begun := time.Now()
	defer func() { s.left -= time.Since(begun) }()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	r := rise{waits: s.c.waits, lowest: from}
	for {
		if enough, err := s.enough(ctx); enough || err != nil {
			return enough, err
		}
		available, _, err := s.c.measure(ctx)
		if err != nil {
			return false, err
		}
		now := time.Now()
		if r.note(available, now); r.shows(expected, now) {
			return true, nil
		}
		if now.Sub(begun) >= maxWait {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// rise is the growth of available space above its minimum since a removal: other programs may use
// space concurrently.
type rise struct {
	waits
	lowest, grown int64
	last          time.Time // time of the last growth
}

func (r *rise) note(available int64, now time.Time) {
	r.lowest = min(r.lowest, available)
	if grown := available - r.lowest; grown >= r.grown+noise {
		r.grown, r.last = grown, now
	}
}

// shows reports whether the growth has reached the expectation, or has ended.
func (r *rise) shows(expected int64, now time.Time) bool {
	if r.grown == 0 {
		return false
	}
	still := now.Sub(r.last)
	return expected > 0 && r.grown >= expected/2 && still >= r.pause || still >= r.quiet
}
