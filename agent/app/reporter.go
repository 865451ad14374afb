package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/checkpoint"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/evictionlog/store"
	"plimsoll.dev/plimsoll/internal/healthz"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/nodestatus"
	"plimsoll.dev/plimsoll/internal/vitals"
)

// A reporter implements agent.Reporter by the decision log, the state file, metrics, and the
// node's conditions, events and heartbeat. The loop calls its methods.
type reporter struct {
	version string
	lines   *decisionlog.Lines
	state   *checkpoint.Sections // nil: nothing survives a restart
	metrics *metrics.Metrics
	garbage *garbageCollector
	arming  *armingState
	beside  func(run func(context.Context)) // runs it beside the loop, until the agent ends

	conditions *nodestatus.Conditions // these are nil without an API server
	events     *nodestatus.Events
	heartbeat  *heartbeat.Heartbeat // nil without a namespace too
	oomKills   *oomReports
	evictions  *store.Store // nil without a namespace for records

	recorder  *flightRecorder // nil: nothing is recorded
	decisions *storedDecisions
	besides   *besideLines // of OOM kills

	pulse  *healthz.Pulse
	memory healthz.Finding

	lastConditions signals.ConditionSet
	digested       *eviction.Policy // the policy of digest
	digest         string
	crossed        [signals.Count]time.Time // since when a hard threshold is crossed
	helpless       [signals.Count]bool      // a threshold is met, and no pod helps
	observed       atomic.Pointer[observed]
	lastEviction   atomic.Pointer[vitals.Eviction]
}

// observed is the part of a heartbeat that changes with checks.
type observed struct {
	conditions signals.ConditionSet
	digest     string
	readings   []vitals.Reading
}

var errNoMemory = errors.New("the node's memory can not be observed")

// Checked implements agent.Reporter. It does not allocate in an early check that changes
// nothing.
func (r *reporter) Checked(o *agent.Outcome, p *eviction.Policy) {
	s := o.Snapshot
	r.pulse.Beat()
	r.metrics.Woken(s.Woken)
	if r.heartbeat != nil {
		r.heartbeat.Beat(s.At)
	}
	if memory := &s.Node[signals.MemoryAvailable]; memory.Known {
		r.memory.Set(nil)
	} else {
		r.memory.Set(errNoMemory)
	}
	r.updateCrossings(s, p)
	changed := o.Verdict.Conditions != r.lastConditions
	if r.lastConditions = o.Verdict.Conditions; changed || s.Kind == signals.Periodic {
		r.metrics.Conditions(r.lastConditions)
		r.reportConditions(s, p)
	}
	r.recordHelpless(o)
	r.awaitExit(o)
	r.record(o)
	r.storeBeside()
}

// exitTimeout is more than the largest bucket of the histogram: a kill that takes longer counts as such.
const exitTimeout = time.Minute

// awaitExit measures a kill that has left processes which exit later. Such kills are the slow ones: the
// histogram must not lack them.
func (r *reporter) awaitExit(o *agent.Outcome) {
	if o.Evicted == nil || !o.Evicted.Hard || o.Result == nil || !o.Result.ProcessesRemain || o.Result.Rest == nil {
		return
	}
	rest, decided := o.Result.Rest, o.Snapshot.At
	r.beside(func(ctx context.Context) {
		late := time.NewTimer(exitTimeout)
		defer late.Stop()
		select {
		case <-rest:
		case <-late.C:
		case <-ctx.Done():
			return
		}
		r.metrics.DecisionToExit(time.Since(decided))
	})
}

// recordHelpless records the signals for which no pod helps. A pod that is evicted for one helps, and
// only a periodic check finds that its threshold is no longer met. A busy disk may not answer a check in
// time, which must not reset the alert.
func (r *reporter) recordHelpless(o *agent.Outcome) {
	set := func(s signals.Signal, is bool) {
		if r.helpless[s] != is {
			r.helpless[s] = is
			r.metrics.NoPodHelps(s, is)
		}
	}
	if o.Snapshot.Kind == signals.Periodic {
		for s := range signals.All {
			if r.helpless[s] && !o.Verdict.GracePassed.Has(s) && !o.Verdict.Unknown.Has(s) {
				set(s, false)
			}
		}
	}
	if o.Evicted != nil && o.Verdict.Target != nil && !o.EndedByStorageLimit {
		set(o.Verdict.Target.Signal, false)
	}
	if o.NoneHelps() {
		set(o.Verdict.Target.Signal, true)
	}
	for i := range o.Passed {
		if p := &o.Passed[i]; p.NoneHelps() {
			set(p.Verdict.Target.Signal, true)
		}
	}
}

