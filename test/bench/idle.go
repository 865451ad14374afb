package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/test/trial"
)

// idlePods is how many pods a node of the usual size runs.
const idlePods = 110

// idle measures what an agent costs that has nothing to do.
func idle(ctx context.Context, o options) error {
	fmt.Printf("\n## Idle cost: node of 2 GiB with %d pods of 2 containers, %s\n\n", idlePods, o.idle)
	fmt.Println("| state | CPU, of one core | peak RSS |\n|---|---|---|")
	return idleOnce(ctx, o, false)
}

// parked measures it 10 MiB above its threshold.
func parked(ctx context.Context, o options) error { return idleOnce(ctx, o, true) }

func idleOnce(ctx context.Context, o options, park bool) (err error) {
	const limit = 2 << 30
	n, err := trial.NewNode("idle", limit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	for i := range idlePods - 1 {
		if _, err := n.AddPod(fmt.Sprintf("idle-%d", i), "{containers: [{name: app, image: idle}, {name: sidecar, image: idle}]}", "app", "sidecar"); err != nil {
			return err
		}
	}
	h, err := n.AddHog(ctx, "parked", "")
	if err != nil {
		return err
	}
	state := "no pressure"
	if park {
		state = "parked 10 MiB above the threshold"
		used, err := n.Usage()
		if err != nil {
			return err
		}
		if _, err := h.Do(ctx, fmt.Sprintf("fill %d", limit-110*mib-used)); err != nil {
			return err
		}
	}
	a, err := n.Start(ctx, o.plimsoll, "--eviction-hard=memory.available<100Mi")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Stop()) }()
	select { // the start is not what is measured
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	before, err := trial.CPUTime(a.PID)
	if err != nil {
		return err
	}
	select {
	case <-time.After(o.idle):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := trial.CPUTime(a.PID)
	if err != nil {
		return err
	}
	rss, err := trial.StatusKiB(a.PID, "VmHWM")
	if err != nil {
		return err
	}
	if len(a.Decisions) > 0 {
		return fmt.Errorf("the agent decided something: %+v", <-a.Decisions)
	}
	fmt.Printf("| %s | %.3f %% | %.1f MiB |\n", state, 100*float64(after-before)/float64(o.idle), float64(rss)/1024)
	return nil
}
