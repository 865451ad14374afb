package app

import (
	"log/slog"
	"testing"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/options"
)

// Rules are compiled once for each configuration and layout, and are the latest ones even if a layout
// returns.
func TestPolicies_CompiledPerConfiguration(t *testing.T) {
	parse := func(fields string) *config.Agent {
		c, err := config.ParseFile([]byte(options.FileHead(config.Kind) + fields))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	now, layout, known, limits := parse("evictionsPerHour: 1\n"), signals.Single, true, true
	var prepared []*eviction.Policy
	p := newPolicies(func() *config.Agent { return now }, func() (signals.Layout, bool) { return layout, known }, func(*config.Agent) bool { return limits },
		func(p *eviction.Policy) { prepared = append(prepared, p) }, slog.New(slog.DiscardHandler))
	first := p.current()
	if p.current() != first || first.Limits.PerHour != 1 || !first.Policy.StorageLimits || p.configOf(first.Policy) != now || p.published() != first.Policy {
		t.Errorf("%+v", first)
	}
	layout = signals.Split
	second := p.current()
	if known = false; second == first || second.Policy.Layout != signals.Split || p.current() != second {
		t.Errorf("layout %s", second.Policy.Layout)
	}
	if layout, known = signals.Single, true; p.current() != first {
		t.Error("the rules were compiled again for the same layout")
	}
	limits = false
	if p.current().Policy.StorageLimits {
		t.Error("local-storage limits are left to the kubelet")
	}
	limits, now = true, parse("evictionsPerHour: 2\nverbosity: 2\nmaxFillRate: 1Gi\n")
	changed := p.current()
	if changed == first || changed.Limits.PerHour != 2 || !changed.LogChecks || changed.MaxFillRate != 1<<30 || p.configOf(changed.Policy) != now || p.configOf(first.Policy) != nil {
		t.Errorf("%+v", changed)
	}
	if len(prepared) != 5 || prepared[4] != changed.Policy {
		t.Errorf("%d policies were prepared", len(prepared))
	}
}

// Rules are of one configuration as a whole, even if it changes while they are compiled.
func TestPolicies_OfOneConfiguration(t *testing.T) {
	before, after := config.NewAgent(), config.NewAgent()
	before.LocalStorageLimits = "off"
	inForce := before
	changing := func() *config.Agent {
		c := inForce
		inForce = after
		return c
	}
	p := newPolicies(changing, func() (signals.Layout, bool) { return signals.Single, true }, (&kubeletDetector{config: before}).leavesLimits, func(*eviction.Policy) {}, slog.New(slog.DiscardHandler))
	inForce = before
	if first, next := p.current(), p.current(); first.Policy.StorageLimits || !next.Policy.StorageLimits {
		t.Errorf("local-storage limits %t, after the change %t", first.Policy.StorageLimits, next.Policy.StorageLimits)
	}
}
