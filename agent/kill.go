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
	minKillWait = 2 * eviction.ReactionTime
	maxKillWait = inflight.EscalationTimeout
)

// evict ends a pod: at once for a hard eviction, beside the loop for a soft one, and not at all
// in a disarmed agent.
func (a *Agent) evict(ctx context.Context, e *eviction.Eviction) PlanResult {
	r := inflight.New(e, a.snapshot.At)
	if !a.mayAct() {
		return a.addDryRun(r)
	}
	if err := a.refuse(e, a.snapshot.At); err != nil {
		return PlanResult{Err: err}
	}
	victim, err := a.victims.Victim(e)
	if err != nil {
		return PlanResult{Err: err}
	}
	if !e.Hard {
		a.evictSoft(ctx, r, victim)
		return PlanResult{Inflight: r}
	}
	return a.evictHard(ctx, r, victim)
}

// evictHard executes a hard eviction.
func (a *Agent) evictHard(ctx context.Context, r *inflight.Eviction, victim Victim) PlanResult {
	s, e := &a.snapshot, r.Decided
	decided := time.Since(s.At)
	killed, err := a.immediate(ctx, victim)
	if err != nil && !a.mayAct() { // disarmed during the wait for the API server
		return a.addDryRun(r)
	}
	if err != nil {
		return a.noteFailedKill(r, killed, err)
	}
	switch {
	case killed.Processes > 0, killed.ProcessesRemain:
	case killed.Status == StatusNone: // nothing was done: no signal, no report
		return PlanResult{Err: fmt.Errorf("kill the processes of pod %s: it has none any more", e.Pod.Key())}
	case killed.Unmounting:
		if killed.Status == StatusReported { // otherwise the kubelet has no status to act on
			r.AwaitUnmount(inflight.FreeTimeout)
		}
	default:
		// The pod ended during the wait for the API server, by the OOM killer or by itself. It may
		// have no process any more, but its memory is being freed. ProcessesRemain makes checks
		// wait for it, so that no other pod is chosen in its place.
		killed.ProcessesRemain = true
	}
	killed.StatusTime += decided
	killed.SignalTime += decided
	killed.ExitTime += decided
	r.NoteKill(time.Now(), killed.ProcessesRemain, killed.Rest)
	a.replaceSoft(r)
	a.kills.count(e.Pod, s.At)
	a.rates = rateEstimator{} // the fill by this pod predicts nothing after its end
	a.inflight.Add(r)
	return PlanResult{Inflight: r, Eviction: killed}
}

// noteFailedKill returns the result of a failed kill. If the API server stores the pod as evicted
// already, the kubelet may end it: checks wait for its memory, and the error ends the choice. The kill
// counts towards maxKills. This must not happen to one pod after another: the reason why this pod
// survives may apply to all of them.
func (a *Agent) noteFailedKill(r *inflight.Eviction, killed EvictionResult, err error) PlanResult {
	pod := r.Decided.Pod
	err = fmt.Errorf("kill the processes of pod %s: %w", pod.Key(), err)
	if killed.Status != StatusReported {
		return PlanResult{Err: err}
	}
	a.kills.count(pod, a.snapshot.At)
	r.NoteFailedKill(time.Now())
	a.inflight.Add(r)
	return PlanResult{Inflight: r, Err: fmt.Errorf("%w; the API server has recorded the eviction, so %w", err, ErrStopChoosing)}
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
func (a *Agent) immediate(ctx context.Context, victim Victim) (killed EvictionResult, err error) {
	waiting, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	reporting, stopReporting := context.WithTimeout(ctx, serverWait(&a.snapshot))
	defer stopReporting()
	m := &a.killMonitor
	m.rates, m.begun, m.arming, m.stopReporting, m.giveUp = a.rates, time.Now(), a.arming, stopReporting, giveUp
	a.monitorThread.during(
		func() { killed, err = victim.Immediate(ctx, reporting, waiting, a.killWait(&a.snapshot)) },
		m.check)
	a.rates = m.rates
	return killed, err
}

// killMonitor observes memory while the loop is busy with a kill, and ends the waits of the kill.
// Until the kill has returned, only its [monitorThread] may access it.
type killMonitor struct {
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
func (m *killMonitor) check(now time.Time) {
	s := &m.snapshot
	s.At, s.Kind = now, signals.Early
	m.observer.Observe(&s.Node, signals.Early)
	m.rates.note(s)
	wait := timeToExhaustion(s) / 2
	if serverWait(s) < attendPace {
		wait = 0
	}
	if armed, _ := m.arming.Armed(); !armed || wait == 0 {
		m.stopReporting()
	}
	if now.Sub(m.begun) >= max(wait, minKillWait) {
		m.giveUp()
	}
}

// killWait returns the maximum wait for a kill: half the time to exhaustion, and no longer than
// until the next check. Another pod can then be ended in time.
func (a *Agent) killWait(s *signals.Snapshot) time.Duration {
	return max(min(maxKillWait, a.interval(s), timeToExhaustion(s)/2), minKillWait)
}
