package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// minWait is the minimum wait of every race; it exceeds the start of a contender.
const minWait = 200 * time.Millisecond

// race is one hog against one contender.
type race struct {
	group
	contender contender
	plimsoll  string
	earlyoom  string
	rate      int64         // bytes per second, 0 for the maximum
	wait      time.Duration // before the last fill begins
	every     time.Duration // interval between the sampler's readings
}

// env is the node of a race.
type env struct {
	race
	*trial.Node
	restore       func() error // undoes nodeKind.setUp
	gauge         gauge
	kills         int64 // by the kernel, before the race
	line          int64 // usage above which too little memory is available
	innocent, hog *sandbox.Hog
}

// runUp returns the distance from the line at which the last fill begins: a second of filling,
// at most 192 MiB.
func runUp(rate int64) int64 {
	if rate == 0 {
		return 192 * mib
	}
	return min(rate, 192*mib)
}

func (r race) run(ctx context.Context) (_ result, err error) {
	s, err := r.prepare(ctx)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	racer, err := r.contender.start(ctx, s)
	if err != nil {
		return result{}, err
	}
	finished := false
	defer func() {
		if !finished {
			_, finishErr := racer.finish(ctx)
			err = errors.Join(err, finishErr)
		}
	}()
	noise, err := spin(r.spinners)
	defer noise.stop()
	if err != nil {
		return result{}, err
	}
	seen, spent, err := s.fill(ctx, racer)
	if err != nil {
		return result{}, err
	}
	finished = true
	did, err := racer.finish(ctx)
	if err != nil {
		return result{}, err
	}
	kills, err := r.nodeKind.kills(s.Node)
	if err != nil {
		return result{}, err
	}
	return s.classify(seen, did, spent, kills-s.kills), nil
}

// prepare creates the node: an innocent pod within its request, and a hog that has filled the
// node up to the start of the race.
func (r race) prepare(ctx context.Context) (_ *env, err error) {
	n, err := trial.NewNode("race", r.nodeKind.limit)
	if err != nil {
		return nil, err
	}
	s := &env{race: r, Node: n, restore: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	restore, err := r.nodeKind.setUp(n)
	if err != nil {
		return nil, err
	}
	s.restore = restore
	if s.kills, err = r.nodeKind.kills(n); err != nil {
		return nil, err
	}
	if s.gauge, err = r.nodeKind.gauge(n); err != nil {
		return nil, err
	}
	if s.innocent, err = n.AddHog(ctx, "innocent", trial.Requesting("100Mi")); err != nil {
		return nil, err
	}
	if _, err := s.innocent.Do(ctx, "fill 60MiB"); err != nil {
		return nil, err
	}
	if s.hog, err = n.AddHog(ctx, "hog", ""); err != nil {
		return nil, err
	}
	return s, s.fillUp(ctx)
}

func (s *env) close() error { return errors.Join(s.restore(), s.Close()) }

// fillUp sets the line, and has the hog fill the node up to the run-up to it.
func (s *env) fillUp(ctx context.Context) error {
	used, inactive, err := s.gauge.now()
	if err != nil {
		return err
	}
	s.line = s.gauge.Total - s.margin + inactive
	first := s.line - runUp(s.rate) - used
	if first < 0 {
		return fmt.Errorf("%d MiB are in use before anything is filled: too many for a threshold of %d MiB", used/mib, s.margin/mib)
	}
	_, err = s.hog.Do(ctx, fmt.Sprintf("fill %d", first))
	return err
}

// cpu is the consumption of a racer: while it waited, and in the race.
type cpu struct {
	waiting float64 // share of a core
	race    time.Duration
}

// fill waits, has the hog fill the node, and returns after the hog's death.
func (s *env) fill(ctx context.Context, racer racer) (seen observation, spent cpu, err error) {
	waited := time.Now()
	before, err := spentBy(racer.pid())
	if err != nil {
		return seen, spent, err
	}
	select {
	case <-time.After(s.wait):
	case <-ctx.Done():
		return seen, spent, ctx.Err()
	}
	w, err := watch(samplerInput{s.gauge, s.line - min(runUp(s.rate)/2, 64*mib), s.line, s.hog.Process.PID, s.every})
	if err != nil {
		return seen, spent, err
	}
	stop := context.AfterFunc(ctx, func() { _ = w.in.Close() })
	defer stop()
	middle, err := spentBy(racer.pid())
	if err != nil {
		return seen, spent, errors.Join(err, w.close())
	}
	spent.waiting = float64(middle-before) / float64(time.Since(waited))
	last := "fill 4GiB"
	if s.rate > 0 {
		last += fmt.Sprintf(" at %d/s", s.rate)
	}
	if err := s.hog.Send(last); err != nil {
		return seen, spent, errors.Join(err, w.close())
	}
	if seen, err = w.await(); err != nil {
		return seen, spent, errors.Join(err, ctx.Err(), w.close())
	}
	after, err := spentBy(racer.pid())
	spent.race = after - middle
	return seen, spent, errors.Join(err, w.close())
}

// spentBy returns a process's CPU time by its own clock, which other processes may read. The
// clock's number is derived from the PID, see clock_getcpuclockid(3).
func spentBy(pid int) (time.Duration, error) {
	const scheduled = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// noise is busy loops beside the node.
type noise []*exec.Cmd

// spin starts count busy loops. They also end with this process.
func spin(count int) (noise, error) {
	var n noise
	for range count {
		cmd := hog.Command("spin for 10m")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return n, fmt.Errorf("start a busy loop: %w", err)
		}
		n = append(n, cmd)
	}
	return n, nil
}

func (n noise) stop() {
	for _, cmd := range n {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
