package agent

import (
	"context"
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Settings are what the loop itself needs of the configuration.
type Settings struct {
	Period      time.Duration // between two regular looks
	MaxFillRate signals.Bytes // per second
	LogChecks   bool          // report regular looks that led to nothing, too
}

// An Agent looks after one node. Its methods are called from one goroutine.
type Agent struct {
	settings  Settings
	machine   *eviction.Machine
	checker   Checker
	victims   Victims
	inventory Inventory
	reporter  Reporter
	notifier  Notifier
	thread    *Thread // nil: any
	watcher   *memoryWatcher
	policy    func() *eviction.Policy
	draining  func() string
	arming    Arming

	snapshot     signals.Snapshot
	rates        rateEstimator
	watch        memoryWatch // while a kill is under way
	confirmation confirmation
	garbage      garbage
	inflight     inflight.Set
	soft         *softRun // the soft eviction whose result is not known yet, be it waited for or not
	kills        tries
	unanswered   tries // soft evictions that nobody has carried out
	refusals     refusals
	nextRegular  time.Time
	retryAt      time.Time // no pod could be evicted: extra looks try again then
	underway     Underway
	logged       reportLog
	wokenBy      signals.Wakes  // what ended the last wait
	lines        []signals.Line // of the hard and soft memory thresholds
	stalls       stallReports
	armed        bool

	consumers    Consumers
	limiterSaved func(limiter.Saved)
}

// A Reporter is told what was decided, after it was done. It must not wait.
type Reporter interface {
	// Checked comes after every look, whatever it led to. What it is handed is
	// valid until it returns.
	Checked(o *Outcome, p *eviction.Policy)
	// Report comes where there is something to tell.
	Report(d *Decision)
	// Save is handed what must survive a restart, after every regular look and
	// every eviction.
	Save(state eviction.Saved)
}

// Parts are what an agent is made of.
type Parts struct {
	Machine   *eviction.Machine
	Observer  Observer
	Pods      Pods
	Victims   Victims
	Collector Collector // nil: nothing is reclaimed, nor measured on disks
	Inventory Inventory
	Reporter  Reporter
	// Notifier waits between looks; nil: a timer, and nothing notifies.
	Notifier Notifier
	// Thread, if set, is taken for looks.
	Thread *Thread
	// Stalls, if set, is asked who waits for memory when that woke the agent.
	Stalls Stalls
	// Policy, if set, is asked before every regular look: what the node is
	// made of may be known late, or change. It returns the same pointer as long
	// as nothing has changed.
	Policy func() *eviction.Policy
	// Draining, if set, says why the node is about to go, empty as long as it
	// stays: pods are then ended in an order of somebody else's.
	Draining func() string
	// Arming says whether the agent may act; nil: it may. One that may not decides,
	// ranks and reports all the same, and touches nothing.
	Arming Arming
	// Limiter, if set, may spare pods; RestraintSaved is handed what it has to
	// remember over a restart, and Holders, if set, is asked who holds the memory
	// that evictions do not free.
	Limiter      *limiter.Limiter
	LimiterSaved func(limiter.Saved)
	Consumers    Consumers
}

// New returns an agent that has not looked yet.
func New(settings Settings, p Parts) *Agent {
	a := &Agent{
		settings: settings, machine: p.Machine, victims: p.Victims, garbage: garbage{collector: p.Collector},
		inventory: p.Inventory, reporter: p.Reporter, notifier: p.Notifier, thread: p.Thread, policy: p.Policy, draining: p.Draining, arming: p.Arming,
		kills: tries{}, unanswered: tries{}, refusals: refusals{}, stalls: stallReports{port: p.Stalls},
		consumers: p.Consumers, limiterSaved: p.LimiterSaved,
	}
	if a.notifier == nil {
		a.notifier = timer(a.thread)
	}
	if a.arming == nil {
		a.arming = always{}
	}
	a.armed, _ = a.arming.Armed()
	a.logged.conditions = p.Machine.Conditions()
	a.checker = Checker{Machine: p.Machine, Observer: p.Observer, Pods: p.Pods, Limiter: p.Limiter, GivesWay: true}
	a.watch.observer = p.Observer
	a.underway = Underway{Draining: a.draining, Inflight: &a.inflight, Garbage: &a.garbage, Killed: a.kills, Pending: true}
	return a
}

// Run looks at the node whenever it is due, until ctx ends. A pod that was asked
// to end in a soft eviction is then not killed: whether it has to go is decided
// anew by a successor.
func (a *Agent) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, a.notifier.Wake)
	defer stop()
	if a.thread != nil {
		a.watcher, _ = newMemoryWatcher(a.thread) // without one a goroutine does it, later
		defer a.watcher.Close()
	}
	a.nextRegular = time.Now()
	for ctx.Err() == nil {
		a.collectResults()
		next := a.Step(ctx, time.Now())
		if time.Until(next) >= restTime && !a.inflight.Exiting() {
			a.thread.Rest()
		}
		a.wokenBy = a.notifier.Wait(next)
		a.thread.Hurry()
	}
	a.shutDown()
}

// Wake has the agent look now. Any goroutine may call it.
func (a *Agent) Wake() { a.notifier.Wake() }

// collectResults takes over what has ended beside the loop; whoever ends there wakes it.
func (a *Agent) collectResults() {
	select {
	case t := <-a.terminated():
		a.endTermination(t)
	default:
	}
	select {
	case ran := <-a.collected():
		a.endGarbage(ran)
	default:
	}
}

