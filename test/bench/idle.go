package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/test/harness/trial"
)

// population is the load of a node without evictions.
type population struct{ pods, containers int }

// cgroups returns the number of cgroups of the pods and of their containers.
func (p population) cgroups() int { return p.pods * (1 + p.containers) }

// usual is the largest population that a kubelet allows by default.
var usual = population{pods: 110, containers: 2}

// manyCgroups returns a population of at least that many cgroups, in pods of three containers.
func manyCgroups(cgroups int) population { return population{pods: (cgroups + 3) / 4, containers: 3} }

const parkLimit, parkThreshold = 2 << 30, 100 * mib

// level is the memory of a node.
type level struct {
	name  string
	above int64 // available above the threshold, in bytes; 0: all that the pods leave
}

var (
	calm  = level{"no pressure", 0}
	near  = level{"parked 10 MiB above the threshold", 10 * mib}
	below = level{"10 MiB below the threshold, disarmed", -10 * mib}
)

// idle measures the cost of an agent on a node without pressure.
func idle(ctx context.Context, o options) error { return idleRows(ctx, o, calm) }

// parked measures that cost 10 MiB above the threshold.
func parked(ctx context.Context, o options) error { return idleRows(ctx, o, near) }

func idleRows(ctx context.Context, o options, l level) error {
	fmt.Printf("\n## Cost of watching: node of 2 GiB, %s, median (least-most) of %d times %s\n\n", l.name, o.idleRuns, o.idle)
	fmt.Println("| pods x containers | cgroups | CPU, of one core | wake-ups a second | µs a wake-up | peak RSS | of it anonymous |\n|---|---|---|---|---|---|---|")
	for _, p := range []population{usual, manyCgroups(o.cgroups)} {
		var costs []cost
		err := watched(ctx, o, p, l, nil, func(a *trial.Agent) (err error) {
			costs, err = costsOf(ctx, o, a.PID)
			return err
		})
		if err != nil {
			return err
		}
		fmt.Printf("| %d x %d | %d | %s |\n", p.pods, p.containers, p.cgroups(), summary(costs))
	}
	return nil
}

// costsOf returns the cost of an agent over each of the runs.
func costsOf(ctx context.Context, o options, pid int) (costs []cost, err error) {
	for range o.idleRuns {
		c, err := costOver(ctx, pid, o.idle)
		if err != nil {
			return nil, err
		}
		costs = append(costs, c)
	}
	return costs, nil
}

// startTime is the time allowed for the start, which is not measured.
const startTime = 5 * time.Second

// watched runs measure while an agent watches a node of the population. It is disarmed below the threshold.
func watched(ctx context.Context, o options, p population, l level, flags []string, measure func(*trial.Agent) error) (err error) {
	n, err := populated(ctx, p, l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	a, err := n.Start(ctx, o.plimsoll, append([]string{fmt.Sprintf("--eviction-hard=memory.available<%d", parkThreshold), fmt.Sprintf("--dry-run=%t", l.above < 0)}, flags...)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Stop()) }()
	if err := pass(ctx, startTime); err != nil {
		return err
	}
	if err := measure(a); err != nil {
		return err
	}
	if l.above >= 0 && len(a.Decisions) > 0 {
		return fmt.Errorf("the agent made a decision: %+v", <-a.Decisions)
	}
	return nil
}

// populated creates a node with a population of pods. One of them uses the memory for the level.
func populated(ctx context.Context, p population, l level) (*trial.Node, error) {
	n, err := trial.NewNode("idle", parkLimit)
	if err != nil {
		return nil, err
	}
	if err := settle(ctx, n, p, l); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func settle(ctx context.Context, n *trial.Node, p population, l level) error {
	names := []string{"app", "sidecar", "proxy"}[:p.containers]
	spec := "{containers: ["
	for _, name := range names {
		spec += "{name: " + name + ", image: idle},"
	}
	spec += "]}"
	for i := range p.pods - 1 {
		if _, err := n.AddPod(fmt.Sprintf("idle-%d", i), spec, names...); err != nil {
			return err
		}
	}
	h, err := n.AddHog(ctx, "parked", "")
	if err != nil || l.above == 0 {
		return err
	}
	used, err := n.Usage()
	if err != nil {
		return err
	}
	_, err = h.Do(ctx, fmt.Sprintf("fill %d", parkLimit-parkThreshold-l.above-used))
	return err
}

// cost is the consumption of an agent over some time.
type cost struct {
	share     float64 // of one core
	wakes     float64 // a second
	peak, own int64   // KiB resident: the peak so far, and the current value without files
}

// perWake returns the processor time of one wake-up, in microseconds.
func (c cost) perWake() float64 { return c.share * 1e6 / c.wakes }

func costOver(ctx context.Context, pid int, d time.Duration) (cost, error) {
	before, err := usageOf(pid)
	if err != nil {
		return cost{}, err
	}
	if err := pass(ctx, d); err != nil {
		return cost{}, err
	}
	after, err := usageOf(pid)
	if err != nil {
		return cost{}, err
	}
	peak, err := trial.StatusKiB(pid, "VmHWM")
	if err != nil {
		return cost{}, err
	}
	own, err := trial.StatusKiB(pid, "RssAnon")
	took := after.at.Sub(before.at).Seconds()
	return cost{(after.cpu - before.cpu).Seconds() / took, float64(after.switches-before.switches) / took, peak, own}, err
}

func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func summary(costs []cost) string {
	of := func(format string, value func(cost) float64) string {
		values := make([]float64, len(costs))
		for i, c := range costs {
			values[i] = value(c)
		}
		slices.Sort(values)
		return fmt.Sprintf(format, values[len(values)/2], values[0], values[len(values)-1])
	}
	last := costs[len(costs)-1]
	return of("%.3f %% (%.3f-%.3f)", func(c cost) float64 { return 100 * c.share }) + " | " +
		of("%.1f (%.1f-%.1f)", func(c cost) float64 { return c.wakes }) + " | " +
		of("%.0f (%.0f-%.0f)", cost.perWake) +
		fmt.Sprintf(" | %.1f MiB | %.1f MiB", float64(last.peak)/1024, float64(last.own)/1024)
}
