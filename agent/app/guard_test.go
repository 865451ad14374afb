package app

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/arming/disarmfile"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/evict"
	"plimsoll.dev/plimsoll/internal/gc"
	"plimsoll.dev/plimsoll/internal/kill"
)

// A removing runtime counts what it is told to end or to remove.
type removing struct {
	gc.Runtime // nil: nothing else is asked
	removed    int
}

func (r *removing) note() error {
	r.removed++
	return nil
}

func (r *removing) Sandboxes(context.Context) ([]cri.Sandbox, error)           { return nil, r.note() }
func (r *removing) StopContainer(context.Context, string, time.Duration) error { return r.note() }
func (r *removing) RemoveContainer(context.Context, string) error              { return r.note() }
func (r *removing) StopSandbox(context.Context, string) error                  { return r.note() }
func (r *removing) RemoveSandbox(context.Context, string) error                { return r.note() }
func (r *removing) RemoveImage(context.Context, string) error                  { return r.note() }
func (r *removing) Images(context.Context) ([]cri.Image, error)                { return nil, nil }
func (r *removing) ContainerStatus(context.Context, string) (cri.ContainerStatus, error) {
	return cri.ContainerStatus{}, nil
}

// Nobody has noticed the file but who is about to act.
func TestNothingIsRemovedOnceTheFileIsThere(t *testing.T) {
	file := disarmfile.File(filepath.Join(t.TempDir(), "disarm"))
	inner := &removing{}
	g := guardedRuntime{inner, spokenTo(file, false)}
	acts := []func() error{
		func() error { _, err := g.Sandboxes(t.Context()); return err },
		func() error { return g.StopContainer(t.Context(), "c", 0) },
		func() error { return g.RemoveContainer(t.Context(), "c") },
		func() error { return g.StopSandbox(t.Context(), "s") },
		func() error { return g.RemoveSandbox(t.Context(), "s") },
		func() error { return g.RemoveImage(t.Context(), "i") },
	}
	for i, act := range acts {
		if err := act(); err != nil || inner.removed != i+1 {
			t.Errorf("armed: %v, %d done", err, inner.removed)
		}
	}
	if err := file.Create("by a test"); err != nil {
		t.Fatal(err)
	}
	for _, act := range acts {
		if err := act(); !errors.Is(err, agent.ErrDisarmed) {
			t.Errorf("disarmed: %v", err)
		}
	}
	if inner.removed != len(acts) {
		t.Errorf("%d done, %d of them disarmed", inner.removed, inner.removed-len(acts))
	}
	v := &victim{check: g.arming.check, killer: &kill.Killer{}} // a killer that was not made kills by a panic
	if ended, err := v.Kill(t.Context()); !errors.Is(err, agent.ErrDisarmed) || ended != (evict.Ended{}) {
		t.Errorf("%+v, %v", ended, err)
	}
	if _, err := v.End(t.Context(), time.Second, nil); !errors.Is(err, agent.ErrDisarmed) {
		t.Errorf("%v", err)
	}
}

// The neighbour is looked at once a minute, a word is heard at once.
func TestCollectingEndsAtOnceWhenDisarmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config.NewAgent()
		c.Reclaim = "on"
		log := slog.New(slog.DiscardHandler)
		collecting := &garbageCollector{arming: flagged(false), kubelet: &kubeletDetector{config: c, log: log}, log: log}
		begun := time.Now()
		time.AfterFunc(time.Second, func() {
			collecting.arming.update(func(w *arming.Words) { w.Hear(arming.Voice{Word: "disarmed"}, arming.Voice{}) })
		})
		if !collecting.awaitEnabled(t.Context(), true) || time.Since(begun) > 0 {
			t.Errorf("begun after %s", time.Since(begun))
		}
		if !collecting.awaitEnabled(t.Context(), false) || time.Since(begun) != time.Second {
			t.Errorf("ended after %s", time.Since(begun))
		}
	})
}
