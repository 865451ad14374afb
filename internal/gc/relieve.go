package gc

import (
	"context"
	"fmt"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// A Relief is what was done against pressure.
type Relief struct {
	Ran                           []signals.Garbage // in order, those that found nothing included
	Containers, Sandboxes, Images int               // removed
	// FreedBytes is by how much the available space of the image filesystem grew
	// while something was removed, whoever else wrote meanwhile; 0 if it shrank.
	FreedBytes int64
	Enough     bool  // there was, at the last measurement
	Err        error // what went wrong; some of it may have been done nevertheless
}

// Relieve collects waste of the given kinds, in that order, until enough says
// so; it is asked before the first removal and after each, and has to measure
// afresh every time. A runtime that frees late is waited for, 13 s in all. A periodic round under way ends for it; other
// reliefs are waited for.
func (c *Collector) Relieve(ctx context.Context, what []signals.Garbage, enough func() bool) Relief {
	if err := c.turns.relief(ctx); err != nil {
		return Relief{Err: fmt.Errorf("collect waste: wait for another relief to end: %w", err)}
	}
	defer c.turns.pass()
	r := &relief{sweep: c.newSweep(func(context.Context) (bool, error) { return enough(), nil })}
	r.Enough = enough()
	var f faults
	for i, kind := range what {
		if r.Enough {
			break
		}
		r.Ran = append(r.Ran, kind)
		err := r.run(ctx, kind, i == len(what)-1)
		if f.add(err); err != nil && ends(ctx, err) {
			break
		}
	}
	r.Err = f.err()
	return r.Relief
}

// A relief is one under way.
type relief struct {
	Relief
	*sweep
}

var reliefs = map[signals.Garbage]func(*relief, context.Context) (removed int, err error){
	signals.DeadContainers: (*relief).ofContainers,
	signals.UnusedImages:   (*relief).ofImages,
}

// run collects one kind, waits for what was removed to show, with all the
// patience that is left if it is the final kind, and tells what it has measured.
func (r *relief) run(ctx context.Context, kind signals.Garbage, final bool) error {
	before, _, err := r.c.measure(ctx)
	if err != nil {
		return fmt.Errorf("collect %s: %w", kind, err)
	}
	removed, err := reliefs[kind](r, ctx)
	if removed == 0 || ctx.Err() != nil {
		return err
	}
	var f faults
	if f.add(err); err == nil || !ends(ctx, err) {
		f.add(r.wait(ctx, kind, before, final))
	}
	after, _, err := r.c.measure(ctx)
	if f.add(err); err == nil {
		r.FreedBytes += max(0, after-before)
		r.c.tell.Freed(kind, max(0, after-before))
	}
	r.Enough, err = r.enough(ctx)
	f.add(err)
	return f.err()
}

// wait waits for what was removed to show.
func (r *relief) wait(ctx context.Context, kind signals.Garbage, before int64, final bool) error {
	if kind == signals.DeadContainers && r.Containers > 0 { // images settle one by one; sandboxes hold nothing
		if err := r.settle(ctx, before, 0); err != nil {
			return err
		}
	}
	if !final {
		return nil
	}
	return r.last(ctx)
}

func (r *relief) ofContainers(ctx context.Context) (removed int, err error) {
	r.Containers, r.Sandboxes, r.Enough, err = r.collectDead(ctx, true)
	return r.Containers + r.Sandboxes, err
}

func (r *relief) ofImages(ctx context.Context) (removed int, err error) {
	unused, _, err := r.c.look(ctx)
	if err != nil {
		return 0, err
	}
	r.Images, r.Enough, err = r.collectImages(ctx, unused)
	if r.Images > 0 {
		r.c.tell.Collected(forSpace, r.Images)
	}
	return r.Images, err
}
