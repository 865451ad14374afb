package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Run simulates the scenario and hands every step with its outcome to each, in
// order.
func (s *NodeScenario) Run(each func(*Step, *agent.Outcome, *eviction.Machine) error) error {
	w := &world{scenario: s, active: slices.Clone(s.Pods)}
	machine, holds := eviction.New(s.Policy), limiter.New(s.Restraint)
	for i := range s.Steps {
		step := &s.Steps[i]
		w.enter(step)
		if step.Restart {
			var err error
			if machine, holds, err = s.restart(machine, holds, start.Add(step.At)); err != nil {
				return err
			}
			w.before = nil
		}
		cycle := agent.Cycle{Machine: machine, Observer: w, Pods: w, Reclaimer: w, Killer: w, Restraint: holds}
		snapshot := w.snapshot()
		outcome := cycle.Look(context.Background(), snapshot)
		cycle.Spend(outcome)
		if err := each(step, outcome, machine); err != nil {
			return err
		}
		w.leave(outcome)
	}
	return nil
}

// restart gives new decisions what the old ones would have saved to disk.
func (s *NodeScenario) restart(old *eviction.Machine, holds *limiter.Restraint, now time.Time) (*eviction.Machine, *limiter.Restraint, error) {
	decided, err := overDisk(old.Save())
	if err != nil {
		return nil, nil, err
	}
	held, err := overDisk(holds.Save())
	if err != nil {
		return nil, nil, err
	}
	machine, successor := eviction.New(s.Policy), limiter.New(s.Restraint)
	machine.Restore(decided, now)
	successor.Restore(held, now)
	return machine, successor, nil
}

// overDisk is a state by way of its encoding.
func overDisk[T any](state T) (saved T, err error) {
	data, err := json.Marshal(state)
	if err == nil {
		err = json.Unmarshal(data, &saved)
	}
	if err != nil {
		return saved, fmt.Errorf("save and restore the state over a restart: %w", err)
	}
	return saved, nil
}

// A world is what the agent finds: the ports, played by the current step.
type world struct {
	scenario  *NodeScenario
	step      *Step
	before    *Step // the step before, unless the agent was restarted since
	active    []signals.Pod
	reclaimed bool
}

func (w *world) enter(step *Step) {
	w.before, w.step, w.reclaimed = w.step, step, false
	for _, name := range step.Remove {
		w.remove(name)
	}
	for _, pod := range step.Add {
		w.remove(pod.Key())
		w.active = append(w.active, pod)
	}
}

func (w *world) leave(o *agent.Outcome) {
	if o.Evicted != nil && !w.scenario.KeepEvicted {
		w.remove(o.Evicted.Pod.Key())
	}
}

func (w *world) remove(name string) {
	w.active = slices.DeleteFunc(slices.Clone(w.active), func(p signals.Pod) bool { return p.Key() == name })
}

// snapshot is the step's look with the rates since the step before.
func (w *world) snapshot() *signals.Snapshot {
	s := &signals.Snapshot{At: start.Add(w.step.At), Kind: w.step.Kind}
	if w.before == nil {
		return s
	}
	for sig := range signals.All {
		before, now := &w.before.Node[sig], &w.step.Node[sig]
		if before.Known && now.Known {
			s.Fell[sig] = signals.Fall{By: before.Available - now.Available, Over: w.step.At - w.before.At}
		}
	}
	return s
}

// Observe implements agent.Observer.
func (w *world) Observe(into *signals.Observations, _ signals.Kind) {
	if w.reclaimed {
		*into = w.step.AfterReclaim
		return
	}
	*into = w.step.Node
}

// Measure implements agent.Pods.
func (w *world) Measure(context.Context) []signals.Candidate {
	candidates := make([]signals.Candidate, len(w.active))
	for i := range w.active {
		candidates[i] = signals.Candidate{Pod: &w.active[i], Usage: w.step.Usage[w.active[i].Key()]}
	}
	return candidates
}

// Stored implements agent.Pods.
func (w *world) Stored() []signals.Candidate { return w.Measure(context.Background()) }

// Reclaim implements agent.Reclaimer.
func (w *world) Reclaim(_ context.Context, v *eviction.Verdict) (ran []signals.Reclaimer, done bool) {
	w.reclaimed = len(v.Reclaim) > 0
	return v.Reclaim, true
}

// Kill implements agent.Killer.
func (w *world) Kill(context.Context, *eviction.Eviction) error {
	if w.step.KillError != "" {
		return errors.New(w.step.KillError)
	}
	return nil
}
