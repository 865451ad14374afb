package nodestatus

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// A beat renews one lease again and again.
type beat struct {
	renewer
	log   *slog.Logger
	count *counts
	// permit says what speaks against a renewal. An error of [ErrKubelet] ends
	// the beat, any other one holds it back.
	permit func(context.Context) error
	// doubt is permit after somebody else wrote to the lease.
	doubt func(context.Context) error
	claim func() *claim
	// kick asks for a renewal now; nil: nobody does.
	kick <-chan struct{}

	told string // what kind of trouble was told of last; empty: none
}

// run returns nil when ctx ends, or an error of ErrKubelet.
func (b *beat) run(ctx context.Context) error {
	for {
		wait, err := b.once(ctx)
		if err != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-b.kick:
			timer.Stop()
		case <-timer.C:
		}
	}
}

func (b *beat) once(ctx context.Context) (wait time.Duration, err error) {
	switch err := b.permit(ctx); {
	case err == nil:
	case errors.Is(err, ErrKubelet):
		return 0, err
	case errors.Is(err, errNotYet):
		return heldBackPeriod, nil
	default:
		b.count.heldBack.Add(1)
		b.tell("held back", err)
		return heldBackPeriod, nil
	}
	err = b.renew(ctx, b.claim(), b.doubt)
	switch {
	case errors.Is(err, ErrKubelet):
		return 0, err
	case err == nil:
		b.count.renewed.Add(1)
		b.tell("", nil)
	case ctx.Err() == nil:
		b.count.failed.Add(1)
		b.tell("failing", err)
	}
	return b.pause(err), nil
}

// tell logs the first of a row.
func (b *beat) tell(trouble string, err error) {
	switch {
	case trouble == b.told:
	case trouble == "":
		b.log.Info("the lease is renewed again", "lease", b.what)
	default:
		b.log.Error("the lease is not renewed", "lease", b.what, "why", trouble, "error", err)
	}
	b.told = trouble
}
