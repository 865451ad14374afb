package agent

import (
	"slices"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Rules are the part of the configuration that an [Agent] adopts while it runs. They are immutable.
type Rules struct {
	Policy      *eviction.Policy
	Limits      limiter.Policy
	MaxFillRate signals.Bytes // as in [Settings]
	LogChecks   bool          // likewise
}

// adoptRules adopts the rules after a change of the configuration or of facts of the node. Timers,
// conditions, evictions in flight, their counts, and rates are kept. During a garbage collection the
// old rules stay, since it ends by their thresholds. Its result is dropped if other ones of disks
// follow: by those more may have to be collected.
func (a *Agent) adoptRules(s *signals.Snapshot) {
	if a.rules == nil {
		return
	}
	rules := a.rules()
	if rules == a.adopted || a.garbageResults() != nil {
		return
	}
	a.adopted = rules
	a.settings.MaxFillRate, a.settings.LogChecks = rules.MaxFillRate, rules.LogChecks
	before := a.checker.Machine.Policy()
	if before.Layout != rules.Policy.Layout || !slices.Equal(ofDisks(before), ofDisks(rules.Policy)) {
		a.garbage.run = nil
	}
	if rules.Policy.Configured != before.Configured { // the observer may have omitted a signal
		a.checker.Observer.Observe(&s.Node, signals.Periodic)
	}
	a.checker.Adopt(rules.Policy, rules.Limits, &s.Node)
	a.logged.adopt(before.Thresholds, rules.Policy.Thresholds)
	for _, e := range a.inflight {
		if e != nil {
			e.Adopt(before, a.checker.Machine)
		}
	}
}

// ofDisks returns the thresholds of disks.
func ofDisks(p *eviction.Policy) (all []eviction.Threshold) {
	for _, t := range p.Thresholds {
		if t.Signal.Definition().Condition == signals.DiskPressure {
			all = append(all, t)
		}
	}
	return all
}
