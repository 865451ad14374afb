package agent

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
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

// Kill implements Killer: at once for a hard eviction, beside the loop for a
// soft one, not at all in a disarmed agent.
func (a *Agent) Kill(ctx context.Context, e *eviction.Eviction) error {
	s := &a.snapshot
	a.killed = Killed{}
	r := newRelease(e, s.At)
	if !a.mayAct() {
		return a.rehearse(r)
	}
	if err := a.refuse(e, s.At); err != nil {
		return err
	}
	victim, err := a.victims.Victim(e)
	if err != nil {
		return err
	}
	if !e.Hard {
		a.terminate(ctx, r, victim)
		return nil
	}
	return a.strike(ctx, r, victim)
}

// strike is a hard eviction.
func (a *Agent) strike(ctx context.Context, r *release, victim Victim) error {
	s, e := &a.snapshot, r.eviction
	decided := time.Since(s.At)
	killed, err := a.immediate(ctx, victim)
	if err != nil && !a.mayAct() { // disarmed while the API server was waited for
		return a.rehearse(r)
	}
	if err != nil {
		return a.failed(e, killed, err)
	}
	switch {
	case killed.Processes > 0, killed.Lingering:
	case killed.Status == "":
		return fmt.Errorf("kill the processes of pod %s: it has none any more", e.Pod.Key())
	case killed.Unmounting:
		if killed.Status == StatusTold { // else the kubelet does not know of it yet
			r.tidy = releaseWait
		}
	default:
		// The kernel was faster while the API server was waited for, or it ended by
		// itself: what it held is on its way, and nobody goes in its stead.
		killed.Lingering = true
	}
	killed.ToStatus += decided
	killed.ToSignal += decided
	killed.ToEmpty += decided
	if r.lingering, r.rest = killed.Lingering, killed.Rest; !r.lingering {
		r.gone = time.Now()
	}
	a.killed = killed
	a.supersede(r)
	a.kills.count(e.Pod, s.At)
	a.falls = falls{} // the pod's own filling says nothing about the time after it
	a.keep(r)
	return nil
}

// failed is why a kill failed. Where the API server knows of it already, the pod
// counts as evicted there: that must not happen to one pod after the other, and what
// keeps this one alive may keep all of them.
func (a *Agent) failed(e *eviction.Eviction, killed Killed, err error) error {
	err = fmt.Errorf("kill the processes of pod %s: %w", e.Pod.Key(), err)
	if killed.Status != StatusTold {
		return err
	}
	a.kills.count(e.Pod, a.snapshot.At)
	return fmt.Errorf("%w; the API server was told that it is evicted, and so %w", err, ErrNobodyElse)
}

// refuse says why a pod is not evicted now; nil if it may be.
func (a *Agent) refuse(e *eviction.Eviction, now time.Time) error {
	if a.kills.exhausted(e.Pod, now) {
		return fmt.Errorf("pod %s was killed %d times within %s and is still there: another one is tried", e.Pod.Key(), mostKills, killsForget)
	}
	if e.Hard {
		return nil
	}
	if a.vain.exhausted(e.Pod, now) {
		return fmt.Errorf("pod %s was asked to end %d times in vain, each within %s of the time before: another one is asked", e.Pod.Key(), mostKills, killsForget)
	}
	if until := a.refusals[e.Pod.UID].until; now.Before(until) {
		return fmt.Errorf("pod %s was given up on, as its soft eviction was not carried out in time: it is asked for again after %s, and another one before", e.Pod.Key(), until.UTC().Format(time.RFC3339))
	}
	return a.stillEnding(now)
}

// attendPace is how often memory is looked at while a kill is under way.
const attendPace = eviction.ShortestInterval

// immediate kills, on the loop's own thread, which is the one that gets its
// processor in time. Memory is looked at meanwhile: where it falls, neither the API
// server nor processes that linger are waited for as long as was planned.
func (a *Agent) immediate(ctx context.Context, victim Victim) (killed Killed, err error) {
	bounded, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	telling, hurry := context.WithTimeout(ctx, a.patienceFor(&a.snapshot))
	defer hurry()
	begun := time.Now()
	a.lookout.during(
		func() { killed, err = victim.Immediate(bounded, telling, a.killWait(&a.snapshot)) },
		func(now time.Time) { a.attend(begun, now, hurry, func() { giveUp(context.DeadlineExceeded) }) })
	return killed, err
}

// attend looks at memory while a kill is under way. It hurries the kill when memory falls so fast that the API server can not be
// waited for any more, or nobody may be killed any more, and gives it up when it has
// taken as long as it may at the present rate.
func (a *Agent) attend(begun, now time.Time, hurry, giveUp func()) {
	s := a.observe(now)
	wait := memoryLasts(s) / 2
	if a.patienceFor(s) < attendPace {
		wait = 0
	}
	if armed, _ := a.arming.Armed(); !armed || wait == 0 {
		hurry()
	}
	if now.Sub(begun) >= max(wait, shortestKillWait) {
		giveUp()
	}
}

// observe looks at memory while a kill is under way.
func (a *Agent) observe(now time.Time) *signals.Snapshot {
	s := &a.attended
	s.At, s.Kind = now, signals.Extra
	a.cycle.Observer.Observe(&s.Node, signals.Extra)
	a.falls.note(s)
	return s
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
func (a *Agent) killWait(s *signals.Snapshot) time.Duration {
	return max(min(longestKillWait, a.interval(s), memoryLasts(s)/2), shortestKillWait)
}
