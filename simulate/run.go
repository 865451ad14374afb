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
	r := s.begin()
	for i := range s.Steps {
		step := &s.Steps[i]
		outcome, err := r.next(step)
		if err != nil {
			return err
		}
		if err := each(step, outcome, r.machine); err != nil {
			return err
		}
	}
	return nil
}

// nodeRun is a scenario in progress.
type nodeRun struct {
	env
	machine *eviction.Machine
	limits  *limiter.Limiter
}

func (s *NodeScenario) begin() *nodeRun {
	return &nodeRun{env{scenario: s, active: slices.Clone(s.Pods)}, eviction.New(s.Policy), limiter.New(s.Restraint)}
}

// next simulates the next step. The outcome stays valid.
func (r *nodeRun) next(step *Step) (*agent.Outcome, error) {
	r.enter(step)
	if step.Restart {
		if err := r.restart(start.Add(step.At)); err != nil {
			return nil, err
		}
	}
	outcome := r.check(&agent.Checker{Machine: r.machine, Observer: r, Pods: r, Limiter: r.limits})
	r.leave(outcome)
	return outcome, nil
}

// restart replaces machine and limiter by those that continue from the state saved by the old ones.
func (r *nodeRun) restart(now time.Time) error {
	decided, err := overDisk(r.machine.Save())
	if err != nil {
		return err
	}
	held, err := overDisk(r.limits.Save())
	if err != nil {
		return err
	}
	r.machine, r.limits = eviction.New(r.scenario.Policy), limiter.New(r.scenario.Restraint)
	r.machine.Restore(decided, now)
	r.limits.Restore(held, now)
	r.before = nil
	return nil
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
