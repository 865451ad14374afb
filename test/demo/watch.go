package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/test/demo/screen"
)

// freed is the growth of available memory that only an eviction causes: the
// leak never shrinks.
const freed = 16 << 20

// watch starts the leak and follows it up to the eviction and its outcome.
func (e *env) watch(ctx context.Context) (*result, error) {
	leaky := e.leaky()
	e.screen.Leak(leaky.pod.Key(), e.options.leak)
	if err := leaky.hog.Send(fmt.Sprintf("fill 2GiB at %s/s", e.options.rate)); err != nil {
		return nil, err
	}
	begun := time.Now()
	watched, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	crossing := e.node.Crossing(watched, threshold)

	d, err := e.awaitEviction(ctx, begun)
	if err != nil {
		return nil, err
	}
	if d.Exit, err = e.awaitExit(ctx, d); err != nil {
		return nil, err
	}
	var crossed *time.Time // nil: a busy machine, and no observation between the threshold and the kill
	select {
	case at := <-crossing:
		crossed = &at
	default:
	}
	return e.finish(d, begun, crossed)
}

// awaitEviction draws the memory of the node until the agent has evicted a pod.
func (e *env) awaitEviction(ctx context.Context, begun time.Time) (*screen.Decision, error) {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	exited, lowest := e.leaky().hog.Process.Done(), e.options.node
	for {
		select {
		case entry, running := <-e.agent.Decisions:
			if !running {
				return nil, errors.New("the agent ended:\n" + e.agent.Log())
			}
			d := screen.Read(&entry)
			at := max(0, d.Time.Sub(begun))
			switch d.Kind {
			case screen.Evicted:
				e.screen.Evicted(at, &d)
				return &d, nil
			case screen.Waits:
				e.screen.Wait(at, &d)
			case screen.Failed:
				e.screen.Failed(at, &d)
			}
		case <-exited:
			exited = nil // ended by the agent, and its decision follows, or by the kernel
			if ooms, err := e.node.OOMKills(); err == nil && ooms > 0 {
				return nil, fmt.Errorf("the kernel's OOM killer was faster than the agent: %d processes killed", ooms)
			}
		case <-tick.C:
			// More memory again: of an eviction, drawn after its decision.
			if left, err := e.node.Available(); err == nil && left < lowest+freed {
				lowest = min(lowest, left)
				e.screen.Bar(time.Since(begun), left)
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// awaitExit returns the time from the check until the evicted pod's process was gone: as the
// agent measured it, if it did, or as observed here, whichever is less.
func (e *env) awaitExit(ctx context.Context, d *screen.Decision) (time.Duration, error) {
	select {
	case <-e.leaky().hog.Process.Done():
		return sooner(d.Exit, time.Since(d.Time)), nil
	case <-time.After(time.Minute):
		return 0, fmt.Errorf("the leaking pod still runs a minute after the agent reported the eviction of %s", d.Pod)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// sooner returns the less of two times from the check until the exit. A measured time of zero is
// unknown: on a slow machine the agent writes its entry while the process exits.
func sooner(measured, observed time.Duration) time.Duration {
	if measured == 0 {
		return observed
	}
	return min(measured, observed)
}

// finish shows the outcome and returns it.
func (e *env) finish(d *screen.Decision, begun time.Time, crossed *time.Time) (*result, error) {
	available, err := e.node.Available()
	if err != nil {
		return nil, err
	}
	ooms, err := e.node.OOMKills()
	if err != nil {
		return nil, err
	}
	alive, lost := e.survivors(d.Pod)
	r := &result{
		Evicted: d.Pod, Survivors: alive, Lost: lost, OOMKills: ooms, Exit: millis(d.Exit),
		AvailableAfter: available, Rate: e.options.rate, Limit: e.options.limit,
	}
	o := screen.Outcome{Decision: *d, RightPod: d.Pod == e.leaky().pod.Key(), Survivors: alive, Lost: lost, OOMKills: ooms}
	if crossed != nil {
		exited := d.Time.Add(d.Exit)
		check, exit := max(0, millis(d.Time.Sub(*crossed))), millis(exited.Sub(*crossed))
		r.ThresholdToCheck, r.ThresholdToExit = &check, &exit
		o.Below = exited.Sub(*crossed)
	}
	e.screen.LastBar(time.Since(begun), available)
	e.screen.Ranking(d)
	e.screen.Outcome(&o)
	return r, nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
