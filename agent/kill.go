package agent

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Bounds of the wait for the processes of an immediate kill to be gone. What
// lingers after it is waited for beside further looks.
const (
	minKillWait = 2 * eviction.KillTime
	maxKillWait = inflight.EscalationTimeout
)

// maxPatience is how long the API server is waited for before a pod is
// killed while memory leaves the time: a pod that is killed before its status
// is written may be started again by a kubelet.
const maxPatience = 2 * time.Second

// evict ends a pod: at once for a hard eviction, beside the loop for a soft one, not at
// all in a disarmed agent.
func (a *Agent) evict(ctx context.Context, e *eviction.Eviction) Result {
	r := inflight.New(e, a.snapshot.At)
	if !a.mayAct() {
		return a.skip(r)
	}
	if err := a.refuse(e, a.snapshot.At); err != nil {
		return Result{Err: err}
	}
	victim, err := a.victims.Victim(e)
	if err != nil {
		return Result{Err: err}
	}
	if !e.Hard {
		a.terminate(ctx, r, victim)
		return Result{Inflight: r}
	}
	return a.evictHard(ctx, r, victim)
}

// evictHard is a hard eviction.
func (a *Agent) evictHard(ctx context.Context, r *inflight.Eviction, victim Victim) Result {
	s, e := &a.snapshot, r.Of
	decided := time.Since(s.At)
	killed, err := a.immediate(ctx, victim)
	if err != nil && !a.mayAct() { // disarmed while the API server was waited for
		return a.skip(r)
	}
	if err != nil {
		return Result{Err: a.failed(e, killed, err)}
	}
	switch {
	case killed.Processes > 0, killed.ProcessesRemain:
	case killed.Status == "":
		return Result{Err: fmt.Errorf("kill the processes of pod %s: it has none any more", e.Pod.Key())}
	case killed.Unmounting:
		if killed.Status == StatusReported { // else the kubelet does not know of it yet
			r.AwaitUnmount(inflight.FreeTimeout)
		}
	default:
		// The kernel was faster while the API server was waited for, or it ended by
		// itself: what it held is on its way, and nobody goes in its stead.
		killed.ProcessesRemain = true
	}
	killed.StatusTime += decided
	killed.SignalTime += decided
	killed.ExitTime += decided
	r.Exits(time.Now(), killed.ProcessesRemain, killed.Rest)
	a.replaceSoft(r)
	a.kills.count(e.Pod, s.At)
	a.rates = rateEstimator{} // the pod's own filling says nothing about the time after it
	a.inflight.Add(r)
	return Result{Inflight: r, Killed: killed}
}

// failed is why a kill failed. Where the API server knows of it already, the pod
// counts as evicted there: that must not happen to one pod after the other, and what
// keeps this one alive may keep all of them.
func (a *Agent) failed(e *eviction.Eviction, killed Killed, err error) error {
	err = fmt.Errorf("kill the processes of pod %s: %w", e.Pod.Key(), err)
	if killed.Status != StatusReported {
		return err
	}
	a.kills.count(e.Pod, a.snapshot.At)
	return fmt.Errorf("%w; the API server was told that it is evicted, and so %w", err, ErrStopChoosing)
}

// refuse says why a pod is not evicted now; nil if it may be.
func (a *Agent) refuse(e *eviction.Eviction, now time.Time) error {
	if a.kills.exhausted(e.Pod, now) {
		return fmt.Errorf("pod %s was killed %d times within %s and is still there: another one is tried", e.Pod.Key(), maxKills, killsForget)
	}
	if e.Hard {
		return nil
	}
	if a.unanswered.exhausted(e.Pod, now) {
		return fmt.Errorf("pod %s was asked to end %d times in vain, each within %s of the time before: another one is asked", e.Pod.Key(), maxKills, killsForget)
	}
	if until := a.refusals[e.Pod.UID].until; now.Before(until) {
		return fmt.Errorf("pod %s was given up on, as its soft eviction was not carried out in time: it is asked for again after %s, and another one before", e.Pod.Key(), until.UTC().Format(time.RFC3339))
	}
	return a.stillEnding(now)
}

// attendPace is how often memory is looked at while a kill is under way.
const attendPace = eviction.MinInterval

// immediate kills, on the loop's own thread, which is the one that gets its
// processor in time. Memory is looked at meanwhile: where it falls, neither the API
// server nor processes that linger are waited for as long as was planned.
func (a *Agent) immediate(ctx context.Context, victim Victim) (killed Killed, err error) {
	waiting, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	telling, hurry := context.WithTimeout(ctx, patienceFor(&a.snapshot))
	defer hurry()
	w := &a.watch
	w.rates, w.begun, w.arming, w.hurry, w.giveUp = a.rates, time.Now(), a.arming, hurry, giveUp
	a.watcher.during(
		func() { killed, err = victim.Immediate(ctx, telling, waiting, a.killWait(&a.snapshot)) },
		w.check)
	a.rates = w.rates
	return killed, err
}

// A memoryWatch observes memory while the loop is busy with a kill. Until the kill has
// returned it belongs to the thread that watches, and the loop touches nothing of it.
type memoryWatch struct {
	observer Observer
	snapshot signals.Snapshot
	rates    rateEstimator
	arming   Arming
	begun    time.Time
	hurry    func() // the API server is not waited for any more
	giveUp   func() // nor are processes
}

// check hurries the kill when memory falls so fast that the API server can not be
// waited for any more, or no pod may be killed any more, and gives it up when it has
// taken as long as it may at the present rate.
func (w *memoryWatch) check(now time.Time) {
	s := &w.snapshot
	s.At, s.Kind = now, signals.Early
	w.observer.Observe(&s.Node, signals.Early)
	w.rates.note(s)
	wait := timeToExhaustion(s) / 2
	if patienceFor(s) < attendPace {
		wait = 0
	}
	if armed, _ := w.arming.Armed(); !armed || wait == 0 {
		w.hurry()
	}
	if now.Sub(w.begun) >= max(wait, minKillWait) {
		w.giveUp()
	}
}

// killWait is how long to wait for a kill: half of what memory lasts at its
// present rate, and no longer than until the next look is due, so that another
// pod can be ended in time.
func (a *Agent) killWait(s *signals.Snapshot) time.Duration {
	return max(min(maxKillWait, a.interval(s), timeToExhaustion(s)/2), minKillWait)
}
