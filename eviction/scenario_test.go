package eviction_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// scenario is a timeline in text. A line is one check:
//
//	10s  memory=90Mi inodes=?  -> met=memory act=memory cond=Memory
//
// First the time, with a trailing ! for an early check. Then the observations: name=available, of
// a capacity of 4Gi, or name=available/capacity, with @ and the time of the sample if it differs
// from that of the check. Omitted signals are unknown. A preceding "restart" restarts the agent,
// and "clock-1m" also sets its clock back. After the arrow are the expectations, - for none:
// thresholds met, conditions True (Disk, Memory, PID), the signal acted for, the garbage
// collected first. Blank lines and # are skipped.
type scenario struct {
	about    string
	settings eviction.Settings
	steps    string
}

var shortNames = map[string]signals.Signal{
	"memory": signals.MemoryAvailable, "allocatable": signals.AllocatableMemoryAvailable,
	"nodefs": signals.NodefsAvailable, "inodes": signals.NodefsInodesFree,
	"imagefs": signals.ImagefsAvailable, "imageinodes": signals.ImagefsInodesFree,
	"containerfs": signals.ContainerfsAvailable, "containerinodes": signals.ContainerfsInodesFree,
	"pids": signals.PIDAvailable,
}

func shortName(s signals.Signal) string {
	for name, sig := range shortNames {
		if sig == s {
			return name
		}
	}
	return s.String()
}

// epoch is the start of scenarios.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func runScenarios(t *testing.T, scenarios []scenario) {
	t.Helper()
	for _, s := range scenarios {
		t.Run(s.about, func(t *testing.T) {
			policy := compile(t, s.settings)
			runner := &runner{policy: policy, machine: eviction.New(policy)}
			for line := range strings.Lines(s.steps) {
				line = strings.TrimSpace(line)
				if line == "" || line[0] == '#' {
					continue
				}
				check, want, ok := strings.Cut(line, "->")
				if !ok {
					t.Fatalf("no arrow in %q", line)
				}
				got, err := runner.check(strings.Fields(check))
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				if want = strings.TrimSpace(want); got != want {
					t.Errorf("%s\n\tgot     %s", line, got)
				}
			}
		})
	}
}

func compile(t *testing.T, s eviction.Settings) *eviction.Policy {
	t.Helper()
	if s.TransitionPeriod == 0 {
		s.TransitionPeriod = eviction.DefaultTransitionPeriod
	}
	if s.EarlyEvictionHorizon == 0 {
		s.EarlyEvictionHorizon = eviction.DefaultEarlyEvictionHorizon
	}
	policy, err := eviction.NewPolicy(s)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

type runner struct {
	policy  *eviction.Policy
	machine *eviction.Machine
	before  *signals.Snapshot
	back    time.Duration // how far the clock was set back

	snapshot *signals.Snapshot // of the last check
	verdict  eviction.Verdict
}

func (t *runner) check(words []string) (string, error) {
	s := &signals.Snapshot{Kind: signals.Periodic}
	when, early := strings.CutSuffix(words[0], "!")
	if early {
		s.Kind = signals.Early
	}
	at, err := time.ParseDuration(when)
	if err != nil {
		return "", err
	}
	for _, w := range words[1:] {
		back, clock := strings.CutPrefix(w, "clock-")
		switch {
		case clock:
			d, err := time.ParseDuration(back)
			if err != nil {
				return "", err
			}
			t.back += d
		case w == "restart":
			if err := t.restart(epoch.Add(at - t.back)); err != nil {
				return "", err
			}
		default:
			if err := observe(s, w, epoch.Add(at-t.back)); err != nil {
				return "", err
			}
		}
	}
	s.At = epoch.Add(at - t.back)
	if t.before != nil {
		for sig := range signals.All {
			if a, b := t.before.Node[sig], s.Node[sig]; a.Known && b.Known {
				s.Rates[sig] = signals.Rate{By: a.Available - b.Available, Over: s.At.Sub(t.before.At)}
			}
		}
	}
	t.before, t.snapshot = s, s
	t.verdict = t.machine.Evaluate(s)
	return brief(&t.verdict), nil
}

// restart restores the state through its encoding, as a state file does.
func (t *runner) restart(now time.Time) error {
	data, err := json.Marshal(t.machine.Save())
	if err != nil {
		return err
	}
	var saved eviction.Saved
	if err := json.Unmarshal(data, &saved); err != nil {
		return err
	}
	t.machine, t.before = eviction.New(t.policy), nil
	t.machine.Restore(saved, now)
	return nil
}

func observe(s *signals.Snapshot, word string, at time.Time) error {
	name, value, _ := strings.Cut(word, "=")
	sig, known := shortNames[name]
	if !known {
		return fmt.Errorf("no signal %q", name)
	}
	if value == "?" {
		return nil
	}
	value, sample, sampled := strings.Cut(value, "@")
	available, capacity, ok := strings.Cut(value, "/")
	if !ok {
		capacity = "4Gi"
	}
	if sampled {
		d, err := time.ParseDuration(sample)
		if err != nil {
			return err
		}
		at = epoch.Add(d)
	}
	a, err := resource.ParseQuantity(available)
	if err != nil {
		return err
	}
	c, err := resource.ParseQuantity(capacity)
	if err != nil {
		return err
	}
	s.Node[sig] = signals.Observed(signals.Amount(a.Value()), signals.Amount(c.Value()), at)
	return nil
}

func brief(v *eviction.Verdict) string {
	var parts []string
	add := func(what string, names []string) {
		if len(names) > 0 {
			parts = append(parts, what+"="+strings.Join(names, ","))
		}
	}
	var met, unknown, conditions, reclaim []string
	for s := range signals.All {
		if v.GracePassed.Has(s) {
			met = append(met, shortName(s))
		}
		if v.Unknown.Has(s) {
			unknown = append(unknown, shortName(s))
		}
	}
	for _, c := range v.Conditions.Names() {
		conditions = append(conditions, strings.TrimSuffix(c, "Pressure"))
	}
	for _, r := range v.Garbage {
		reclaim = append(reclaim, r.String())
	}
	add("met", met)
	if v.Target != nil {
		add("act", []string{shortName(v.Target.Signal) + "<" + v.Target.Value.String()})
	}
	add("reclaim", reclaim)
	add("cond", conditions)
	add("unknown", unknown)
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, " ")
}

// value parses "100Mi" or "10%".
func value(text string) eviction.Value {
	if number, percent := strings.CutSuffix(text, "%"); percent {
		f, err := strconv.ParseFloat(number, 32)
		if err != nil {
			panic(err)
		}
		return eviction.Value{Fraction: float32(f) / 100, Percent: text}
	}
	q := resource.MustParse(text)
	return eviction.Value{Quantity: signals.Quantity{Value: signals.Amount(q.Value()), Text: q.String()}}
}

func hard(name, quantity string) eviction.Threshold {
	return eviction.Threshold{Signal: shortNames[name], Value: value(quantity)}
}

func soft(name, quantity string, grace time.Duration) eviction.Threshold {
	t := hard(name, quantity)
	t.Grace = grace
	return t
}

func reclaiming(t eviction.Threshold, more string) eviction.Threshold {
	t.MinReclaim = value(more)
	return t
}

func thresholds(ts ...eviction.Threshold) eviction.Settings { return eviction.Settings{Thresholds: ts} }
