package config

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Policy returns the policy of eviction decisions on a node with the layout of
// filesystems. Returns an error if the configuration is not valid.
func (c *Agent) Policy(layout signals.Layout) (*eviction.Policy, error) {
	var faults strictyaml.Faults
	settings := eviction.Settings{
		Thresholds:           c.thresholds(&faults),
		Layout:               layout,
		TransitionPeriod:     c.EvictionPressureTransitionPeriod,
		MaxPodGracePeriod:    c.EvictionMaxPodGracePeriod,
		StorageLimits:        c.LocalStorageCapacityIsolation,
		Choice:               c.EvictionChoice,
		EarlyEviction:        c.EarlyEviction,
		EarlyEvictionHorizon: c.EarlyEvictionHorizon,
	}
	for _, key := range c.EnforceNodeAllocatable {
		settings.BindAllocatable = settings.BindAllocatable || key == "pods"
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return eviction.NewPolicy(settings)
}

// WithHardThreshold returns the configuration with a value such as 200Mi or 5% as the hard threshold of a signal.
// [Agent.Policy] returns an error if the value is not valid.
func (c *Agent) WithHardThreshold(s signals.Signal, value string) *Agent {
	changed, settings := *c, slices.Clone(c.hard())
	set := options.Setting{Key: s.String(), Text: value, Where: "evictionHard." + s.String()}
	if i := slices.IndexFunc(settings, func(o options.Setting) bool { return o.Key == set.Key }); i >= 0 {
		settings[i] = set
	} else {
		settings = append(settings, set)
	}
	changed.EvictionHard = options.Map{Set: true, Settings: settings}
	return &changed
}

// thresholds returns the thresholds that the four eviction maps define, and adds their
// faults.
func (c *Agent) thresholds(faults *strictyaml.Faults) []eviction.Threshold {
	graces := c.graces(faults)
	reclaims := c.reclaims(faults)
	var thresholds []eviction.Threshold
	for _, s := range c.hard() {
		if t, ok := threshold(s, faults); ok {
			t.MinReclaim = reclaims[t.Signal]
			thresholds = append(thresholds, t)
		}
	}
	for _, s := range c.EvictionSoft.Settings {
		t, ok := threshold(s, faults)
		if !ok {
			continue
		}
		grace, given := graces[t.Signal]
		if !given {
			faults.Add(s.Where, s.Text, "grace period must be specified for the soft eviction threshold %s: add it to evictionSoftGracePeriod", s.Key)
		}
		t.Grace, t.MinReclaim = grace, reclaims[t.Signal]
		thresholds = append(thresholds, t)
	}
	return thresholds
}

// threshold parses one entry; ok is false for a faulty one and for 0% and
// 100%, which switch a threshold off.
func threshold(s options.Setting, faults *strictyaml.Faults) (t eviction.Threshold, ok bool) {
	sig, err := signals.Parse(s.Key)
	if err != nil {
		faults.Add(s.Where, s.Text, "%v", err)
		return t, false
	}
	t.Signal = sig
	if s.Text == "0%" || s.Text == "100%" {
		return t, false
	}
	value, err := parseValue(s.Text)
	switch {
	case err != nil:
		faults.Add(s.Where, s.Text, "%v", err)
	case value.Percent != "" && value.Fraction > 1:
		faults.Add(s.Where, s.Text, "must not be above 100%%")
	case value.Percent == "" && value.Quantity.Value <= 0:
		faults.Add(s.Where, s.Text, "must be positive: a threshold is switched off by 0%%")
	default:
		t.Value = value
		return t, true
	}
	return t, false
}

// parseValue reads a quantity, or a percentage that is not negative.
func parseValue(text string) (eviction.Value, error) {
	if number, percent := strings.CutSuffix(text, "%"); percent {
		f, err := strconv.ParseFloat(number, 32)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
			return eviction.Value{}, fmt.Errorf("must be a percentage of at least 0%%, such as 10%%")
		}
		return eviction.Value{Fraction: float32(f) / 100, Percent: text}, nil
	}
	q, err := strictyaml.ParseQuantity(text)
	if err != nil {
		return eviction.Value{}, fmt.Errorf("must be a quantity or a percentage, such as 100Mi or 10%%")
	}
	return eviction.Value{Quantity: signals.Quantity{Value: signals.Amount(strictyaml.Whole(q)), Text: q.String()}}, nil
}

