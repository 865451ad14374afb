package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/agent"
)

// play lets the pod leak and watches what becomes of it.
func (s *scene) play(ctx context.Context) error {
	fmt.Printf("%s begins to leak %s a second.\n", s.leaky().pod.Key(), s.options.rate)
	if err := s.leaky().hog.Send(fmt.Sprintf("fill 2GiB at %s/s", s.options.rate)); err != nil {
		return err
	}
	watched, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	crossing := s.node.Crossing(watched, threshold)

	decision, err := s.awaitEviction(ctx)
	if err != nil {
		return err
	}
	var dead time.Time
	select {
	case <-s.leaky().hog.Process.Done():
		dead = time.Now()
	case <-time.After(10 * time.Second):
		return errors.New("the leaking pod is still alive 10 s after the agent said it was evicted")
	case <-ctx.Done():
		return ctx.Err()
	}
	describe(decision)
	recovered, err := s.node.Available()
	if err != nil {
		return err
	}
	ooms, err := s.node.OOMKills()
	if err != nil {
		return err
	}
	sum := summary{
		Evicted: decision.Pod, Alive: s.alive(), OOMKills: ooms, AvailableAfter: recovered,
		Rate: s.options.rate, Limit: s.options.limit, LookToEmpty: *decision.ToEmpty,
	}
	select {
	case <-time.After(time.Second):
		return errors.New("the crossing was not noticed: what a decision took can not be said")
	case at := <-crossing:
		sum.CrossingToKilled = millis(earliest(dead, decision).Sub(at))
		sum.CrossingToLook = max(0, millis(decision.Time.Sub(at)))
	}
	return sum.print(s)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// earliest is when the pod was dead: as the agent measured it, if that was
// before the demo noticed.
func earliest(noticed time.Time, d *agent.Decision) time.Time {
	if at := d.Time.Add(time.Duration(*d.ToEmpty * float64(time.Millisecond))); at.Before(noticed) {
		return at
	}
	return noticed
}

// awaitEviction draws the node's line until the agent has evicted a pod.
func (s *scene) awaitEviction(ctx context.Context) (*agent.Decision, error) {
	gauge := newGauge(s)
	defer gauge.stop()
	leaked := s.leaky().hog.Process.Done()
	for {
		select {
		case d, running := <-s.agent.Decisions:
			switch {
			case !running:
				return nil, errors.New("the agent ended:\n" + s.agent.Log())
			case d.Decision == agent.Evicted && d.ToEmpty != nil:
				gauge.draw()
				return &d, nil
			case d.Decision == agent.Waits || d.Decision == agent.Failed:
				gauge.say("%s", d.Why)
			}
		case <-leaked:
			leaked = nil // by the agent, whose decision follows, or by the kernel
			if ooms, err := s.node.OOMKills(); err == nil && ooms > 0 {
				return nil, fmt.Errorf("the kernel's OOM killer was faster: %d processes", ooms)
			}
		case <-gauge.tick():
			gauge.draw()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// describe prints the decision as an operator would read it.
func describe(d *agent.Decision) {
	fmt.Printf("\nThe agent decided (%s look): %s\n", d.Look, d.Why)
	if d.Rate != nil && d.Exhaustion != nil {
		fmt.Printf("  memory fell by %s a second: gone in %.0f ms\n", size(*d.Rate>>20<<20), *d.Exhaustion)
	}
	for i, p := range d.Ranking {
		mark := " "
		if p.Pod == d.Pod {
			mark = "✗"
		}
		fmt.Printf("  %s %d. %-11s %s\n", mark, i+1, p.Pod, p.Reason)
	}
	fmt.Printf("  evicted %s: %s\n", d.Pod, d.Message)
	freed := "an unknown amount"
	if d.Freed != nil {
		freed = size(*d.Freed >> 20 << 20)
	}
	fmt.Printf("  %d process(es); SIGKILL sent %.1f ms after the look, all gone after %.1f ms, %s freed\n\n",
		d.Processes, *d.ToSignal, *d.ToEmpty, freed)
}

// others are the pods that must have survived.
func (s *scene) others() (keys []string) {
	for _, r := range s.roles[:len(s.roles)-1] {
		keys = append(keys, r.pod.Key())
	}
	return keys
}

func (sum *summary) rightPod(s *scene) bool {
	return sum.Evicted == s.leaky().pod.Key() && slices.Equal(sum.Alive, s.others())
}
