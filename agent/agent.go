package agent

import (
	"context"
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Settings configure the loop of an [Agent].
type Settings struct {
	Period      time.Duration // between two periodic checks
	MaxFillRate signals.Bytes // bytes per second
	LogChecks   bool          // also report periodic checks without a result
}

// Agent checks one node and evicts its pods. Its methods, except Wake, must be called from one
// goroutine.
type Agent struct {
	settings      Settings
	checker       Checker
	victims       Victims
	inventory     Inventory
	reporter      Reporter
	notifier      Notifier
	thread        *Thread        // nil: any thread
	monitorThread *monitorThread // runs killMonitor during a kill; nil: a goroutine does
	rules         func() *Rules
	adopted       *Rules // the latest; nil before the first periodic check
	arming        Arming

	snapshot     signals.Snapshot
	rates        rateEstimator
	killMonitor  killMonitor
	confirmation confirmation
	garbage      garbage
	inflight     inflight.Set
	// soft is the soft eviction without a result yet. inflight[inflight.Soft] is the one that
	// checks wait for. The two differ after a result, while memory is being freed (soft is nil),
	// after a deadline without a result (the entry is nil), and in dry run (soft is nil).
	soft         *softRun
	kills        tries
	unanswered   tries // soft evictions that no controller carried out
	refusals     refusals
	nextPeriodic time.Time
	retryAt      time.Time // early checks are blocked until then, after one without an eviction
	constraints  Constraints
	logged       reportLog
	wokenBy      signals.Wakes  // reasons for the end of the last wait
	lines        []signals.Line // of the hard and soft memory thresholds
	stalls       stallReports
	armed        bool

	consumption  consumption
	limiterSaved func(limiter.Saved)
	recorder     Recorder // nil: checks are not recorded
}

// Reporter receives every decision after its execution. Its methods must not block.
type Reporter interface {
	// Checked is called after every check, whatever its outcome. The arguments are valid until it
	// returns.
	Checked(o *Outcome, p *eviction.Policy)
	// Report is called for each logged decision.
	Report(d *Decision)
	// Save receives the state that must survive a restart, after every periodic check and every
	// eviction.
	Save(state eviction.Saved)
}

// Parts are the dependencies of an [Agent].
type Parts struct {
	Machine   *eviction.Machine
	Observer  Observer
	Pods      Pods
	Victims   Victims
	Collector Collector // nil: nothing is collected, and the disk usage of pods is not measured
	Inventory Inventory
	Reporter  Reporter
	// Notifier waits between checks. If nil, a timer without notifications is used.
	Notifier Notifier
	// Thread, if set, is the thread for checks.
	Thread *Thread
	// Stalls, if set, reports the pods that wait for memory after a stall has woken the agent.
	Stalls Stalls
	// Rules, if set, is called in every periodic check, since facts of the node may become known
	// late, and the configuration may change. It returns the same pointer until something has
	// changed.
	Rules func() *Rules
	// Draining, if set, returns why the node is about to shut down, and an empty string
	// otherwise. The shutdown then ends the pods in its own order.
	Draining func() string
	// Arming reports whether the agent may act. If nil, it always may. A disarmed agent decides,
	// ranks and reports, and changes nothing.
	Arming Arming
	// Limiter, if set, may limit evictions. LimiterSaved receives its state that must survive a
	// restart. Consumers, if set, finds the consumers of a resource that evictions do not free.
	Limiter      *limiter.Limiter
	LimiterSaved func(limiter.Saved)
	Consumers    Consumers
	// Recorder, if set, receives every check for a recording.
	Recorder Recorder
}

// New returns an agent. The first check starts with [Agent.Run] or [Agent.Step].
func New(settings Settings, p Parts) *Agent {
	a := &Agent{
		settings: settings, victims: p.Victims, garbage: garbage{collector: p.Collector},
		inventory: p.Inventory, reporter: p.Reporter, notifier: p.Notifier, thread: p.Thread, rules: p.Rules, arming: p.Arming,
		kills: tries{}, unanswered: tries{}, refusals: refusals{}, stalls: stallReports{port: p.Stalls},
		consumption: newConsumption(p.Consumers), limiterSaved: p.LimiterSaved, recorder: p.Recorder,
	}
	if a.notifier == nil {
		a.notifier = timer(a.thread)
	}
	if a.arming == nil {
		a.arming = always{}
	}
	a.armed, _ = a.arming.Armed()
	a.logged.conditions = p.Machine.Conditions()
	a.checker = Checker{Machine: p.Machine, Observer: p.Observer, Pods: p.Pods, Limiter: p.Limiter, GivesWay: true, growth: &growth{}}
	if p.Recorder != nil {
		a.checker.Trace = &Trace{}
	}
	a.killMonitor.observer = p.Observer
	a.constraints = Constraints{Draining: p.Draining, Inflight: &a.inflight, Garbage: &a.garbage, Kills: a.kills, AwaitsDeleted: true}
	return a
}

// Run checks the node whenever a check is due, until ctx ends. The pod of a soft eviction in
// flight is then not killed: the next agent decides anew.
func (a *Agent) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, a.notifier.Wake)
	defer stop()
	if a.thread != nil {
		a.monitorThread, _ = newMonitorThread(a.thread) // if it fails, a goroutine is used, with more latency
		defer a.monitorThread.Close()
	}
	a.nextPeriodic = time.Now()
	a.thread.Hurry()
	for ctx.Err() == nil {
		a.applyResults()
		next := a.Step(ctx, time.Now())
		exiting := a.inflight.Exiting()
		a.monitorThread.lowerOthers(exiting)
		a.wokenBy = a.thread.wait(a.notifier, next, exiting)
	}
	a.shutDown()
}

