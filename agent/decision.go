package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
)

// Decision is the record of a decision, which the loop passes to its [Reporter].
type Decision = decisionlog.Record

// Verb, PodReason and Repeat are the kind of a decision, an entry of a list of pods, and why a decision is
// written again.
type (
	Verb      = decisionlog.Verb
	PodReason = decisionlog.PodReason
	Repeat    = decisionlog.Repeat
)

// The values of the key repeated.
const (
	RepeatMeasured Repeat = "measured" // its consumers are known now
	RepeatChanged  Repeat = "changed"  // its consumers have changed
	RepeatImminent Repeat = "imminent" // exhaustion is imminent now
	RepeatUsedUp   Repeat = "used-up"  // nothing is available now
)

// The verbs of the decision log.
const (
	Nothing           Verb = "check" // no action; reported only with LogChecks
	Evicted           Verb = "evict"
	WouldEvict        Verb = "would-evict"  // disarmed
	SoftEvicting      Verb = "soft-evict"   // a soft eviction begins
	SoftEnded         Verb = "terminated"   // a soft eviction ends
	Failed            Verb = "failed"       // no pod could be evicted
	CollectingGarbage Verb = "gc"           // disk space is being freed
	Withdrawn         Verb = "withdrawn"    // a soft eviction is withdrawn
	Recovered         Verb = "recovered"    // on a second observation, or by garbage collection
	Blocked           Verb = "blocked"      // met, but another step has to end first; reported once
	Pending           Verb = "pending"      // met, but not acted for; reported once
	Escalated         Verb = "escalate"     // a hard threshold shortens a soft eviction
	ReclaimDone       Verb = "reclaim-done" // the wait for freed memory is over
	ConditionsChanged Verb = "conditions"
	Armed             Verb = "armed"
	Disarmed          Verb = "disarmed"
	Limited           Verb = "limited"     // the eviction of one pod or of all pods is limited
	Ineffective       Verb = "ineffective" // evictions have no effect, and pause
	NoneHelps         Verb = "none-helps"  // no pod is evicted, because the end of none would help
	SignalsChanged    Verb = "signals"     // a signal became unknown, or known again
	Stalled           Verb = "stall"       // pods wait for memory, without a possible action
	OOMKilled         Verb = "oom-kill"    // the kernel's OOM killer ended a process; see OOMKill
)

// maxPlaces is the maximum number of logged pods of a ranking. A line stays short on a node with
// hundreds of pods, and only the first ones matter.
const maxPlaces = 10

// report reports the outcome of a check, unless an earlier line has reported the same. It returns
// whether the node's conditions have changed.
func (a *Agent) report(o *Outcome, verb Verb) (conditionsChanged bool) {
	conditionsChanged = o.Verdict.Conditions != a.logged.conditions
	unknownChanged := o.Verdict.Unknown != a.logged.unknown
	a.logged.conditions, a.logged.unknown = o.Verdict.Conditions, o.Verdict.Unknown
	switch {
	case a.isReported(verb, o):
		a.reportOutcome(o, verb)
	case conditionsChanged:
		a.reporter.Report(a.decision(o, ConditionsChanged))
	case unknownChanged:
		a.reporter.Report(a.decision(o, SignalsChanged))
	}
	a.reportPassed(o)
	return conditionsChanged
}

// reportOutcome reports the outcome of a check.
func (a *Agent) reportOutcome(o *Outcome, verb Verb) {
	d := a.decision(o, verb)
	if verb == NoneHelps {
		d.Repeated = a.logged.repeat
	}
	a.attachConsumers(d, o)
	a.reporter.Report(d)
}

// save stores the state that must survive a restart, if the check may have changed it.
func (a *Agent) save(o *Outcome, conditionsChanged bool) {
	if o.Snapshot.Kind == signals.Periodic || conditionsChanged || o.Acted() {
		a.reporter.Save(a.checker.Machine.Save())
	}
	a.saveLimiter()
}

func (a *Agent) verb(o *Outcome) Verb {
	switch {
	case o.DryRun:
		return WouldEvict
	case o.Evicted != nil && !o.Evicted.Hard:
		return SoftEvicting
	case o.Evicted != nil:
		return Evicted
	case o.Recovered:
		return Recovered
	case o.Blocked != "":
		return Blocked
	case o.Collecting:
		return CollectingGarbage
	case o.LimitBegun:
		return Ineffective
	case len(o.Failed) > 0: // also after a limited pod, or above a local-storage limit
		return Failed
	case o.Limit.By != limiter.None:
		return Limited
	case o.NoneHelps():
		return NoneHelps
	case o.Verdict.Target != nil:
		return Failed
	case o.Verdict.Reason != eviction.NothingMet && o.Verdict.Reason != eviction.Ignored:
		return Pending
	}
	return Nothing
}

func (a *Agent) decision(o *Outcome, verb Verb) *Decision {
	s := o.Snapshot
	d := &Decision{
		Time: s.At, Decision: verb, Check: s.Kind.String(),
		WokenBy:    s.Woken.Names(),
		Reason:     a.checker.Machine.Explain(&o.Verdict, s),
		Met:        o.Verdict.GracePassed.Names(),
		Conditions: o.Verdict.Conditions.Names(),
		Ranking:    podReasons(o),
	}
	for sig := range signals.All {
		if o.Verdict.Unknown.Has(sig) {
			d.Unknown = append(d.Unknown, sig.String()+": "+s.Node[sig].Cause)
		}
	}
	for _, r := range o.Collected {
		d.Reclaimed = append(d.Reclaimed, r.String())
	}
	for _, f := range o.Failed {
		d.Failed = append(d.Failed, PodReason{Pod: f.Pod.Key(), Reason: f.Err.Error()})
	}
	policy := a.checker.Machine.Policy()
	if t := o.Verdict.About(policy); t != nil {
		setObserved(d, t, s)
	} else if verb == Nothing && len(policy.Thresholds) > 0 {
		setObserved(d, &policy.Thresholds[0], s)
	}
	a.describeChoice(d, o)
	switch {
	case o.Evicted != nil:
		a.describe(d, o)
		a.describePassedLimit(d, o)
	case verb == Limited, verb == Ineffective:
		a.describeLimit(d, o)
	case verb == Blocked:
		d.Reason = o.Blocked
	}
	return d
}

// setObserved sets the keys for the observation of the threshold's signal.
func setObserved(d *Decision, t *eviction.Threshold, s *signals.Snapshot) {
	seen := &s.Node[t.Signal]
	d.Signal, d.Threshold = t.Signal.String(), t.String()
	if !seen.Known {
		return
	}
	d.Available, d.Capacity = number(seen.Available), number(seen.Capacity)
	if seen.Cache > 0 {
		d.Cache = number(seen.Cache)
	}
	if fell := s.Rates[t.Signal]; fell.Over > 0 {
		d.Rate = number(signals.Amount(fell.PerSecond()))
		if lasts, falling := fell.TimeToExhaustion(seen.Headroom()); falling {
			d.TimeToExhaustion = millis(lasts)
		}
	}
}

func podReasons(o *Outcome) []PodReason {
	var list []PodReason
	for i := range o.Ranking[:min(len(o.Ranking), maxPlaces)] {
		r := &o.Ranking[i]
		list = append(list, PodReason{Pod: r.Pod.Key(), Reason: o.PlaceReason(r)})
	}
	return list
}

func number(a signals.Amount) *int64 { n := int64(a); return &n }

func millis(d time.Duration) *float64 { ms := float64(d.Microseconds()) / 1000; return &ms }
