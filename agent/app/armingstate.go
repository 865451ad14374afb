package app

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/arming/disarmfile"
)

// An armingState decides by its inputs whether the agent may act. It implements agent.Arming.
// All methods may be called by any goroutine. Armed and Check do not wait while nothing
// changes.
type armingState struct {
	file     disarmfile.File
	log      *slog.Logger
	decision atomic.Pointer[armingDecision]

	mu        sync.Mutex // of the fields below
	inputs    arming.Inputs
	save      func(arming.Memory)
	listeners []func() // called after every change; they must not wait

	notifying sync.Mutex // listeners run one after the other, so that the last call follows the last change
}

// An armingDecision holds until the next one.
type armingDecision struct {
	arming.Verdict
	file       arming.File
	findings   []string
	superseded chan struct{} // closed when it does not hold any more
}

func (s *armingDecision) armed() bool { return s.State == arming.Armed }

// newArmingState decides by the flag, the file, and the settings of the state file. It calls
// save with what has to survive a restart.
func newArmingState(file disarmfile.File, dryRun bool, saved arming.Memory, save func(arming.Memory), log *slog.Logger) *armingState {
	s := &armingState{file: file, log: log, save: save, inputs: arming.Inputs{Memory: saved, DryRun: dryRun, File: file.State()}}
	s.decide()
	return s
}

// Armed implements agent.Arming.
func (s *armingState) Armed() (armed bool, why string) {
	now := s.decision.Load()
	return now.armed(), now.Reason
}

// Check implements agent.Arming. The file is looked for again under the lock: an older result
// must not replace a newer one.
func (s *armingState) Check() (armed bool, why string) {
	if s.file.State() != s.decision.Load().file {
		s.update(func(w *arming.Inputs) { w.File = s.file.State() })
	}
	return s.Armed()
}

// mayAct is Check for an act that can not be undone. Returns agent.ErrDisarmed if it is not
// allowed.
func (s *armingState) mayAct() error {
	if armed, _ := s.Check(); !armed {
		return agent.ErrDisarmed
	}
	return nil
}

// armed is Armed without the reason.
func (s *armingState) armed() bool { return s.decision.Load().armed() }

// current returns the decision that holds now.
func (s *armingState) current() *armingDecision { return s.decision.Load() }

// waitArmed waits until the agent is armed; false if ctx ends before.
func (s *armingState) waitArmed(ctx context.Context) (armed bool) {
	for {
		now := s.current()
		if now.armed() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-now.superseded:
		}
	}
}

// onChange adds a function that is called after every change. It must be called before the
// first update.
func (s *armingState) onChange(f func()) { s.listeners = append(s.listeners, f) }

// update changes the inputs and decides again.
func (s *armingState) update(change func(*arming.Inputs)) {
	if !s.apply(change) {
		return
	}
	s.notifying.Lock()
	defer s.notifying.Unlock()
	for _, call := range s.listeners {
		call()
	}
}

// apply changes the inputs, decides and saves; it reports whether the decision is another.
func (s *armingState) apply(change func(*arming.Inputs)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.inputs)
	before := s.decision.Load()
	changed := s.decide()
	s.save(s.inputs.Memory)
	if now := s.decision.Load(); changed && now.Verdict != before.Verdict {
		s.log.Info("Changed the arming state", "state", now.State.String(), "reason", now.Reason, "previous", before.State.String())
	}
	return changed
}

// decide replaces the decision if it has changed. The lock is held.
func (s *armingState) decide() (changed bool) {
	verdict, before := s.inputs.Decide(), s.decision.Load()
	if verdict.State == arming.Armed {
		s.inputs.Acted = true
	}
	findings := s.inputs.Findings.Errors
	if before != nil && before.Verdict == verdict && before.file == s.inputs.File && slices.Equal(before.findings, findings) {
		return false
	}
	s.decision.Store(&armingDecision{Verdict: verdict, file: s.inputs.File, findings: findings, superseded: make(chan struct{})})
	if before != nil {
		close(before.superseded)
	}
	return true
}