// Wake requests a check now. It is safe for concurrent use.
func (a *Agent) Wake() { a.notifier.Wake() }

// applyResults applies the results of tasks beside the loop, if there are any. Each task wakes the
// loop when it ends.
func (a *Agent) applyResults() {
	select {
	case r := <-a.softResults():
		a.applySoftResult(r)
	default:
	}
	select {
	case ran := <-a.garbageResults():
		a.applyGarbageResult(ran)
	default:
	}
	for len(a.consumption.results) > 0 {
		a.applyConsumers(<-a.consumption.results)
	}
}

// shutDown saves the state, and waits up to maxKillWait for the end of a soft eviction.
func (a *Agent) shutDown() {
	if results := a.softResults(); results != nil {
		select {
		case r := <-results:
			a.applySoftResult(r)
		case <-time.After(maxKillWait):
		}
	}
	a.reporter.Save(a.checker.Machine.Save())
	a.saveLimiter()
}

// Step makes one check and returns the time of the next one. The [Checker] plans one step at a
// time and has no side effects on the node. The other parts have:
//
//   - prepare stops garbage collections and soft evictions after a change of the arming state.
//     It withdraws a soft eviction that is no longer needed, and ends completed waits.
//   - execute carries out one plan.
//   - conclude reports and saves, and may begin a garbage collection.
func (a *Agent) Step(ctx context.Context, now time.Time) (next time.Time) {
	s := a.prepare(now)
	outcome := a.checker.Begin(s)
	for plan := a.next(ctx); plan.Action != Wait; plan = a.next(ctx) {
		a.checker.Apply(plan, a.execute(ctx, plan))
	}
	a.conclude(ctx, outcome)
	if early := now.Add(a.interval(s)); early.Before(a.nextPeriodic) {
		return early
	}
	return a.nextPeriodic
}

// prepare begins a check: it applies the arming state, observes the node, adopts the rules, and ends
// completed waits. All signals are observed if a periodic check is due. If exhaustion appears
// imminent, a second observation may confirm it.
func (a *Agent) prepare(now time.Time) *signals.Snapshot {
	s := &a.snapshot
	s.At, s.Kind, s.Woken, s.NeedsConfirmation = now, signals.Early, a.wokenBy, false
	a.checkArming(now)
	if !now.Before(a.nextPeriodic) {
		s.Kind = signals.Periodic
		a.nextPeriodic = a.nextPeriodic.Add(a.settings.Period)
		if a.nextPeriodic.Before(now) { // the machine was suspended, or the clock was set
			a.nextPeriodic = now.Add(a.settings.Period)
		}
	}
	a.observe(s)
	if s.Kind == signals.Periodic {
		a.adoptRules(s)
	}
	a.endWaits(s)
	s.NeedsConfirmation = a.needsConfirmation(s)
	if s.Kind == signals.Periodic {
		a.checker.deleted.note(a.checker.Pods.Stored(), now)
	}
	return s
}

