package agent

import (
	"context"
	"errors"
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

// longestPatience is how long the API server is waited for before a pod is
// killed while memory leaves the time: a pod that is killed before its status
// is written may be started again by a kubelet.
const longestPatience = 2 * time.Second

// The same pod is killed no more often than this: one that is started again
// every time, or does not die, does not keep the next pod from being tried.
const (
	mostKills   = 3
	killsForget = 10 * time.Minute
)

// longestGrace bounds the grace period of a soft eviction, in seconds: a year.
const longestGrace = 365 * 24 * 3600

// Kill implements Killer: at once for a hard eviction, beside the loop for a
// soft one, not at all in a disarmed agent.
func (a *Agent) Kill(ctx context.Context, e *eviction.Eviction) error {
	s := &a.snapshot
	a.killed = Killed{}
	r := newRelease(e, s.At)
	if !a.mayAct() {
		return a.rehearse(r)
	}
	if err := a.kills.refuse(e.Pod, s.At); err != nil {
		return err
	}
	victim, err := a.victims.Victim(e)
	if err != nil {
		return err
	}
	if !e.Hard {
		a.kills.count(e.Pod, s.At)
		a.terminate(ctx, r, victim)
		return nil
	}
	decided := time.Since(s.At)
	killed, err := a.immediate(ctx, victim)
	if err != nil && !a.mayAct() { // disarmed while the API server was waited for
		return a.rehearse(r)
	}
	if err != nil {
		return fmt.Errorf("kill the processes of pod %s: %w", e.Pod.Key(), err)
	}
	switch {
	case killed.Processes > 0:
	case killed.Status == "":
		return fmt.Errorf("kill the processes of pod %s: it has none any more", e.Pod.Key())
	default:
		// The kernel was faster while the API server was waited for, or it ended by
		// itself: what it held is on its way, and nobody goes in its stead.
		killed.Lingering = true
	}
	killed.ToStatus += decided
	killed.ToSignal += decided
	killed.ToEmpty += decided
	r.lingering = killed.Lingering
	a.killed = killed
	a.kills.count(e.Pod, s.At)
	a.falls = falls{} // the pod's own filling says nothing about the time after it
	a.keep(r)
	return nil
}

// attendPace is how often memory is looked at while a kill is under way.
const attendPace = 2 * eviction.ShortestInterval

// immediate kills, on the loop's own thread, which is the one that gets its
// processor in time. Memory is looked at meanwhile.
func (a *Agent) immediate(ctx context.Context, victim Victim) (Killed, error) {
	patience, wait := a.patienceFor(&a.snapshot), a.killWait(&a.snapshot)
	bounded, giveUp := context.WithTimeout(ctx, patience+wait)
	defer giveUp()
	telling, hurry := context.WithTimeout(ctx, patience)
	over, attended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(attended)
		if a.runsOut(telling, over) {
			hurry()
			time.AfterFunc(a.killWait(&a.attended), giveUp)
		}
	}()
	killed, err := victim.Immediate(bounded, telling)
	close(over)
	<-attended
	hurry()
	return killed, err
}

// runsOut looks at memory until a kill is over, and reports whether it falls so
// fast that an API server that does not answer can not be waited for any more, or
// nobody may be killed any more.
func (a *Agent) runsOut(telling context.Context, over <-chan struct{}) bool {
	tick := time.NewTicker(attendPace)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return false
		case <-telling.Done():
			return false
		case now := <-tick.C:
			if armed, _ := a.arming.Armed(); !armed || a.worse(now) {
				return true
			}
		}
	}
}

// worse observes memory, and reports whether there is no time any more to wait
// for the API server.
func (a *Agent) worse(now time.Time) bool {
	s := &a.attended
	s.At, s.Kind = now, signal.Extra
	a.cycle.Observer.Observe(&s.Node, signal.Extra)
	a.falls.note(s)
	return a.patienceFor(s) < attendPace
}

// keep makes r a release that is waited for. A place is never taken: no
// threshold is acted for while the release in its place holds it.
func (a *Agent) keep(r *release) {
	*a.releases.place(r.eviction) = r
	a.newest = r
}

