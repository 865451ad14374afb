package heartbeat

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// beat renews one lease periodically.
type beat struct {
	renewer
	log   *slog.Logger
	count *counts
	// permit returns the error that forbids a renewal. ErrKubelet ends the beat, any other error
	// delays the renewal.
	permit func(context.Context) error
	// recheck replaces permit after another writer changed the lease.
	recheck func(context.Context) error
	claim   func() *claim
	// kick requests a renewal without delay. Nil: no such requests.
	kick <-chan struct{}

	lastTrouble string // kind of trouble that was logged last; empty: none
}

// run returns nil when ctx ends, or an error that wraps ErrKubelet.
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
		return delayedPeriod, nil
	default:
		b.count.delayed.Add(1)
		b.report("delayed", err)
		return delayedPeriod, nil
	}
	err = b.renew(ctx, b.claim(), b.recheck)
	switch {
	case errors.Is(err, ErrKubelet):
		return 0, err
	case err == nil:
		b.count.renewed.Add(1)
		b.report("", nil)
	case ctx.Err() == nil:
		b.count.failed.Add(1)
		b.report("failing", err)
	}
	return b.pause(err), nil
}

// report logs the first failure of a series, and the recovery.
func (b *beat) report(trouble string, err error) {
	switch {
	case trouble == b.lastTrouble:
	case trouble == "":
		b.log.Info("Resumed renewing the lease", "lease", b.what)
	default:
		b.log.Error("Failed to renew the lease", "lease", b.what, "reason", trouble, "error", err)
	}
	b.lastTrouble = trouble
}
