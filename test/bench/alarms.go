package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// falseAlarm is a course of usage that resembles imminent exhaustion but does not lead to it.
type falseAlarm struct {
	name  string
	runs  func(o options) int
	prime string // what the pod does before the agent starts
	does  func(ctx context.Context, n *trial.Node, h *sandbox.Hog, i int) error
	limit int64 // of the pod's memory, 0 for none
	sees  bool  // the agent must observe a crossed threshold
	args  []string
}

var dipRates = []int{20, 50, 100}

var falseAlarms = []falseAlarm{
	{name: "dips of 2 s, 40-60 MiB below the threshold, at 20, 50, 100 MiB/s", runs: func(o options) int { return o.dips },
		prime: "fill 380MiB", does: dip, sees: true, args: []string{trial.NoPeriodicCheck}},
	{name: "page-cache streams of 1 GiB, written and read, periodic checks every 100 ms", runs: func(o options) int { return max(o.dips/20, 1) },
		prime: "fill 50MiB", does: stream, args: []string{"--monitoring-period=100ms"}},
	{name: "thrashing for 10 s at the pod's own limit of 64 MiB on a free node, periodic checks every 100 ms", runs: func(o options) int { return max(o.dips/20, 1) },
		prime: "fill 16MiB", does: thrash, limit: 64 * mib, args: []string{"--monitoring-period=100ms"}},
}

// alarms runs the courses that must not lead to an eviction.
func alarms(ctx context.Context, o options) error {
	fmt.Printf("\n## No false alarm: node of 512 MiB, memory.available<100Mi\n\n| what | runs | observed without eviction | evictions, attempts included | kernel OOM kills |\n|---|---|---|---|---|\n")
	for _, f := range falseAlarms {
		var waits, evictions, ooms int64
		for i := range f.runs(o) {
			w, e, k, err := f.run(ctx, o, i)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			waits, evictions, ooms = waits+w, evictions+e, ooms+k
		}
		if f.sees && waits < int64(f.runs(o)) {
			return fmt.Errorf("%s: only %d of %d crossings were observed, too few", f.name, waits, f.runs(o))
		}
		fmt.Printf("| %s | %d | %d | %d | %d |\n", f.name, f.runs(o), waits, evictions, ooms)
	}
	return nil
}

func (f falseAlarm) run(ctx context.Context, o options, i int) (waits, evictions, ooms int64, err error) {
	n, err := trial.NewNode("alarm", 512*mib)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	pod, err := n.AddPod("actor", "")
	if err != nil {
		return 0, 0, 0, err
	}
	if f.limit > 0 {
		if err := pod.LimitMemory(f.limit); err != nil {
			return 0, 0, 0, err
		}
	}
	h, err := n.StartHog(ctx, pod, "app")
	if err != nil {
		return 0, 0, 0, err
	}
	defer h.Close()
	if _, err := h.Do(ctx, f.prime); err != nil {
		return 0, 0, 0, err
	}
	a, err := n.Start(ctx, o.plimsoll, append([]string{"--eviction-hard=memory.available<100Mi"}, f.args...)...)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, a.Stop()) }()
	if err := f.does(ctx, n, h, i); err != nil {
		return 0, 0, 0, err
	}
	for len(a.Decisions) > 0 {
		switch d := <-a.Decisions; d.Decision {
		case agent.Pending:
			waits = 1
		case agent.Evicted, agent.SoftEvicting, agent.Failed, agent.Recovered:
			fmt.Fprintf(os.Stderr, "false alarm: %+v\n", d)
			evictions++
		}
	}
	ooms, err = n.OOMKills()
	return waits, evictions, ooms, err
}

// dip takes the node below its threshold for two seconds, and never within the eviction horizon
// of exhaustion. It leaves 40 MiB at 20 and 50 MiB/s, 60 MiB at 100 MiB/s.
func dip(ctx context.Context, _ *trial.Node, h *sandbox.Hog, i int) error {
	rate := dipRates[i%len(dipRates)]
	depth := 60
	if rate == 100 {
		depth = 40
	}
	_, err := h.Do(ctx, fmt.Sprintf("dip %dMiB at %dMiB/s for 2s", 25+depth, rate))
	return err
}

func stream(ctx context.Context, _ *trial.Node, h *sandbox.Hog, _ int) error {
	dir, err := os.MkdirTemp("", "plimsoll-stream-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	_, err = h.Do(ctx, "cache 1GiB in "+dir+" fsync")
	return err
}

func thrash(ctx context.Context, n *trial.Node, h *sandbox.Hog, _ int) error {
	dir := filepath.Join(n.Dir, "thrash")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := h.Do(ctx, "thrash 128MiB in "+dir+" for 10s")
	return err
}
