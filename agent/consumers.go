package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Consumers finds the largest consumers of a resource.
type Consumers interface {
	// Consumers returns them. It is called beside the loop, once at a time for each condition, and
	// returns soon after the end of ctx.
	Consumers(ctx context.Context, of Shortage) signals.Consumption
}

// Shortage is a resource of which evictions free too little.
type Shortage struct {
	Signal signals.Signal
	Seen   signals.Observation
	Pods   signals.Consumer // all pods together, by the ranking
}

// The consumers of a resource are measured beside the loop, since a disk or the runtime may be slow.
// The decision that no pod helps, or that evictions are ineffective, is written at once. It is written
// again with its consumers when these are known, and when they have changed.
const (
	consumersTime = 30 * time.Second // most, for one measurement
	consumersPace = time.Minute      // between the beginnings of two measurements of a signal
	consumersAge  = 2 * time.Minute  // most, of consumers that a new line names without a measurement
	// changesPace is the minimum time between two lines about changed consumers of a signal. Pods may
	// change what they hold at any rate.
	changesPace = 10 * time.Minute
)

// consumption measures consumers beside the loop.
type consumption struct {
	port    Consumers // nil: none are known
	of      [signals.Count]measuredConsumers
	waiting int // number of incomplete decisions
	running [signals.ConditionCount]bool
	results chan foundConsumers // has room for one of each condition
}

// measuredConsumers are the consumers of one signal.
type measuredConsumers struct {
	signals.Consumption
	known    time.Time // zero: not measured yet
	begun    time.Time // start of the last measurement
	awaiting []incomplete

	reported   signals.Consumption // in the last line with consumers
	reportedAt time.Time
}

// incomplete is a decision that waits for its consumers.
type incomplete struct {
	decision  *Decision
	threshold *eviction.Threshold
	shortage  Shortage
}

type foundConsumers struct {
	signal signals.Signal
	signals.Consumption
}

func newConsumption(port Consumers) consumption {
	return consumption{port: port, results: make(chan foundConsumers, signals.ConditionCount)}
}

// isCurrent reports whether the consumers are recent enough for a new line.
func (m *measuredConsumers) isCurrent(now time.Time) bool {
	return !m.known.IsZero() && now.Sub(m.known) <= consumersAge
}

// attachConsumers sets the consumers of a decision if they are known.
func (a *Agent) attachConsumers(d *Decision, o *Outcome) {
	if d.Decision != NoneHelps && d.Decision != Ineffective {
		return
	}
	if m := &a.consumption.of[o.Verdict.Target.Signal]; m.isCurrent(d.Time) {
		a.setConsumers(d, o.Verdict.Target, m)
	}
}

// setConsumers sets the consumers of a decision that is about to be written.
func (a *Agent) setConsumers(d *Decision, threshold *eviction.Threshold, m *measuredConsumers) {
	d.Consumers, d.Unmeasured = m.Largest, m.Unmeasured
	m.reported, m.reportedAt = m.Consumption, d.Time
	if d.Decision == NoneHelps {
		a.lastBlock(threshold, uselessBlock).measured = true
	}
}

// awaitConsumers has consumers measured for an outcome that a line with them explains, or explained.
func (a *Agent) awaitConsumers(o *Outcome, verb Verb) {
	if a.consumption.port == nil || verb != NoneHelps && verb != Ineffective {
		return
	}
	t, now := o.Verdict.Target, o.Snapshot.At
	m := &a.consumption.of[t.Signal]
	if m.isCurrent(now) && (verb == Ineffective || now.Sub(m.begun) < consumersPace) {
		return // the line has them
	}
	at := slices.IndexFunc(m.awaiting, func(i incomplete) bool { return *i.threshold == *t && i.decision.Decision == verb })
	if at >= 0 && !m.awaiting[at].decision.Time.Before(a.lastBlock(t, uselessBlock).since) {
		return
	}
	shortage := Shortage{Signal: t.Signal, Seen: *a.checker.observed(o, t.Signal), Pods: o.podsTogether()}
	i := incomplete{a.decision(o, verb), t, shortage}
	if at >= 0 { // of an earlier episode
		m.awaiting[at] = i
		return
	}
	m.awaiting = append(m.awaiting, i)
	a.consumption.waiting++
}

