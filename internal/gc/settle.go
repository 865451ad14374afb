package gc

import (
	"context"
	"time"
)

// Waiting for space that was given back.
const (
	// patience bounds the waits between removals of one relief or round together:
	// containerd's own collection follows the removal of a container after some
	// seconds if it is busy, and a disk that fills does not wait.
	patience = 10 * time.Second
	// atLast is what the wait for the last removal has at least.
	atLast = 3 * time.Second
	// quiet is for how long space that has grown must not grow any more to count
	// as all that comes.
	quiet = time.Second
	// pollEvery is how often a wait looks.
	pollEvery = 100 * time.Millisecond
	// noise is what others free in between, in bytes: logs that are rotated.
	noise = 1 << 20
)

// A sweep removes until there is enough. A wait between two removals takes at
// most half of the patience that is left, so that removals that free nothing
// (their layers are shared) are waited for less and less.
type sweep struct {
	c      *Collector
	enough func(context.Context) (bool, error)
	left   time.Duration // of the patience
	// pending: something that was removed when from bytes were available has not
	// shown.
	pending bool
	from    int64
}

func (c *Collector) newSweep(enough func(context.Context) (bool, error)) *sweep {
	return &sweep{c: c, enough: enough, left: patience}
}

// settle waits, between removals, until one that was made when from bytes were
// available shows: in half of the bytes that are expected (layers are shared),
// or in a growth that has ended. An expectation of 0 is unknown. It returns at
// once if there is enough.
func (s *sweep) settle(ctx context.Context, from, expected int64) error {
	shown, err := s.await(ctx, from, expected, s.left/2)
	if !shown && !s.pending {
		s.pending, s.from = true, from
	}
	return err
}

// last waits for what has not shown, with all the patience that is left.
func (s *sweep) last(ctx context.Context) error {
	if !s.pending {
		return nil
	}
	_, err := s.await(ctx, s.from, 0, max(s.left, atLast))
	return err
}

// await returns true when there is enough, or the removal shows.
func (s *sweep) await(ctx context.Context, from, expected int64, most time.Duration) (shown bool, err error) {
	begun := time.Now()
	defer func() { s.left -= time.Since(begun) }()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	r := rise{lowest: from}
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
		if now.Sub(begun) >= most {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// A rise is how far available space has grown above its lowest since a removal:
// others may be taking space at the same time.
type rise struct {
	lowest, grown int64
	last          time.Time // when it grew
}

func (r *rise) note(available int64, now time.Time) {
	r.lowest = min(r.lowest, available)
	if grown := available - r.lowest; grown >= r.grown+noise {
		r.grown, r.last = grown, now
	}
}

// shows reports whether it has grown as far as it is expected to, or ever will.
func (r *rise) shows(expected int64, now time.Time) bool {
	if r.grown == 0 {
		return false
	}
	return expected > 0 && r.grown >= expected/2 || now.Sub(r.last) >= quiet
}
