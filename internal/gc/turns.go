package gc

import (
	"context"
	"errors"
	"sync"
)

// turns let one collection run at a time. Free has priority over periodic rounds.
type turns struct {
	token chan struct{} // contains one value while no collection runs

	mu      sync.Mutex
	waiting int                     // waiting Free calls
	giveWay context.CancelCauseFunc // cancels the current round, nil without one
}

// errGaveWay ends a round in favour of Free.
var errGaveWay = errors.New("the round was interrupted by collection under pressure")

func newTurns() *turns {
	t := &turns{token: make(chan struct{}, 1)}
	t.token <- struct{}{}
	return t
}

// round runs a periodic round when it is its turn. The round's context ends with [errGaveWay] when
// Free is called; the next round continues.
func (t *turns) round(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := t.take(ctx); err != nil {
		return err
	}
	defer t.pass()
	if !t.enter(cancel) {
		return errGaveWay
	}
	defer t.leave()
	err := work(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (t *turns) enter(giveWay context.CancelCauseFunc) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting > 0 {
		return false
	}
	t.giveWay = giveWay
	return true
}

func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.giveWay = nil
}

// relief waits for the turn, which lasts until pass is called.
func (t *turns) relief(ctx context.Context) error {
	t.want(1)
	defer t.want(-1)
	return t.take(ctx)
}

func (t *turns) want(change int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting += change; t.waiting > 0 && t.giveWay != nil {
		t.giveWay(errGaveWay)
	}
}

func (t *turns) take(ctx context.Context) error {
	select {
	case <-t.token:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *turns) pass() { t.token <- struct{}{} }