// podsTogether returns all pods as one consumer, by the ranking.
func (o *Outcome) podsTogether() signals.Consumer {
	all, partly := signals.Consumer{Name: "pods", Kind: signals.ConsumerPods}, 0
	for i := range o.Ranking {
		r := &o.Ranking[i].Relief
		all.Amount = all.Amount.Plus(r.Amount)
		if r.Open != "" || !r.Known {
			partly++
		}
	}
	if partly > 0 {
		all.Incomplete = fmt.Sprintf("%d of %d pods are measured in part", partly, len(o.Ranking))
	}
	return all
}

// measureConsumers begins the measurements that decisions wait for. It does not allocate without one.
func (a *Agent) measureConsumers(ctx context.Context, now time.Time) {
	if a.consumption.waiting == 0 {
		return
	}
	for s := range signals.All {
		m := &a.consumption.of[s]
		if len(m.awaiting) > 0 && !a.consumption.running[s.Definition().Condition] && (m.begun.IsZero() || now.Sub(m.begun) >= consumersPace) {
			a.beginMeasurement(ctx, s, now)
		}
	}
}

func (a *Agent) beginMeasurement(ctx context.Context, s signals.Signal, now time.Time) {
	c := &a.consumption
	m := &c.of[s]
	m.begun, c.running[s.Definition().Condition] = now, true
	shortage := m.awaiting[len(m.awaiting)-1].shortage
	go func() {
		bounded, cancel := context.WithTimeout(ctx, consumersTime)
		defer cancel()
		c.results <- foundConsumers{s, c.port.Consumers(bounded, shortage)}
		a.notifier.Wake()
	}()
}

// applyConsumers stores the result of a measurement, and completes the decisions that wait for it.
func (a *Agent) applyConsumers(r foundConsumers) {
	m := &a.consumption.of[r.signal]
	a.consumption.running[r.signal.Definition().Condition] = false
	m.Consumption, m.known = r.Consumption, time.Now()
	waiting := m.awaiting
	m.awaiting = nil
	a.consumption.waiting -= len(waiting)
	for _, i := range waiting {
		if i.decision.Repeated = a.repeats(&i, m); i.decision.Repeated != "" {
			a.setConsumers(i.decision, i.threshold, m)
			a.reporter.Report(i.decision)
		}
	}
}

// repeats returns why a decision is written again with its consumers, and an empty string if it is not.
func (a *Agent) repeats(i *incomplete, m *measuredConsumers) Repeat {
	last := a.lastBlock(i.threshold, uselessBlock)
	switch {
	case i.decision.Decision == Ineffective:
		return RepeatMeasured
	case *last == block{}, i.decision.Time.Before(last.since): // it is over, and the next line has the consumers
		return ""
	case !last.measured:
		return RepeatMeasured
	case i.decision.Time.Sub(m.reportedAt) >= changesPace && m.DiffersFrom(&m.reported):
		return RepeatChanged
	}
	return ""
}

// exhaustion is how far the resource of a met threshold is used up.
type exhaustion uint8

const (
	notExhausted exhaustion = iota
	imminent                // of memory: exhaustion is imminent
	usedUp                  // nothing is available
)

func (e exhaustion) repeat() Repeat { return [...]Repeat{"", RepeatImminent, RepeatUsedUp}[e] }

// exhaustion returns how far the resource of an outcome's target is used up.
func (a *Agent) exhaustion(o *Outcome) exhaustion {
	t := o.Verdict.Target
	seen := a.checker.observed(o, t.Signal)
	switch {
	case seen.Known && seen.Available <= 0:
		return usedUp
	case t.Hard() && a.checker.Machine.Imminent(o.Snapshot).Has(t.Signal):
		return imminent
	}
	return notExhausted
}

// The causes for which no pod helps.
const (
	eachTooSmall uint8 = 1 << iota
	allTooLittle
	pageCache
)

// isNewCause reports whether no pod helps for a cause that is not logged yet, or the resource is used up
// further than in any line before. A return to an earlier state is no news: both alternate between
// checks. It sets why the line is repeated.
func (a *Agent) isNewCause(o *Outcome) bool {
	last, level, cause := a.lastBlock(o.Verdict.Target, uselessBlock), a.exhaustion(o), eachTooSmall
	switch {
	case o.tooLittle():
		cause = allTooLittle
	case o.CachePod != nil:
		cause = pageCache
	}
	a.logged.repeat = ""
	if last.causes == 0 {
		last.since = o.Snapshot.At
	}
	if last.causes != 0 && level > last.exhausted {
		a.logged.repeat = level.repeat()
	} else if last.causes&cause != 0 {
		return false
	}
	last.causes, last.exhausted = last.causes|cause, max(last.exhausted, level)
	return true
}
