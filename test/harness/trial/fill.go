package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// Fill is a trial in which a hog fills the node's memory until the agent evicts it or the
// kernel kills it.
type Fill struct {
	Binary    string
	Limit     int64         // of the node
	Threshold int64         // hard memory.available, in bytes
	Rate      int64         // bytes per second; 0: unlimited
	Wait      time.Duration // before the last fill begins: the phase of the periodic checks
	Args      []string      // of the agent, in addition to the threshold
}

// Result is the result of a fill.
type Result struct {
	Evicted     string // the pod; empty: no eviction
	Innocent    bool   // the other pod is alive
	OOMKills    int64
	ToKilled    time.Duration // from the crossing to the exit of the hog; 0 if the crossing was not observed
	Check       string        // kind of the check that decided
	Exhaustion  time.Duration // time to exhaustion, as computed by the agent
	Falling     bool          // whether available memory was falling
	Rate        int64         // reached until the crossing, in bytes per second; 0 if it was not observed
	CheckToExit time.Duration
	CPU         time.Duration // of the agent
	// CheckGap is the longest time between two checks during the last fill, by the reads of the node's statistics, and
	// Waited the longest time that a thread of the agent waited for a processor, by the kernel's count. Neither depends
	// on what the agent reports.
	CheckGap, Waited time.Duration
}

// Times of the agent: the default of --early-eviction-horizon, the time of a kill, and the shortest one between two
// checks while memory does not fall.
const (
	reserve         = 500 * time.Millisecond
	reactionTime    = 50 * time.Millisecond
	relaxedInterval = 25 * time.Millisecond
)

// Early reports whether an early check evicted although exhaustion was not imminent by the
// default horizon. This must never happen.
func (r *Result) Early() bool {
	return r.Check == "early" && (!r.Falling || r.Exhaustion > reserve)
}

// Saved reports whether the right pod was evicted without an OOM kill.
func (r *Result) Saved() bool { return r.Evicted == "default/hog" && r.OOMKills == 0 && r.Innocent }

// Judged reports whether a result is one of the agent. An OOM kill is none if two checks, or the last one and the OOM
// kill, were further apart than the memory lasts, and the kernel kept the agent waiting for a processor meanwhile.
func (f Fill) Judged(r *Result) bool {
	longest := f.longestGap()
	return r.OOMKills == 0 || r.CheckGap < longest || r.Waited < longest-relaxedInterval
}

// longestGap returns the longest time between two checks that leaves time for a kill: that of the memory below the
// threshold at the rate, or the horizon, without the kill. It is zero at an unlimited rate.
func (f Fill) longestGap() time.Duration {
	if f.Rate == 0 {
		return 0
	}
	lasts := time.Duration(float64(f.Threshold) / float64(f.Rate) * float64(time.Second))
	return max(min(lasts, reserve)-reactionTime, 0)
}

// Run fills the node once. Returns an error if the trial itself fails; an OOM kill is a result.
func (f Fill) Run(ctx context.Context) (r Result, err error) {
	n, err := NewNode("fill", f.Limit)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	innocent, err := n.AddHog(ctx, "innocent", Requesting("100Mi"))
	if err != nil {
		return r, err
	}
	if _, err := innocent.Do(ctx, "fill 60MiB"); err != nil {
		return r, err
	}
	hog, err := n.AddHog(ctx, "hog", "")
	if err != nil {
		return r, err
	}
	if _, err := hog.Do(ctx, fmt.Sprintf("fill %d", f.Limit-f.Threshold-f.runUp()-64<<20)); err != nil {
		return r, err
	}
	a, err := n.Start(ctx, f.Binary, append([]string{fmt.Sprintf("--eviction-hard=memory.available<%d", f.Threshold)}, f.Args...)...)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, a.Stop()) }()
	select {
	case <-time.After(f.Wait):
	case <-ctx.Done():
		return r, ctx.Err()
	}
	watched, stop := context.WithCancel(ctx)
	defer stop()
	crossed := n.Crossing(watched, f.Threshold)
	last := "fill 4GiB"
	if f.Rate > 0 {
		last += fmt.Sprintf(" at %d/s", f.Rate)
	}
	checks, err := watchChecks(n, a)
	if err != nil {
		return r, err
	}
	defer checks.close()
	begun := time.Now()
	if err := hog.Send(last); err != nil {
		return r, err
	}
	select {
	case <-hog.Process.Done():
	case <-ctx.Done():
		return r, fmt.Errorf("the hog was neither evicted nor killed: %w", ctx.Err())
	}
	dead := time.Now()
	if r.OOMKills, err = n.OOMKills(); err != nil {
		return r, err
	}
	if r.CheckGap, r.Waited, err = checks.late(ctx, begun, dead); err != nil {
		return r, err
	}
	select {
	case at := <-crossed:
		r.ToKilled = dead.Sub(at)
		r.Rate = int64(float64(f.runUp()) / at.Sub(begun).Seconds())
	default: // crossed and killed within a millisecond
	}
	r.Innocent = innocent.Process.Alive()
	if r.CPU, _, err = sandbox.CPUTime(a.PID); err != nil {
		return r, err
	}
	return r, r.decided(ctx, a)
}

// runUp returns the distance of the last fill's begin from the threshold in bytes: one second
// at the rate, at most 192 MiB, and 192 MiB at an unlimited rate.
func (f Fill) runUp() int64 {
	if f.Rate == 0 {
		return 192 << 20
	}
	return min(f.Rate, 192<<20)
}

// decided copies the agent's decision to the result, unless the kernel killed first.
func (r *Result) decided(ctx context.Context, a *Agent) error {
	if r.OOMKills > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d, err := a.Await(ctx, agent.Evicted)
	if err != nil {
		return err
	}
	r.Evicted, r.Check = d.Pod, d.Check
	if d.TimeToExhaustion != nil {
		r.Falling, r.Exhaustion = true, time.Duration(*d.TimeToExhaustion*float64(time.Millisecond))
	}
	if d.ExitTime != nil {
		r.CheckToExit = time.Duration(*d.ExitTime * float64(time.Millisecond))
	}
	return nil
}