// record counts the outcome of a check.
func (r *reporter) record(o *agent.Outcome) {
	for range o.Failed {
		r.metrics.EvictionFailed()
	}
	if t := o.Verdict.Target; t != nil && (o.Evicted != nil || o.Blocked == "" && o.Limit == (limiter.Limit{}) && !o.NoneHelps()) && r.events != nil && r.arming.armed() {
		r.events.Attempting(t.Signal, o.Snapshot.At)
	}
	e := o.Evicted
	switch {
	case e == nil:
		return
	case o.DryRun:
		r.metrics.DryRun(e.Cause)
		return
	}
	s, err := signals.Parse(e.Cause)
	if err == nil {
		r.metrics.StatsAge(s, o.Snapshot.At.Sub(o.Snapshot.Node[s].Time))
	}
	if e.Hard {
		r.metrics.Evicted(e.Cause)
		r.lastEviction.Store(&vitals.Eviction{Time: o.Snapshot.At, Pod: e.Pod.Key(), Cause: e.Cause})
		r.release(e.Cause, e.Pod.UID)
	}
}

// release removes the layers of a pod that was evicted for a disk, and has the sandbox of
// any other stopped. That kills what still runs of the pod: a soft eviction has to be over.
func (r *reporter) release(cause, uid string) {
	if s, err := signals.Parse(cause); err != nil || s.Definition().Condition == signals.DiskPressure {
		r.beside(func(ctx context.Context) { r.garbage.removePod(ctx, uid) })
		return
	}
	r.beside(func(ctx context.Context) { r.garbage.stopSandbox(ctx, uid) })
}

// updateCrossings records since when hard thresholds are crossed.
func (r *reporter) updateCrossings(s *signals.Snapshot, p *eviction.Policy) {
	for i := range p.Thresholds {
		t := &p.Thresholds[i]
		o := &s.Node[t.Signal]
		switch {
		case !t.Hard() || !o.Known:
		case o.Available >= t.Value.Of(o.Capacity).Value:
			r.crossed[t.Signal] = time.Time{}
		case r.crossed[t.Signal].IsZero():
			r.crossed[t.Signal] = s.At
		}
	}
}

// reportConditions sets the node's conditions, with the signals below their thresholds.
func (r *reporter) reportConditions(s *signals.Snapshot, p *eviction.Policy) {
	if r.conditions == nil {
		return
	}
	var crossings nodestatus.Crossings
	for i := range p.Thresholds {
		t := &p.Thresholds[i]
		o, c := &s.Node[t.Signal], &crossings[t.Signal.Definition().Condition]
		if o.Known && !c.Met && o.Available < t.Value.Of(o.Capacity).Value {
			*c = nodestatus.Crossing{Met: true, Signal: t.Signal, Threshold: t.Value.String(), Available: o.Available}
		}
	}
	r.conditions.Set(r.lastConditions, crossings)
	if p != r.digested {
		r.digested, r.digest = p, heartbeat.Digest(reportedThresholds(p))
	}
	r.observed.Store(&observed{r.lastConditions, r.digest, readings(s, p)})
}

// readings returns the observed signals with their thresholds. Of several thresholds of a signal, the
// highest hard and the highest soft one count. Signals that follow those of another filesystem are left
// out.
func readings(s *signals.Snapshot, p *eviction.Policy) []vitals.Reading {
	all := make([]vitals.Reading, 0, len(p.Thresholds))
	for i := range p.Thresholds { // by signal, hard before soft
		t := &p.Thresholds[i]
		if _, follows := t.Signal.ContainerfsFollows(p.Layout); follows {
			continue
		}
		o, r := &s.Node[t.Signal], vitals.Reading{Signal: t.Signal}
		if o.Known {
			r = vitals.Reading{Signal: t.Signal, Known: true, Available: o.Available, Threshold: t.Value.Of(o.Capacity).Value, Soft: !t.Hard()}
		}
		if last := len(all) - 1; last >= 0 && all[last].Signal == r.Signal && all[last].Soft == r.Soft {
			all[last].Threshold = max(all[last].Threshold, r.Threshold)
			continue
		}
		all = append(all, r)
	}
	return all
}

// store stores a decision on the node: its line, and in the recording also why the pod was chosen. Neither must be
// changed afterwards.
func (r *reporter) store(line, whole any, at time.Time) {
	r.decisions.add(line, at)
	if r.recorder != nil {
		r.recorder.Decision(whole, at)
	}
}

// storeBeside stores the lines of other goroutines. The loop calls it, and close after its end.
func (r *reporter) storeBeside() {
	for _, b := range r.besides.take() {
		r.store(b.line, b.line, b.at)
	}
}