func (c *Agent) graces(faults *strictyaml.Faults) map[signals.Signal]time.Duration {
	graces := map[signals.Signal]time.Duration{}
	for sig, s := range bySignal(c.EvictionSoftGracePeriod, faults) {
		grace, err := time.ParseDuration(s.Text)
		if err != nil || grace < 0 {
			faults.Add(s.Where, s.Text, "must be a duration that is not negative, such as 1m30s")
		}
		graces[sig] = grace
	}
	return graces
}

func (c *Agent) reclaims(faults *strictyaml.Faults) map[signals.Signal]eviction.Value {
	reclaims := map[signals.Signal]eviction.Value{}
	for sig, s := range bySignal(c.EvictionMinimumReclaim, faults) {
		value, err := parseValue(s.Text)
		switch {
		case err != nil:
			faults.Add(s.Where, s.Text, "%v", err)
		case value.Percent != "" && value.Fraction <= 0:
			faults.Add(s.Where, s.Text, "a percentage to reclaim must be above 0%%")
		case value.Percent == "" && value.Quantity.Value < 0:
			faults.Add(s.Where, s.Text, "must not be negative")
		}
		reclaims[sig] = value
	}
	return reclaims
}

// bySignal yields the settings of a map in their order, and adds a fault for each key
// that is not a signal.
func bySignal(m options.Map, faults *strictyaml.Faults) iter.Seq2[signals.Signal, options.Setting] {
	return func(yield func(signals.Signal, options.Setting) bool) {
		for _, s := range m.Settings {
			sig, err := signals.Parse(s.Key)
			if err != nil {
				faults.Add(s.Where, s.Text, "%v", err)
			} else if !yield(sig, s) {
				return
			}
		}
	}
}

var reservable = []string{"cpu", "memory", "ephemeral-storage", "pid"}

func (c *Agent) validateReserved(faults *strictyaml.Faults) {
	for _, m := range []options.Map{c.KubeReserved, c.SystemReserved} {
		for _, s := range m.Settings {
			if !slices.Contains(reservable, s.Key) {
				faults.Add(s.Where, s.Key, "can not be reserved: use one of %s", strings.Join(reservable, ", "))
			}
			if q, err := strictyaml.ParseQuantity(s.Text); err != nil || q.Sign() < 0 {
				faults.Add(s.Where, s.Text, "must be a quantity that is not negative")
			}
		}
	}
}

// ReservedMemory returns the memory of kubeReserved and systemReserved together.
func (c *Agent) ReservedMemory() signals.Bytes {
	var total signals.Bytes
	for _, m := range []options.Map{c.KubeReserved, c.SystemReserved} {
		if s, set := m.Get("memory"); set {
			if q, err := strictyaml.ParseQuantity(s.Text); err == nil {
				total = signals.Bytes(signals.Amount(total).Plus(signals.Amount(strictyaml.Whole(q))))
			}
		}
	}
	return total
}

var enforceable = []string{"none", "pods", "system-reserved", "kube-reserved", "system-reserved-compressible", "kube-reserved-compressible"}

func (c *Agent) validateEnforce(faults *strictyaml.Faults) {
	where := c.Where("enforceNodeAllocatable")
	seen := map[string]bool{}
	for _, key := range c.EnforceNodeAllocatable {
		switch {
		case !slices.Contains(enforceable, key):
			faults.Add(where, key, "can not be enforced: use some of %s", strings.Join(enforceable, ", "))
		case seen[key]:
			faults.Add(where, key, "is given twice: give it once")
		case key == "none" && len(c.EnforceNodeAllocatable) > 1:
			faults.Add(where, key, "can not be combined with others")
		}
		seen[key] = true
	}
}
