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
	nodeKind string        // the only one where it can race; empty: any
	promises bool          // its losses are explained
	start    func(ctx context.Context, s *env) (racer, error)
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
		start: agentWith("--max-fill-rate=1", trial.NoPeriodicCheck, "--early-eviction=immediate")},
	{name: "loop", phase: 100 * time.Millisecond, start: startLoop},
	{name: "earlyoom", phase: moment, nodeKind: machine.name, start: startEarlyoom},
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
		return fmt.Errorf("read the flags of %s: %w: run `make build`", plimsoll, err)
	}
	for _, m := range modes {
		if !strings.Contains(string(help), m.needs) {
			return fmt.Errorf("mode %s: %s has no flag %s: run `make build`, or omit the mode with -modes", m.name, plimsoll, m.needs)
		}
	}
	return nil
}

// racer is a running contender.
type racer interface {
	pid() int
	// finish stops it and returns its kill. Returns an error if it ended early.
	finish(ctx context.Context) (kill, error)
}

// kill is the racer's own report of its kill; zero if there was none.
type kill struct {
	victim  string    // namespace/name
	check   string    // periodic or early
	checked time.Time // time of the observation behind the kill
	signal  time.Time // after its last SIGKILL
}

// agentRacer is the agent itself.
type agentRacer struct{ *trial.Agent }

func agentWith(args ...string) func(context.Context, *env) (racer, error) {
	return func(ctx context.Context, s *env) (racer, error) {
		a, err := s.Start(ctx, s.plimsoll, append(append([]string{fmt.Sprintf("--eviction-hard=memory.available<%d", s.margin)}, s.nodeKind.args...), args...)...)
		if err != nil {
			return nil, err
		}
		return agentRacer{a}, nil
	}
}

func (a agentRacer) pid() int { return a.PID }

// logTime is the time allowed for logging a decision after the exit.
const logTime = time.Second

// finish returns the first eviction; later ones were not in the race. A kill is logged after it
// has ended, so finish also waits for one that the kernel preceded.
func (a agentRacer) finish(ctx context.Context) (d kill, err error) {
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	decision, err := a.Await(ctx, agent.Evicted)
	stopped := a.Stop()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return kill{}, stopped
	case err != nil:
		return kill{}, errors.Join(err, stopped)
	}
	d = kill{victim: decision.Pod, check: decision.Check, checked: decision.Time}
	if decision.KillTime != nil {
		d.signal = decision.Time.Add(time.Duration(*decision.KillTime * float64(time.Millisecond)))
	}
	return d, stopped
}