// shutDown saves the state, and lets a soft eviction put its pod in order.
func (a *Agent) shutDown() {
	if soft := a.terminated(); soft != nil {
		select {
		case t := <-soft:
			a.endTermination(t)
		case <-time.After(maxKillWait):
		}
	}
	a.reporter.Save(a.machine.Save())
	a.saveLimiter()
}

// Step makes one check and returns when the next one is due. The check plans one step
// at a time, and nothing but what carries a plan out touches anything.
func (a *Agent) Step(ctx context.Context, now time.Time) (next time.Time) {
	s := a.observe(now)
	outcome := a.checker.Begin(s)
	for plan := a.next(ctx); plan.Action != Wait; plan = a.next(ctx) {
		a.checker.Apply(plan, a.execute(ctx, plan))
	}
	a.conclude(ctx, outcome)
	if early := now.Add(a.interval(s)); early.Before(a.nextRegular) {
		return early
	}
	return a.nextRegular
}

// observe takes a snapshot of the node: all of it when a periodic check is due.
func (a *Agent) observe(now time.Time) *signals.Snapshot {
	s := &a.snapshot
	s.At, s.Kind, s.Woken, s.NeedsConfirmation = now, signals.Early, a.wokenBy, false
	a.checkArming(now)
	if !now.Before(a.nextRegular) {
		s.Kind = signals.Periodic
		a.nextRegular = a.nextRegular.Add(a.settings.Period)
		if a.nextRegular.Before(now) { // the machine slept, or the clock jumped
			a.nextRegular = now.Add(a.settings.Period)
		}
		a.adoptPolicy(now)
	}
	a.checker.Observer.Observe(&s.Node, a.machine.Observes(s.Kind))
	a.rates.note(s)
	a.endWaits(s)
	s.NeedsConfirmation = a.needsConfirmation(s)
	if s.Kind == signals.Periodic {
		a.checker.deleted.note(a.checker.Pods.Stored(), now)
	}
	return s
}

// next is the next plan, by what is under way now.
func (a *Agent) next(ctx context.Context) Plan {
	a.underway.RetryAt, a.underway.Armed = a.retryAt, a.armed
	return a.checker.Next(ctx, &a.underway)
}

// execute carries a plan out.
func (a *Agent) execute(ctx context.Context, p Plan) Result {
	switch p.Action {
	case Finish:
		a.finish(p.Inflight)
	case Escalate:
		a.escalate(p.Inflight, p.Verdict)
	case CollectGarbage:
		a.beginGarbage(ctx, p.Verdict, p.Garbage)
	case Evict:
		return a.evict(ctx, p.Eviction)
	}
	return Result{}
}

// conclude takes over what a check has led to, and reports it.
func (a *Agent) conclude(ctx context.Context, o *Outcome) {
	s := o.Snapshot
	if until := a.checker.deleted.until; !until.IsZero() && until.Before(a.nextRegular) {
		a.nextRegular = until
	}
	a.forgetGarbage(ctx, o)
	if o.Evicted != nil {
		expect(o)
		if o.OthersWait {
			a.nextRegular = s.At
		}
		a.checker.Spend(o)
	}
	a.report(o)
	a.reportStalls(o)
	a.reporter.Checked(o, a.machine.Policy())
	a.notifier.Follow(&s.Node, a.memoryLines(s))
	if s.Kind == signals.Periodic {
		a.inventory.Refresh(ctx)
	}
}

// expect tells the eviction that has begun what is waited for.
func expect(o *Outcome) {
	if o.EndedByLimit {
		o.Inflight.ExpectLimit(&o.Verdict)
		return
	}
	var used signals.Amount
	for i := range o.Ranking {
		if o.Ranking[i].Pod == o.Evicted.Pod {
			used = o.Ranking[i].Key.Usage
		}
	}
	o.Inflight.Expect(&o.Verdict, o.Snapshot.Node[o.Verdict.Target.Signal].Available, used)
}

// adoptPolicy goes on with another policy, once what the node is made of has become
// known: timers and conditions are kept. What is under way speaks of the
// thresholds of the old one, so that its end is waited for.
func (a *Agent) adoptPolicy(now time.Time) {
	if a.policy == nil {
		return
	}
	policy := a.policy()
	if policy == a.machine.Policy() || a.garbage.run != nil || a.inflight != (inflight.Set{}) {
		return
	}
	machine := eviction.New(policy)
	machine.Restore(a.machine.Save(), now)
	a.machine, a.checker.Machine = machine, machine
}

// failurePace is how soon extra looks try again after no pod could be evicted.
// Measuring and ranking hundreds of pods at the pace of looks would take the
// processors from those who could free memory.
const failurePace = 20 * eviction.MinInterval

// endWaits ends the waits that are over. As the kubelet after a cleanup, the agent then
// decides anew at once.
func (a *Agent) endWaits(s *signals.Snapshot) {
	for i, e := range a.inflight {
		if e == nil {
			continue
		}
		e.Update(s.At)
		if e.Unneeded(a.machine, s) {
			a.soft.recall()
		}
		why := e.Over(a.machine, s, a.machine.Policy().EarlyEvictionHorizon)
		if why == "" {
			continue
		}
		a.reporter.Report(a.reclaimDone(e, s, why))
		a.inflight[i] = nil
		if why != inflight.Recovered && s.Kind == signals.Early {
			a.nextRegular = s.At
		}
	}
}
