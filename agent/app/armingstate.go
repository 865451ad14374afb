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

// A safety is what keeps the agent from acting, like a weapon's. It implements
// agent.Arming. All methods may be called by any goroutine; Armed and Check wait
// for nobody as long as nothing has changed.
type armingState struct {
	file     disarmfile.File
	log      *slog.Logger
	decision atomic.Pointer[armingDecision]

	mu        sync.Mutex // of what follows
	inputs    arming.Words
	save      func(arming.Memory)
	listeners []func() // of every change; they must not wait

	notifying sync.Mutex // one after the other, so that the last one tells of what holds
}

// A standing is what holds until the next one.
type armingDecision struct {
	arming.Verdict
	file       arming.File
	findings   []string
	superseded chan struct{} // closed when it does not hold any more
}

func (s *armingDecision) armed() bool { return s.State == arming.Armed }

// newSafety weighs what is known at the start: the flag, the file, and what was
// remembered. save is handed what has to survive a restart.
func newArmingState(file disarmfile.File, dryRun bool, remembered arming.Memory, save func(arming.Memory), log *slog.Logger) *armingState {
	s := &armingState{file: file, log: log, save: save, inputs: arming.Words{Memory: remembered, DryRun: dryRun, File: file.State()}}
	s.decide()
	return s
}

// Armed implements agent.Arming.
func (s *armingState) Armed() (armed bool, why string) {
	now := s.decision.Load()
	return now.armed(), now.Reason
}

// Check implements agent.Arming. What counts is a look that nobody can overtake:
// one that is older than another's would bring back what is not so any more.
func (s *armingState) Check() (armed bool, why string) {
	if s.file.State() != s.decision.Load().file {
		s.update(func(w *arming.Words) { w.File = s.file.State() })
	}
	return s.Armed()
}

// may is Check for whoever is about to do something that can not be undone.
func (s *armingState) mayAct() error {
	if armed, _ := s.Check(); !armed {
		return agent.ErrDisarmed
	}
	return nil
}

// acts is Armed alone.
func (s *armingState) armed() bool { return s.decision.Load().armed() }

// holds is what holds now, and a channel that is closed when it does no more.
func (s *armingState) current() *armingDecision { return s.decision.Load() }

// wait returns when the agent is armed, or false when ctx ends before.
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

// onChange has f called after every change. To be called before anybody says
// anything.
func (s *armingState) onChange(f func()) { s.listeners = append(s.listeners, f) }

// say changes what is said, and weighs it all anew.
func (s *armingState) update(change func(*arming.Words)) {
	if !s.apply(change) {
		return
	}
	s.notifying.Lock()
	defer s.notifying.Unlock()
	for _, tell := range s.listeners {
		tell()
	}
}

// heard reports whether something else holds than before.
func (s *armingState) apply(change func(*arming.Words)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.inputs)
	before := s.decision.Load()
	changed := s.decide()
	s.save(s.inputs.Memory)
	if now := s.decision.Load(); changed && now.Verdict != before.Verdict {
		s.log.Info("now "+now.State.String(), "why", now.Reason, "before", before.State.String())
	}
	return changed
}

// weigh puts a new standing in place if there is one. The lock is held.
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
