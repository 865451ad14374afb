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

// Run simulates the scenario and calls each for every step with its outcome, in order. It returns
// the first error of each, or of a restart.
func (s *NodeScenario) Run(each func(*Step, *agent.Outcome, *eviction.Machine) error) error {
	w := &env{scenario: s, active: slices.Clone(s.Pods)}
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
		outcome := w.check(&agent.Checker{Machine: machine, Observer: w, Pods: w, Limiter: holds})
		if err := each(step, outcome, machine); err != nil {
			return err
		}
		w.leave(outcome)
	}
	return nil
}

// restart creates a machine and a limiter from the state that the old ones would have saved.
func (s *NodeScenario) restart(old *eviction.Machine, holds *limiter.Limiter, now time.Time) (*eviction.Machine, *limiter.Limiter, error) {
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

// overDisk encodes and decodes a state, as a state file does.
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

// env implements the ports of the agent by the current step.
type env struct {
	scenario  *NodeScenario
	step      *Step
	before    *Step // the previous step, unless the agent was restarted since
	active    []signals.Pod
	reclaimed bool
}

func (w *env) enter(step *Step) {
	w.before, w.step, w.reclaimed = w.step, step, false
	for _, name := range step.Remove {
		w.remove(name)
	}
	for _, pod := range step.Add {
		w.remove(pod.Key())
		w.active = append(w.active, pod)
	}
}

func (w *env) leave(o *agent.Outcome) {
	if o.Evicted != nil && !w.scenario.KeepEvicted {
		w.remove(o.Evicted.Pod.Key())
	}
}

func (w *env) remove(name string) {
	w.active = slices.DeleteFunc(slices.Clone(w.active), func(p signals.Pod) bool { return p.Key() == name })
}

// snapshot returns the step's snapshot with the rates since the previous step.
func (w *env) snapshot() *signals.Snapshot {
	s := &signals.Snapshot{At: start.Add(w.step.At), Kind: w.step.Kind, Node: w.step.Node}
	if w.before == nil {
		return s
	}
	for sig := range signals.All {
		before, now := &w.before.Node[sig], &w.step.Node[sig]
		if before.Known && now.Known {
			s.Rates[sig] = signals.Rate{By: before.Available - now.Available, Over: w.step.At - w.before.At}
		}
	}
	return s
}

// Observe implements agent.Observer.
func (w *env) Observe(into *signals.Observations, _ signals.Kind) {
	if w.reclaimed {
		*into = w.step.AfterReclaim
		return
	}
	*into = w.step.Node
}

// Measure implements agent.Pods.
func (w *env) Measure(context.Context) []signals.Candidate {
	candidates := make([]signals.Candidate, len(w.active))
	for i := range w.active {
		candidates[i] = signals.Candidate{Pod: &w.active[i], Usage: w.step.Usage[w.active[i].Key()]}
	}
	return candidates
}

// Stored implements agent.Pods.
func (w *env) Stored() []signals.Candidate { return w.Measure(context.Background()) }

// check makes the step's check and executes its plans by the step's data.
func (w *env) check(c *agent.Checker) *agent.Outcome {
	ctx, constraints := context.Background(), &agent.Constraints{}
	outcome := c.Begin(w.snapshot())
	for plan := c.Next(ctx, constraints); plan.Action != agent.Wait; plan = c.Next(ctx, constraints) {
		c.Apply(plan, w.execute(plan))
	}
	c.Spend(outcome)
	return outcome
}

func (w *env) execute(p agent.Plan) (r agent.PlanResult) {
	switch p.Action {
	case agent.CollectGarbage:
		w.reclaimed = len(p.Verdict.Garbage) > 0
		r.Collected, r.Done = p.Verdict.Garbage, true
	case agent.Evict:
		if w.step.KillError != "" {
			r.Err = errors.New(w.step.KillError)
		}
	}
	return r
}