// killWait is how long to wait for a kill: half of what memory lasts at its
// present rate, and no longer than until the next look is due, so that another
// pod can be ended in time.
func (a *Agent) killWait(s *signal.Snapshot) time.Duration {
	wait := min(longestKillWait, a.interval(s))
	for sig := range signal.All {
		if lasts, falling := s.Fell[sig].Lasts(s.Node[sig].Left()); falling && sig.OfMemory() {
			wait = min(wait, lasts/2)
		}
	}
	return max(wait, shortestKillWait)
}

// terminate lets the pod end within its grace period, beside the loop. A pod of
// the API server is asked for politely, which may be refused for as long as a
// budget says so; how long to wait is the victim's to know.
func (a *Agent) terminate(ctx context.Context, r *release, victim Victim) {
	grace := time.Duration(min(r.eviction.GracePeriod, longestGrace)) * time.Second
	finished, hurry, withdraw := make(chan termination, 1), make(chan struct{}), make(chan struct{})
	r.finished, r.hurry, r.withdraw, r.victim = finished, hurry, withdraw, victim
	r.deadline = r.deadline.Add(grace)
	limit := grace + releaseWait // what can not be ended must not keep the next one from being tried
	if r.eviction.Pod.FromAPI {
		r.deadline, limit = time.Time{}, longestGrace*time.Second
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	r.cancel = cancel
	a.keep(r)
	go func() {
		defer cancel()
		killed, err := victim.Graceful(bounded, grace, Changes{hurry, withdraw})
		finished <- termination{killed, err}
		a.notifier.Wake()
	}()
}

// finish ends a pod that was hurried and is still there, on the loop's own thread,
// and reports whether to go on waiting for what it holds: until memory is found to
// fall as before. It may be listed no more, because the API server knows it as
// failed already: who would be chosen in its place has done nothing.
func (a *Agent) finish(r *release, s *signal.Snapshot) (wait bool) {
	if !r.finishing.IsZero() {
		return s.At.Sub(r.finishing) < eviction.KillTime
	}
	r.finishing = s.At
	// The other half of the wait is for looks: whether memory falls on has to be known by its end.
	ctx, cancel := context.WithTimeout(context.Background(), eviction.KillTime/2)
	defer cancel()
	killed, err := r.victim.Finish(ctx)
	if killed.Processes > 0 {
		a.falls = falls{}
	}
	return err == nil
}

// terminated is where the soft eviction under way reports its end; nil if
// there is none.
func (a *Agent) terminated() <-chan termination {
	if r := a.releases[softPlace]; r != nil {
		return r.finished
	}
	return nil
}

// endTermination notes that the processes of a soft eviction are gone. If they
// could not be ended, the next regular look decides anew.
func (a *Agent) endTermination(t termination) {
	r := a.releases[softPlace]
	refused := errors.Is(t.err, ErrDisarmed) && !r.eviction.Pod.FromAPI
	if refused {
		a.mayAct()
	}
	if refused || r.abandoned && (t.killed.Lingering || errors.Is(t.err, context.Canceled)) {
		t = termination{killed: Killed{Withdrawn: true}}
	}
	r.finished, r.hurry, r.withdraw = nil, nil, nil // the deadline goes on
	if r.deadline.IsZero() {
		r.deadline = time.Now().Add(releaseWait)
	}
	r.lingering = t.killed.Lingering
	a.reporter.Report(a.terminatedBy(r, t, time.Now()))
	if t.killed.Withdrawn {
		delete(a.kills, r.eviction.Pod.UID) // it was not killed
		a.withdraw(r)
	}
	if t.err != nil || t.killed.Withdrawn {
		a.releases[softPlace] = nil
	}
}

// kills counts how often pods were killed lately, by UID.
type kills map[string]killCount

type killCount struct {
	n    int
	last time.Time
}

// refuse says why a pod is not killed once more; nil if it may be.
func (k kills) refuse(pod *signal.Pod, now time.Time) error {
	c := k[pod.UID]
	if c.n < mostKills || now.Sub(c.last) >= killsForget {
		return nil
	}
	return fmt.Errorf("pod %s was killed %d times within %s and is still there: another one is tried", pod.Key(), c.n, killsForget)
}

// count notes a kill, and forgets those of long ago.
func (k kills) count(pod *signal.Pod, now time.Time) {
	for uid, c := range k {
		if now.Sub(c.last) >= killsForget {
			delete(k, uid)
		}
	}
	k[pod.UID] = killCount{k[pod.UID].n + 1, now}
}