// Report implements agent.Reporter.
func (r *reporter) Report(d *agent.Decision) {
	line := d.Line()
	r.lines.JSON(line)
	r.storeBeside()
	r.store(line, d, d.Time)
	r.recordEviction(d)
	if d.Spared > 0 && d.Repeated == "" {
		r.metrics.Spared(d.Signal, d.Spared, d.KubeletWouldEvict != "")
	}
	switch {
	case d.Decision == agent.Evicted && d.KillTime != nil:
		if s, err := signals.Parse(d.Signal); err == nil {
			toSignal := time.Duration(*d.KillTime * float64(time.Millisecond))
			if since := r.crossed[s]; !since.IsZero() {
				toSignal += d.Time.Sub(since)
			}
			r.metrics.ThresholdToKill(toSignal)
		}
		if !d.ProcessesRemain {
			r.metrics.DecisionToExit(time.Duration(*d.ExitTime * float64(time.Millisecond)))
		}
	case d.Decision == agent.SoftEnded && len(d.Failed) == 0:
		r.metrics.Evicted(d.Signal)
		r.lastEviction.Store(&vitals.Eviction{Time: d.Time, Pod: d.Pod, Cause: d.Signal})
		r.release(d.Signal, d.UID)
	case d.Decision == agent.Limited || d.Decision == agent.Ineffective: // an eviction behind a limited pod has a limit, too
		r.reportLimited(d)
	case d.Decision == agent.NoneHelps:
		r.reportNoneHelps(d)
	case d.Decision == agent.ReclaimDone && d.FreedBytes != nil:
		if s, err := signals.Parse(d.Signal); err == nil && s.Definition().Unit == signals.UnitBytes {
			r.metrics.Freed(metrics.Eviction, *d.FreedBytes)
		}
	}
}

// Save implements agent.Reporter.
func (r *reporter) Save(s eviction.Saved) {
	if r.state != nil {
		r.state.Save(decisionsSection, s.At(r.state.Stamp))
	}
}

// reportCollection reports a failure of garbage collection as an event.
func (r *reporter) reportCollection(reason, message string) {
	if r.events != nil && r.arming.armed() {
		r.events.Collection(reason, message)
	}
}

// reportedThresholds returns the thresholds in the form in which they are reported.
func reportedThresholds(p *eviction.Policy) (lines []kubeletconfig.Threshold) {
	for _, t := range p.Thresholds {
		if line, err := kubeletconfig.ParseThreshold(t.Signal, t.Value.String()); err == nil {
			lines = append(lines, line)
		}
	}
	return lines
}

// openReporter opens everything that reports: events, conditions and leases, pod statuses,
// probes and metrics.
func (a *app) openReporter(ctx context.Context) error {
	a.decisions = a.openDecisions()
	a.reporter = &reporter{version: a.Version, lines: a.lines, decisions: a.decisions, besides: &a.besides, state: a.state, metrics: a.metrics, arming: a.arming,
		beside:   func(run func(context.Context)) { a.group.Go(func() { run(ctx) }) },
		pulse:    healthz.NewPulse(a.config.MonitoringPeriod),
		oomKills: newOOMReports(a.lines, a.metrics, a.arming.armed)}
	a.reporter.oomKills.beside = &a.besides
	if err := a.openEvictor(ctx); err != nil {
		return err
	}
	if a.api != nil {
		if err := a.openNodeReports(ctx); err != nil {
			return err
		}
	}
	a.serve(ctx)
	return nil
}

// reportLimited counts evictions that the limiter blocks, and creates an event if evictions
// are ineffective.
func (r *reporter) reportLimited(d *agent.Decision) {
	if d.Repeated == "" {
		r.metrics.EvictionsLimited(d.LimitedBy)
	}
	if d.Decision == agent.Ineffective && isComplete(d) && r.events != nil && r.arming.armed() {
		r.events.Ineffective(eventText(d))
	}
}

// reportNoneHelps creates an event if no pod helps.
func (r *reporter) reportNoneHelps(d *agent.Decision) {
	s, err := signals.Parse(d.Signal)
	if err != nil || !isComplete(d) || r.events == nil || !r.arming.armed() {
		return
	}
	r.events.NoPodHelps(s, d.Repeated == agent.RepeatImminent || d.Repeated == agent.RepeatUsedUp, eventText(d), d.Time)
}

// isComplete reports whether a decision has its consumers: otherwise it is reported again with them.
func isComplete(d *agent.Decision) bool { return d.Consumers != nil || d.Repeated != "" }
