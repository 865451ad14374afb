package app

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/arming/disarmfile"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/gc"
)

// A safety is what keeps the agent from acting, like a weapon's. It implements
// agent.Arming. All methods may be called by any goroutine; Armed and Check wait
// for nobody as long as nothing has changed.
type safety struct {
	file disarmfile.File
	log  *slog.Logger
	now  atomic.Pointer[standing]

	mu    sync.Mutex // of what follows
	words arming.Words
	save  func(arming.Memory)
	told  []func() // of every change; they must not wait

	telling sync.Mutex // one after the other, so that the last one tells of what holds
}

// A standing is what holds until the next one.
type standing struct {
	arming.Verdict
	file     arming.File
	findings []string
	next     chan struct{} // closed when it does not hold any more
}

func (s *standing) armed() bool { return s.State == arming.Armed }

// newSafety weighs what is known at the start: the flag, the file, and what was
// remembered. save is handed what has to survive a restart.
func newSafety(file disarmfile.File, dryRun bool, remembered arming.Memory, save func(arming.Memory), log *slog.Logger) *safety {
	s := &safety{file: file, log: log, save: save, words: arming.Words{Memory: remembered, DryRun: dryRun, File: file.State()}}
	s.weigh()
	return s
}

// Armed implements agent.Arming.
func (s *safety) Armed() (armed bool, why string) {
	now := s.now.Load()
	return now.armed(), now.Reason
}

// Check implements agent.Arming. What counts is a look that nobody can overtake:
// one that is older than another's would bring back what is not so any more.
func (s *safety) Check() (armed bool, why string) {
	if s.file.State() != s.now.Load().file {
		s.say(func(w *arming.Words) { w.File = s.file.State() })
	}
	return s.Armed()
}

// may is Check for whoever is about to do something that can not be undone.
func (s *safety) may() error {
	if armed, _ := s.Check(); !armed {
		return agent.ErrDisarmed
	}
	return nil
}

// acts is Armed alone.
func (s *safety) acts() bool { return s.now.Load().armed() }

// holds is what holds now, and a channel that is closed when it does no more.
func (s *safety) holds() *standing { return s.now.Load() }

// wait returns when the agent is armed, or false when ctx ends before.
func (s *safety) wait(ctx context.Context) (armed bool) {
	for {
		now := s.holds()
		if now.armed() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-now.next:
		}
	}
}

// onChange has f called after every change. To be called before anybody says
// anything.
func (s *safety) onChange(f func()) { s.told = append(s.told, f) }

// say changes what is said, and weighs it all anew.
func (s *safety) say(change func(*arming.Words)) {
	if !s.heard(change) {
		return
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	for _, tell := range s.told {
		tell()
	}
}

// heard reports whether something else holds than before.
func (s *safety) heard(change func(*arming.Words)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.words)
	before := s.now.Load()
	changed := s.weigh()
	s.save(s.words.Memory)
	if now := s.now.Load(); changed && now.Verdict != before.Verdict {
		s.log.Info("now "+now.State.String(), "why", now.Reason, "before", before.State.String())
	}
	return changed
}

// weigh puts a new standing in place if there is one. The lock is held.
func (s *safety) weigh() (changed bool) {
	verdict, before := s.words.Decide(), s.now.Load()
	if verdict.State == arming.Armed {
		s.words.Acted = true
	}
	findings := s.words.Findings.Errors
	if before != nil && before.Verdict == verdict && before.file == s.words.File && slices.Equal(before.findings, findings) {
		return false
	}
	s.now.Store(&standing{Verdict: verdict, file: s.words.File, findings: findings, next: make(chan struct{})})
	if before != nil {
		close(before.next)
	}
	return true
}

// A guardedRuntime removes nothing for an agent that may not act. What is asked
// for at the start of each round is refused, too, so that the round ends there.
type guardedRuntime struct {
	gc.Runtime
	safety *safety
}

func (g guardedRuntime) Sandboxes(ctx context.Context) ([]cri.Sandbox, error) {
	if err := g.safety.may(); err != nil {
		return nil, err
	}
	return g.Runtime.Sandboxes(ctx)
}

func (g guardedRuntime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	return g.unless(func() error { return g.Runtime.StopContainer(ctx, id, grace) })
}

func (g guardedRuntime) RemoveContainer(ctx context.Context, id string) error {
	return g.unless(func() error { return g.Runtime.RemoveContainer(ctx, id) })
}

func (g guardedRuntime) StopSandbox(ctx context.Context, id string) error {
	return g.unless(func() error { return g.Runtime.StopSandbox(ctx, id) })
}

func (g guardedRuntime) RemoveSandbox(ctx context.Context, id string) error {
	return g.unless(func() error { return g.Runtime.RemoveSandbox(ctx, id) })
}

func (g guardedRuntime) RemoveImage(ctx context.Context, id string) error {
	return g.unless(func() error { return g.Runtime.RemoveImage(ctx, id) })
}

// unless does something that can not be undone, unless the agent is disarmed.
func (g guardedRuntime) unless(do func() error) error {
	if err := g.safety.may(); err != nil {
		return err
	}
	return do()
}
