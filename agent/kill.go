package agent

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/signal"
)

// Bounds of the wait for the processes of an immediate kill to be gone. What
// lingers after it is waited for beside further looks.
const (
	shortestKillWait = 2 * eviction.KillTime
	longestKillWait  = 2 * time.Second
)

// Kill implements Killer: at once for a hard eviction, beside the loop for a
// soft one, not at all in a dry run.
func (a *Agent) Kill(ctx context.Context, e *eviction.Eviction) error {
	s := &a.snapshot
	a.killed = Killed{}
	r := &release{eviction: e, since: s.At, deadline: s.At.Add(releaseWait), rehearsed: a.settings.DryRun}
	if a.settings.DryRun {
		a.release = r
		return nil
	}
	victim, err := a.victims.Victim(e.Pod)
	if err != nil {
		return err
	}
	if !e.Hard {
		a.terminate(ctx, r, victim)
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, a.killWait(s))
	defer cancel()
	decided := time.Since(s.At)
	killed, err := victim.Immediate(bounded)
	if err != nil {
		return fmt.Errorf("kill the processes of pod %s: %w", e.Pod.Key(), err)
	}
	if killed.Processes == 0 {
		return fmt.Errorf("kill the processes of pod %s: it has none any more", e.Pod.Key())
	}
	killed.ToSignal += decided
	killed.ToEmpty += decided
	a.killed, a.release = killed, r
	return nil
}

// killWait is how long to wait for a kill: half of what memory lasts at its
// present rate, so that another pod can be ended in time.
func (a *Agent) killWait(s *signal.Snapshot) time.Duration {
	wait := longestKillWait
	for sig := range signal.All {
		if lasts, falling := s.Fell[sig].Lasts(s.Node[sig].Available); falling && sig.OfMemory() {
			wait = min(wait, lasts/2)
		}
	}
	return max(wait, shortestKillWait)
}

// terminate lets the pod end within its grace period, beside the loop.
func (a *Agent) terminate(ctx context.Context, r *release, victim Victim) {
	grace := time.Duration(r.eviction.GracePeriod) * time.Second
	finished, hurry := make(chan termination, 1), make(chan struct{})
	r.finished, r.hurry = finished, hurry
	r.deadline = r.deadline.Add(grace)
	a.release = r
	go func() {
		killed, err := victim.Graceful(ctx, grace, hurry)
		finished <- termination{killed, err}
	}()
}

// terminated is where the soft eviction under way reports its end; nil if
// there is none.
func (a *Agent) terminated() <-chan termination {
	if a.release == nil {
		return nil
	}
	return a.release.finished
}

// endTermination notes that the processes of a soft eviction are gone. If they
// could not be ended, the next regular look decides anew.
func (a *Agent) endTermination(t termination) {
	r := a.release
	r.finished, r.hurry = nil, nil // the deadline goes on
	a.reporter.Report(a.terminatedBy(r, t, time.Now()))
	if t.err != nil {
		a.release = nil
	}
}
