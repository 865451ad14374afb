package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// Replay repeats the checks of a recording with the configuration that was recorded.
type Replay struct {
	data  []byte
	first *recording.Header

	run      *recording.Header
	config   *config.Agent
	policies map[policyKey]*eviction.Policy
	checker  *agent.Checker // nil: the state is not known
	key      policyKey      // of the checker's policy
	changed  bool           // the configuration has changed since the last check
	exact    bool           // the state is known exactly
	begins   *agent.State   // of a run without a check yet
	fresh    bool           // no check of the run was seen
	Summary  ReplaySummary
}

// policyKey is the part of a policy that does not follow from the configuration alone.
type policyKey struct {
	layout signals.Layout
	limits bool
}

// ReplaySummary counts the checks of a replay.
type ReplaySummary struct {
	Runs    int // of agents
	Checks  int // recorded
	Same    int // repeated, with the same decisions
	Differ  int // repeated, with other decisions
	Unknown int // not repeated: the state of the decisions was not known
	// Approximate checks were repeated from a state that is not exact, or are recorded in part. They count
	// as neither the same nor different.
	Approximate int
	From, To    time.Time // of the first and the last check, by the time of day
	Damage      recording.Damage
}

// Repeated is a check of a replay.
type Repeated struct {
	Check  *recording.Check
	At     time.Duration // since the start of the first run
	Begins bool          // the first check of a run
	// Outcome and Machine are those of the repeated check, nil if the state was not known.
	Outcome *agent.Outcome
	Machine *eviction.Machine
	// Recorded and Replayed are the decisions in the form of -o json. They are equal if the decisions
	// are.
	Recorded, Replayed []byte
	Exact              bool // the state before the check was known exactly
}

// NewReplay returns the replay of a recording in memory.
func NewReplay(data []byte) *Replay { return &Replay{data: data} }

// Run repeats all checks and calls each for every one, in order. It returns the first error of each,
// an error for a configuration that this version can not read, and [recording.ErrNoRecording].
func (r *Replay) Run(each func(*Repeated) error) error {
	reader := recording.NewReader(r.data)
	var before recording.Damage
	for e := reader.Next(); e != nil; e = reader.Next() {
		if now := reader.Damage(); now != before {
			r.lose() // also at the end of a segment: the run may go on in the next one
			before = now
		}
		switch {
		case e.Header != nil:
			if err := r.begin(e.Header); err != nil {
				return err
			}
		case e.Check != nil:
			repeated, err := r.repeat(e.Check)
			if err == nil {
				err = each(repeated)
			}
			if err != nil {
				return err
			}
		}
	}
	r.Summary.Damage = reader.Damage()
	if r.first == nil {
		return recording.ErrNoRecording
	}
	return nil
}

// lose forgets the state: a check may be missing.
func (r *Replay) lose() { r.checker, r.begins = nil, nil }

// begin begins a segment, and maybe a run. A change of the configuration begins a segment of its run.
func (r *Replay) begin(h *recording.Header) error {
	sameRun := h.SameRun(r.run)
	if sameRun && bytes.Equal(h.Config, r.run.Config) {
		return nil
	}
	c, err := config.ParseFile(h.Config)
	if err != nil {
		return fmt.Errorf("read the configuration in the recording of agent %s: %w", signals.PrintableName(h.Version), err)
	}
	r.run, r.config, r.policies = h, c, map[policyKey]*eviction.Policy{}
	if sameRun {
		r.changed = true
		return nil
	}
	r.checker, r.begins, r.changed = nil, nil, false
	if r.first == nil {
		r.first = h
	}
	r.Summary.Runs++
	r.fresh = true
	var state agent.State
	if len(h.State) > 0 && json.Unmarshal(h.State, &state) == nil {
		r.begins = &state
	}
	return nil
}

// policy returns the policy of a check.
func (r *Replay) policy(key policyKey) (*eviction.Policy, error) {
	if p := r.policies[key]; p != nil {
		return p, nil
	}
	c := *r.config
	c.LocalStorageCapacityIsolation = key.limits
	p, err := c.Policy(key.layout)
	if err != nil {
		return nil, fmt.Errorf("compile the configuration in the recording: %w", err)
	}
	r.policies[key] = p
	return p, nil
}

// repeat repeats a check, if the state before it is known.
func (r *Replay) repeat(c *recording.Check) (*Repeated, error) {
	key := policyKey{c.Layout, c.StorageLimits}
	policy, err := r.policy(key)
	if err != nil {
		return nil, err
	}
	s := &c.Snapshot
	result := &Repeated{Check: c, At: s.At.Sub(r.first.Started), Begins: r.fresh}
	if result.Recorded, err = marshal(recordedLine(result.At, c)); err != nil {
		return nil, err
	}
	if c.Lost > 0 && r.begins == nil {
		r.checker = nil
	}
	switch {
	case r.begins != nil && c.Lost == 0:
		r.restore(r.begins, nil, policy, c)
	case r.checker != nil && (r.key != key || r.changed):
		r.checker.Adopt(policy, r.config.Limits.Policy(), &s.Node)
	}
	r.begins, r.fresh, r.key, r.changed = nil, false, key, false
	if c.Cut { // a part of what it decided by is missing
		r.exact = false
	}
	if r.checker != nil {
		result.Exact = r.exact
		result.Outcome, result.Machine = r.again(c), r.checker.Machine
		if result.Replayed, err = marshal(replayedLine(result, c)); err != nil {
			return nil, err
		}
	}
	r.count(result)
	r.resume(policy, c)
	return result, nil
}

