package gc

import (
	"context"
	"fmt"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Result is the result of a garbage collection under pressure.
type Result struct {
	Ran                           []signals.Garbage // in order, including those that found nothing
	Containers, Sandboxes, Images int               // removed
	// FreedBytes is the growth of the image file system's available space during the removals, less
	// concurrent writes; 0 if it shrank.
	FreedBytes int64
	Enough     bool  // enough was available at the last measurement
	Err        error // the errors; part of the work may be done nevertheless
}

// Free collects garbage of the given kinds, in that order, until enough returns true. enough is
// called before the first removal and after each, and has to measure anew every time. The wait for
// a runtime that frees late is at most 13 s in total. A periodic round in progress is cancelled;
// another Free call is awaited.
func (c *Collector) Free(ctx context.Context, what []signals.Garbage, enough func() bool) Result {
	if err := c.turns.relief(ctx); err != nil {
		return Result{Err: fmt.Errorf("collect waste: wait for another relief to end: %w", err)}
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
	return r.Result
}

// relief is the state of a Free call.
type relief struct {
	Result
	*sweep
}

var reliefs = map[signals.Garbage]func(*relief, context.Context) (removed int, err error){
	signals.DeadContainers: (*relief).ofContainers,
	signals.UnusedImages:   (*relief).ofImages,
}

// run collects one kind, and waits until the removal shows in the measurement. For the final kind
// the wait may use all remaining patience. It reports the measured growth.
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
		r.c.reporter.Freed(kind, max(0, after-before))
	}
	r.Enough, err = r.enough(ctx)
	f.add(err)
	return f.err()
}

// wait waits until the removal shows in the measurement.
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
	unused, _, err := r.c.listImages(ctx)
	if err != nil {
		return 0, err
	}
	r.Images, r.Enough, err = r.collectImages(ctx, unused)
	if r.Images > 0 {
		r.c.reporter.Collected(forSpace, r.Images)
	}
	return r.Images, err
}
