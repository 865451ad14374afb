package app

import (
	"cmp"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/reload"
)

// openConfig prepares to watch the configuration file. Without a source the configuration stays.
func (a *app) openConfig() {
	source := cmp.Or(a.Source, config.NewSource("", &options.Flags{}))
	a.watch = reload.New(reload.Options[config.Agent]{Source: source, Current: a.config, Apply: a.applyConfig, Log: a.log})
}

// applyConfig applies a changed configuration to what runs beside the loop. The loop adopts it with its
// next periodic check. It does not wait.
func (a *app) applyConfig(c *config.Agent) {
	a.level.Set(c.Verbosity)
	if r := a.reporter; r.conditions != nil {
		r.conditions.SetTransition(c.EvictionPressureTransitionPeriod)
		r.events.SetTransition(c.EvictionPressureTransitionPeriod)
	}
	if policy, err := c.Policy(signals.Single); err == nil {
		warnOfSmallThresholds(policy, c, a.log)
	}
	fill(a.settingChanged) // the doctor's findings are about the thresholds, too
}

// preparePolicy has the signals of a policy observed and served, before the loop adopts it. A signal stays
// observed.
func (a *app) preparePolicy(p *eviction.Policy) {
	a.metrics.Configure(p.Configured)
	if p.Configured.Has(signals.AllocatableMemoryAvailable) {
		a.node.stats.ObserveAllocatable()
	}
}
