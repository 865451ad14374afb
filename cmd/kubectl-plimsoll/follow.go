package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/internal/agentexec"
	"plimsoll.dev/plimsoll/internal/backoff"
	"plimsoll.dev/plimsoll/internal/clusterstatus"
	"plimsoll.dev/plimsoll/internal/clusterstatus/collect"
	"plimsoll.dev/plimsoll/internal/kube/user"
	"plimsoll.dev/plimsoll/internal/live"
)

const (
	// followDuration ends the command in the pod: one that has lost its client must not stay there.
	followDuration = 5 * time.Minute
	// stable is the time from which on a connection counts as good: commands of earlier ones have ended by then.
	stable = time.Minute
	// armingTime bounds the request for the agent's lease.
	armingTime = 5 * time.Second
)

// reconnect is the delay after a connection that broke.
var reconnect = backoff.Bounds{Min: time.Second, Max: 30 * time.Second}

// follower reads the states of a node from its agent.
type follower struct {
	agent      *agentexec.Agent
	dir        string // of the recording; empty: the agent's default
	connection *user.Connection
	leaseTime  time.Duration // bounds the request for the agent's lease
	arming     string        // by the agent's lease; empty: not known
}

// args returns the command to run in the pod.
func (f *follower) args(more ...string) []string {
	args := append([]string{"top", "--output=json"}, more...)
	if f.dir != "" {
		args = append(args, "--recording-dir="+f.dir)
	}
	return args
}

// once returns one state. Returns an error if there is none.
func (f *follower) once(ctx context.Context) (state *live.State, err error) {
	f.readArming(ctx)
	if err = f.lines(ctx, f.args(), func(s *live.State) error { state = s; return nil }); err != nil {
		return nil, err
	}
	if state == nil {
		return nil, fmt.Errorf("show the state of node %s: the agent has written none: run it again", f.agent.Node)
	}
	return state, nil
}

// follow calls each with every state until the context ends, and connects again after the connection broke; then it calls
// lost with the cause and the delay. Returns the first error of each, and an error if there is no first state.
func (f *follower) follow(ctx context.Context, each func(*live.State) error, lost func(err error, wait time.Duration)) error {
	args := f.args("--watch", "--duration="+followDuration.String())
	ever, failures := false, 0
	for {
		f.readArming(ctx)
		var refused error
		states, begun := 0, time.Now()
		err := f.lines(ctx, args, func(s *live.State) error {
			states++
			if ever = true; time.Since(begun) >= stable {
				failures = 0
			}
			refused = each(s)
			return refused
		})
		switch {
		case refused != nil:
			return refused
		case ctx.Err() != nil:
			return nil // the user has ended it
		case !ever && err != nil:
			return err
		case err == nil && states > 0 && time.Since(begun) >= followDuration/2:
			continue // the command has reached its duration
		case err == nil && states > 0:
			err = fmt.Errorf("show the state of node %s: %w", f.agent.Node, errEarly)
		case err == nil:
			err = fmt.Errorf("show the state of node %s: %w", f.agent.Node, errNoState)
		}
		failures++
		wait := reconnect.Jittered(failures)
		lost(err, wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// errEarly is the error of a connection that ended before the command in the pod had to end.
var errEarly = errors.New("the connection ended early")

// errNoState is the error of a connection that ended without a state.
var errNoState = errors.New("the connection ended without a state")

// lines calls each with the state of every line.
func (f *follower) lines(ctx context.Context, args []string, each func(*live.State) error) error {
	return f.agent.Lines(ctx, args, func(line []byte) error {
		s, err := live.Parse(line)
		if err != nil {
			return fmt.Errorf("the answer of the agent: %w", err)
		}
		if s.Arming == "" || f.arming == string(clusterstatus.Silent) { // a recording has no end of its agent
			s.Arming = f.arming
		}
		return each(s)
	})
}

// readArming reads the agent's lease. Without the right to that, or an API server that answers in time, the arming is not
// known.
func (f *follower) readArming(ctx context.Context) {
	if f.connection == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, f.leaseTime)
	defer cancel()
	r := collect.Request{Client: f.connection.Client, Namespace: f.agent.Namespace, Names: []string{f.agent.Node}}
	agents, err := r.Agents(ctx)
	n := clusterstatus.Node{Agent: agents[f.agent.Node]}
	if f.arming = ""; err == nil && n.Agent != nil {
		f.arming = string(n.State(f.connection.Now())) // or silent: the agent does not renew its lease
	}
}
