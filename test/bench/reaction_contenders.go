package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// contender is a program that has to prevent kills by the kernel.
type contender struct {
	name     string
	phase    time.Duration // the races begin at a random point of this interval between its periodic checks
	needs    string        // a flag of the agent
	arena    string        // the only one where it can race; empty: any
	promises bool          // its losses are explained
	start    func(ctx context.Context, s *stage) (racer, error)
}

// moment is the phase of a contender that checks continuously. It is short, so that no periodic
// check occurs before the race is decided.
const moment = time.Second

const kubeletPhase = 10 * time.Second

var contenders = []contender{
	{name: "10s", phase: kubeletPhase, start: agentWith("--early-eviction=never")},
	{name: "1s", phase: time.Second, start: agentWith("--early-eviction=never", "--monitoring-period=1s")},
	{name: "adaptive", phase: moment, needs: "--kernel-notifications", promises: true, start: agentWith("--kernel-notifications=off")},
	{name: "notified", phase: moment, needs: "--kernel-notifications", promises: true, start: agentWith()},
	{name: "notifier-only", phase: moment, needs: "--kernel-notifications", promises: true,
		start: agentWith("--max-fill-rate=1", trial.NoRegularLook, "--early-eviction=immediate")},
	{name: "loop", phase: 100 * time.Millisecond, start: startLoop},
	{name: "earlyoom", phase: moment, arena: machine.name, start: startEarlyoom},
}

func contenderNames() (names []string) {
	for _, c := range contenders {
		names = append(names, c.name)
	}
	return names
}

// available returns an error if a contender can not race at all.
func available(ctx context.Context, plimsoll string, modes []contender) error {
	help, err := exec.CommandContext(ctx, plimsoll, "agent", "--help").CombinedOutput()
	if err != nil {
		return fmt.Errorf("ask %s for its flags: %w: build it with `make build`", plimsoll, err)
	}
	for _, m := range modes {
		if !strings.Contains(string(help), m.needs) {
			return fmt.Errorf("mode %s: %s has no flag %s: build it anew with `make build`, or leave the mode out with -modes", m.name, plimsoll, m.needs)
		}
	}
	return nil
}

// racer is a running contender.
type racer interface {
	pid() int
	// finish stops it and returns its deed. Returns an error if it has died early.
	finish(ctx context.Context) (deed, error)
}

// deed is the racer's own report of its kill; zero if there was none.
type deed struct {
	victim string    // namespace/name
	look   string    // regular (periodic) or extra (early)
	looked time.Time // time of the observation behind the kill
	signal time.Time // after its last SIGKILL
}

// agentRacer is the agent itself.
type agentRacer struct{ *trial.Agent }

func agentWith(args ...string) func(context.Context, *stage) (racer, error) {
	return func(ctx context.Context, s *stage) (racer, error) {
		a, err := s.Start(ctx, s.plimsoll, append(append([]string{fmt.Sprintf("--eviction-hard=memory.available<%d", s.margin)}, s.arena.args...), args...)...)
		if err != nil {
			return nil, err
		}
		return agentRacer{a}, nil
	}
}

func (a agentRacer) pid() int { return a.PID }

// telling is the time allowed for logging a decision after the death.
const telling = time.Second

// finish returns the first eviction; later ones were not in the race. A kill is logged after it
// has ended, so finish also waits for one that the kernel preceded.
func (a agentRacer) finish(ctx context.Context) (d deed, err error) {
	ctx, cancel := context.WithTimeout(ctx, telling)
	defer cancel()
	told, err := a.Await(ctx, agent.Evicted)
	stopped := a.Stop()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return deed{}, stopped
	case err != nil:
		return deed{}, errors.Join(err, stopped)
	}
	d = deed{victim: told.Pod, look: told.Check, looked: told.Time}
	if told.KillTime != nil {
		d.signal = told.Time.Add(time.Duration(*told.KillTime * float64(time.Millisecond)))
	}
	return d, stopped
}
