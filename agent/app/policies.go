package app

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// policies are the rules of the configuration in force, compiled for the layout of the node's
// filesystems and for the kubelet beside the agent. Its methods are called by the loop alone, except
// published.
type policies struct {
	config  func() *config.Agent
	layout  func() (l signals.Layout, known bool)
	limits  func() bool            // local-storage limits are left to the agent
	prepare func(*eviction.Policy) // called before the loop adopts a policy
	log     *slog.Logger

	compiled map[policyKey]*agent.Rules // of the configuration of last
	last     policyKey
	rules    *agent.Rules // of last
	latest   atomic.Pointer[eviction.Policy]
}

type policyKey struct {
	config *config.Agent
	layout signals.Layout
	limits bool
}

func newPolicies(config func() *config.Agent, layout func() (signals.Layout, bool), limits func() bool, prepare func(*eviction.Policy), log *slog.Logger) *policies {
	p := &policies{config: config, layout: layout, limits: limits, prepare: prepare, log: log, compiled: map[policyKey]*agent.Rules{}}
	if first, err := config().Policy(p.last.layout); err == nil {
		p.latest.Store(first) // published may be called before the first check
	}
	return p
}

// current returns the rules of the present configuration and layout. If the layout is no longer known,
// the last one counts. The configuration was compiled before, so that it has no faults.
func (p *policies) current() *agent.Rules {
	key := policyKey{p.config(), p.last.layout, p.limits()}
	if layout, known := p.layout(); known {
		key.layout = layout
	}
	if key == p.last {
		return p.rules
	}
	rules := p.compiled[key]
	if rules == nil {
		var err error
		if rules, err = compile(key); err != nil {
			p.log.Error("Failed to apply a new policy, using the previous one", "error", err)
			return p.rules
		}
		p.log.Info("Applied policy", "thresholds", fmt.Sprint(rules.Policy.Thresholds), "filesystems", key.layout.String(), "localStorageLimits", key.limits)
		if key.config != p.last.config {
			clear(p.compiled)
		}
		p.compiled[key] = rules
	}
	p.last, p.rules = key, rules
	p.latest.Store(rules.Policy)
	p.prepare(rules.Policy)
	return rules
}

func compile(key policyKey) (*agent.Rules, error) {
	c := *key.config
	c.LocalStorageCapacityIsolation = key.limits
	policy, err := c.Policy(key.layout)
	if err != nil {
		return nil, err
	}
	return &agent.Rules{Policy: policy, Limits: c.Limits.Policy(), MaxFillRate: c.FillRate(), LogChecks: c.Verbosity >= logsChecks}, nil
}

// logsChecks is the verbosity from which on periodic checks without a result are logged.
const logsChecks = 2

// published returns the latest policy to goroutines beside the loop.
func (p *policies) published() *eviction.Policy { return p.latest.Load() }

// configOf returns the configuration that a policy was compiled from. It returns nil if that is not the
// latest policy.
func (p *policies) configOf(policy *eviction.Policy) *config.Agent {
	if p.rules == nil || p.rules.Policy != policy {
		return nil
	}
	return p.last.config
}