// observe fills in the observations of a snapshot, and the rates since earlier ones.
func (a *Agent) observe(s *signals.Snapshot) {
	a.checker.Observer.Observe(&s.Node, a.checker.Machine.Observes(s.Kind))
	a.rates.note(s)
}

// next returns the next plan for the present state.
func (a *Agent) next(ctx context.Context) Plan {
	a.constraints.RetryAt, a.constraints.Armed = a.retryAt, a.armed
	return a.checker.Next(ctx, &a.constraints)
}

// execute carries out a plan.
func (a *Agent) execute(ctx context.Context, p Plan) PlanResult {
	switch p.Action {
	case Finish:
		a.finish(p.Inflight)
	case Escalate:
		a.escalate(p.Inflight, p.Verdict)
	case CollectGarbage:
		a.beginGarbage(ctx, p.Verdict, p.Verdict.Garbage)
	case Evict:
		return a.evict(ctx, p.Eviction)
	}
	return PlanResult{}
}

// conclude reports the outcome of a check, saves the state, and sets what the next checks wait for.
// It may begin a garbage collection for them.
func (a *Agent) conclude(ctx context.Context, o *Outcome) {
	s := o.Snapshot
	if until := a.checker.deleted.until; !until.IsZero() && until.Before(a.nextPeriodic) {
		a.nextPeriodic = until
	}
	a.concludeGarbage(ctx, o)
	if o.Inflight != nil {
		expectEffect(o)
	}
	if o.Evicted != nil {
		if o.OthersWait {
			a.nextPeriodic = s.At
		}
		a.checker.Spend(o)
	}
	verb := a.verb(o)
	conditionsChanged := a.report(o, verb)
	a.awaitConsumers(o, verb)
	for i := range o.Passed {
		a.awaitConsumers(&o.Passed[i], a.verb(&o.Passed[i]))
	}
	a.measureConsumers(ctx, s.At)
	a.delayRetry(o, verb)
	a.save(o, conditionsChanged)
	a.reportStalls(o)
	a.reporter.Checked(o, a.checker.Machine.Policy())
	a.record(o)
	a.notifier.Follow(&s.Node, a.memoryLines(s))
	if s.Kind == signals.Periodic {
		a.inventory.Refresh(ctx)
	}
}

// record passes a check to the recorder, if there is one.
func (a *Agent) record(o *Outcome) {
	if a.recorder != nil {
		a.recorder.Record(o, &a.checker)
		a.checker.Trace.reset()
	}
}

// expectEffect sets the effect that the new eviction waits for. The eviction may have failed, after the
// API server had recorded it.
func expectEffect(o *Outcome) {
	e := o.Inflight.Decided
	if _, err := signals.Parse(e.Cause); err != nil { // a local-storage limit
		o.Inflight.ExpectNoSignal(&o.Verdict)
		return
	}
	o.Inflight.Expect(&o.Verdict, o.Snapshot.Node[o.Verdict.Target.Signal].Available, o.reliefOf(e.Pod))
	// A slow kubelet unmounts late. It does so at all once it has read the status.
	if r := o.Result; r != nil && r.Status == StatusReported && o.evictedFiles() {
		o.Inflight.AwaitUnmount(inflight.FreeTimeout)
	}
}

// endWaits ends completed waits: it removes their evictions from those in flight. The agent then
// decides anew at once, as the kubelet does after a cleanup. A soft eviction that is no longer
// needed is withdrawn.
func (a *Agent) endWaits(s *signals.Snapshot) {
	for i, e := range a.inflight {
		if e == nil {
			continue
		}
		e.PollExit(s.At)
		if e.Unneeded(a.checker.Machine, s) {
			a.soft.recall()
		}
		why := e.EndReason(a.checker.Machine, s, a.checker.Machine.Policy().EarlyEvictionHorizon)
		if why == "" {
			continue
		}
		a.reporter.Report(a.reclaimDone(e, s, why))
		a.inflight[i] = nil
		if why != inflight.Recovered && s.Kind == signals.Early { // not before retryAt, if an attempt has just failed
			a.nextPeriodic = s.At.Add(max(a.retryAt.Sub(s.At), 0))
		}
	}
}