// again makes a check again: of a brief one what its verdict was.
func (r *Replay) again(c *recording.Check) *agent.Outcome {
	if c.Brief {
		return r.checker.Begin(&c.Snapshot)
	}
	return r.checker.Repeat(&c.Snapshot, traceOf(c.Act))
}

// resume continues from the state behind a check, if it is recorded and better than the present one.
func (r *Replay) resume(policy *eviction.Policy, c *recording.Check) {
	if c.State == nil || r.checker != nil && r.exact {
		return
	}
	var state agent.State
	if json.Unmarshal(c.State, &state) == nil && (r.checker == nil || state.Exact) {
		r.restore(&state, &c.Snapshot, policy, c)
	}
}

func (r *Replay) restore(state *agent.State, s *signals.Snapshot, policy *eviction.Policy, c *recording.Check) {
	r.checker, r.exact = agent.NewRepeater(policy, r.config.Limits.Policy()), state.Exact
	r.checker.Restore(state, s, c.Snapshot.At)
}

func (r *Replay) count(c *Repeated) {
	s, at := &r.Summary, c.Check.At()
	if s.Checks++; s.Checks == 1 {
		s.From = at
	}
	s.To = at
	switch {
	case c.Outcome == nil:
		s.Unknown++
	case !c.Exact:
		s.Approximate++
	case bytes.Equal(c.Recorded, c.Replayed):
		s.Same++
	default:
		s.Differ++
	}
}

// marshal encodes a line without its end.
func marshal(l Line) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(l); err != nil {
		return nil, fmt.Errorf("encode a check: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// replayedLine returns the decisions of a repeated check, as far as the recorded one has them.
func replayedLine(r *Repeated, c *recording.Check) Line {
	line := lineOf(r.At, r.Outcome)
	if c.Brief {
		line.Signal = ""
	}
	return line
}

// recordedLine returns the decisions of a recorded check.
func recordedLine(at time.Duration, c *recording.Check) Line {
	line := Line{At: seconds(at), Conditions: c.Conditions.Names(), Met: c.Met.Names(), Unknown: c.Unknown.Names(), Reclaimed: []string{}, Ranking: []string{}, Failed: []FailedLine{}}
	a := c.Act
	if a == nil {
		return line
	}
	if a.Acted {
		line.Signal = a.Signal.String()
	}
	for _, g := range a.Reclaimed {
		line.Reclaimed = append(line.Reclaimed, g.String())
	}
	for _, p := range a.Ranking {
		line.Ranking = append(line.Ranking, p.Key())
	}
	for _, f := range a.Failed {
		line.Failed = append(line.Failed, FailedLine{f.Pod.Key(), f.Error})
	}
	if e := a.Evicted; e != nil {
		line.Evicted = &EvictedLine{e.Pod.Key(), e.Cause, e.GracePeriod, eviction.ReasonEvicted, e.Message, e.DisruptionTarget, e.Annotations}
	}
	return line
}

// traceOf returns what a recorded check has read.
func traceOf(a *recording.Act) *agent.Trace {
	t := &agent.Trace{}
	if a == nil {
		return t
	}
	t.Blocks, t.ForGrowth, t.ForLimits, t.Measured, t.Seen = a.Blocks, a.ForGrowth, a.ForLimits, a.Measured, a.Seen
	for _, w := range a.Withdrawn {
		t.Withdrawn = append(t.Withdrawn, agent.Withdrawal{UID: w.UID, Namespace: w.Namespace, Owner: w.Owner, DecidedAt: w.DecidedAt})
	}
	for _, c := range a.Collections {
		t.Collections = append(t.Collections, agent.PlanResult{Collected: c.Ran, Done: c.Done})
	}
	for _, r := range a.Attempts {
		result := agent.PlanResult{DryRun: r.DryRun}
		if r.Err != "" {
			result.Err = attemptError{r.Err, r.Ends}
		}
		t.Attempts = append(t.Attempts, result)
	}
	for _, d := range a.Deletions {
		t.Deletions = append(t.Deletions, agent.Deletion{UID: d.UID, Since: d.Since, Killed: d.Killed})
	}
	return t
}

// attemptError is the error of a recorded attempt.
type attemptError struct {
	text string
	ends bool
}

func (e attemptError) Error() string { return e.text }

// Is reports whether the error ends the choice, as the recorded one did.
func (e attemptError) Is(target error) bool { return e.ends && target == agent.ErrStopChoosing }
