package agent

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Bounds of the wait for the processes of an immediate kill to exit. Further checks wait for the
// remaining ones.
const (
	minKillWait = 2 * eviction.KillTime
	maxKillWait = inflight.EscalationTimeout
)

// maxServerWait is the maximum wait for the API server before a kill, if memory leaves the time. A
// kubelet may restart a pod killed before its status is written.
const maxServerWait = 2 * time.Second

// evict ends a pod: at once for a hard eviction, beside the loop for a soft one, and not at all
// in a disarmed agent.
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

// evictHard executes a hard eviction.
func (a *Agent) evictHard(ctx context.Context, r *inflight.Eviction, victim Victim) Result {
	s, e := &a.snapshot, r.Of
	decided := time.Since(s.At)
	killed, err := a.immediate(ctx, victim)
	if err != nil && !a.mayAct() { // disarmed during the wait for the API server
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
		if killed.Status == StatusReported { // otherwise the kubelet has no status to act on
			r.AwaitUnmount(inflight.FreeTimeout)
		}
	default:
		// The pod ended during the wait for the API server, by the OOM killer or by itself. Its
		// memory is being freed, so that no other pod is chosen in its place.
		killed.ProcessesRemain = true
	}
	killed.StatusTime += decided
	killed.SignalTime += decided
	killed.ExitTime += decided
	r.Exits(time.Now(), killed.ProcessesRemain, killed.Rest)
	a.replaceSoft(r)
	a.kills.count(e.Pod, s.At)
	a.rates = rateEstimator{} // the fill by this pod predicts nothing after its end
	a.inflight.Add(r)
	return Result{Inflight: r, Killed: killed}
}

// failed returns the error of a failed kill. If the API server stores the pod as evicted already,
// the choice ends: this must not happen to one pod after another. The reason why this pod
// survives may apply to all of them.
func (a *Agent) failed(e *eviction.Eviction, killed Killed, err error) error {
	err = fmt.Errorf("kill the processes of pod %s: %w", e.Pod.Key(), err)
	if killed.Status != StatusReported {
		return err
	}
	a.kills.count(e.Pod, a.snapshot.At)
	return fmt.Errorf("%w; the API server has recorded the eviction, so %w", err, ErrStopChoosing)
}

// refuse returns why a pod must not be evicted now, and nil if it may be.
func (a *Agent) refuse(e *eviction.Eviction, now time.Time) error {
	if a.kills.exhausted(e.Pod, now) {
		return fmt.Errorf("pod %s was killed %d times within %s and still exists: the next pod is tried", e.Pod.Key(), maxKills, killsForget)
	}
	if e.Hard {
		return nil
	}
	if a.unanswered.exhausted(e.Pod, now) {
		return fmt.Errorf("pod %s still runs after %d soft evictions, each within %s of the previous one: the next pod is tried", e.Pod.Key(), maxKills, killsForget)
	}
	if until := a.refusals[e.Pod.UID].until; now.Before(until) {
		return fmt.Errorf("pod %s is skipped until %s: its soft eviction was not carried out in time", e.Pod.Key(), until.UTC().Format(time.RFC3339))
	}
	return a.stillEnding(now)
}

// attendPace is the interval of memory checks during a kill.
const attendPace = eviction.MinInterval

// immediate kills on the loop's own thread, which has real-time priority. Memory is checked
// meanwhile: if it falls, the waits for the API server and for remaining processes are cut short.
func (a *Agent) immediate(ctx context.Context, victim Victim) (killed Killed, err error) {
	waiting, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	reporting, stopReporting := context.WithTimeout(ctx, serverWait(&a.snapshot))
	defer stopReporting()
	w := &a.watch
	w.rates, w.begun, w.arming, w.stopReporting, w.giveUp = a.rates, time.Now(), a.arming, stopReporting, giveUp
	a.watcher.during(
		func() { killed, err = victim.Immediate(ctx, reporting, waiting, a.killWait(&a.snapshot)) },
		w.check)
	a.rates = w.rates
	return killed, err
}

// memoryWatch observes memory while the loop is busy with a kill. Until the kill has returned,
// only the watching thread may access it.
type memoryWatch struct {
	observer      Observer
	snapshot      signals.Snapshot
	rates         rateEstimator
	arming        Arming
	begun         time.Time
	stopReporting func() // ends the wait for the API server
	giveUp        func() // ends the wait for processes
}

// check ends the wait for the API server if memory falls too fast for it, or if the agent was
// disarmed. It ends the wait for processes when the time allowed at the present rate is over.
func (w *memoryWatch) check(now time.Time) {
	s := &w.snapshot
	s.At, s.Kind = now, signals.Early
	w.observer.Observe(&s.Node, signals.Early)
	w.rates.note(s)
	wait := timeToExhaustion(s) / 2
	if serverWait(s) < attendPace {
		wait = 0
	}
	if armed, _ := w.arming.Armed(); !armed || wait == 0 {
		w.stopReporting()
	}
	if now.Sub(w.begun) >= max(wait, minKillWait) {
		w.giveUp()
	}
}

// killWait returns the maximum wait for a kill: half the time to exhaustion, and no longer than
// until the next check. Another pod can then be ended in time.
func (a *Agent) killWait(s *signals.Snapshot) time.Duration {
	return max(min(maxKillWait, a.interval(s), timeToExhaustion(s)/2), minKillWait)
}
