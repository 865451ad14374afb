package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/trial"
)

// A falseAlarm is something that looks like doom and is not.
type falseAlarm struct {
	name string
	runs func(o options) int
	does func(ctx context.Context, n *trial.Node, i int) error
	args []string
}

// noRegularLook keeps the looks that decide as the kubelet out: by chance one
// would find a dip, and rightly act.
const noRegularLook = "--monitoring-period=1h"

var dipRates = []int{20, 50, 100}

var falseAlarms = []falseAlarm{
	{name: "dips of 2 s, 40-60 MiB below the threshold, at 20, 50, 100 MiB/s", runs: func(o options) int { return o.dips }, does: dip, args: []string{noRegularLook}},
	{name: "page-cache streams of 1 GiB, written and read", runs: func(o options) int { return max(o.dips/20, 1) }, does: stream, args: []string{noRegularLook}},
	{name: "thrashing for 10 s at the pod's own limit of 64 MiB on a free node", runs: func(o options) int { return max(o.dips/20, 1) }, does: thrash},
}

// alarms runs what must not lead to an eviction.
func alarms(ctx context.Context, o options) error {
	fmt.Printf("\n## No false alarm: node of 512 MiB, memory.available<100Mi\n\n| what | runs | evictions | kernel OOM kills |\n|---|---|---|---|\n")
	for _, f := range falseAlarms {
		evictions, ooms, err := f.run(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		fmt.Printf("| %s | %d | %d | %d |\n", f.name, f.runs(o), evictions, ooms)
	}
	return nil
}

func (f falseAlarm) run(ctx context.Context, o options) (evictions, ooms int64, err error) {
	n, err := trial.NewNode("alarm", 512*mib)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	a, err := n.Start(ctx, o.plimsoll, append([]string{"--eviction-hard=memory.available<100Mi"}, f.args...)...)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, a.Stop()) }()
	for i := range f.runs(o) {
		if err := f.does(ctx, n, i); err != nil {
			return 0, 0, err
		}
	}
	for len(a.Decisions) > 0 {
		if d := <-a.Decisions; d.Decision == agent.Evicted {
			fmt.Fprintf(os.Stderr, "evicted: %+v\n", d)
			evictions++
		}
	}
	ooms, err = n.OOMKills()
	return evictions, ooms, err
}

// dip takes the node below its threshold for two seconds, never so fast that it
// would be gone within the reserve: what is left is 40 MiB at 20 and 50 MiB/s,
// 60 MiB at 100 MiB/s.
func dip(ctx context.Context, n *trial.Node, i int) error {
	rate := dipRates[i%len(dipRates)]
	depth := 60
	if rate == 100 {
		depth = 40
	}
	h, err := n.AddHog(ctx, fmt.Sprintf("dip-%d", i), "")
	if err != nil {
		return err
	}
	defer h.Close()
	if _, err := h.Do(ctx, "fill 380MiB at 400MiB/s"); err != nil {
		return err
	}
	_, err = h.Do(ctx, fmt.Sprintf("dip %dMiB at %dMiB/s for 2s", 25+depth, rate))
	return err
}

func stream(ctx context.Context, n *trial.Node, i int) error {
	h, err := n.AddHog(ctx, fmt.Sprintf("stream-%d", i), "")
	if err != nil {
		return err
	}
	defer h.Close()
	dir, err := os.MkdirTemp("", "plimsoll-stream-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	_, err = h.Do(ctx, "cache 1GiB in "+dir+" fsync")
	return err
}

func thrash(ctx context.Context, n *trial.Node, i int) error {
	pod, err := n.AddPod(fmt.Sprintf("thrash-%d", i), "")
	if err != nil {
		return err
	}
	if err := pod.LimitMemory(64 * mib); err != nil {
		return err
	}
	h, err := n.StartHog(ctx, pod, "app")
	if err != nil {
		return err
	}
	defer h.Close()
	dir := filepath.Join(n.Dir, "thrash")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err = h.Do(ctx, "thrash 128MiB in "+dir+" for 10s")
	return err
}
