package reflector

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Health tracks whether the API server answers requests for one kind of object. It logs each change
// once. The first three fields must be set before its use.
type Health struct {
	What   string // the kind, in messages
	Failed string // the message of the log when requests begin to fail
	Log    *slog.Logger

	mu    sync.Mutex
	fault error
	since time.Time
}

// Observe records the result of a request within ctx. A request that the caller has cancelled is
// ignored: it shows nothing about the server.
func (h *Health) Observe(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch was := h.fault; {
	case err != nil && was == nil:
		h.since = time.Now()
		h.Log.Warn(h.Failed, "kind", h.What, "error", err)
	case err == nil && was != nil:
		h.Log.Info("Resumed requests to the API server", "kind", h.What, "after", time.Since(h.since).Round(time.Millisecond))
	}
	h.fault = err
}

// Err returns the error of the present outage, with its start, or nil without one.
func (h *Health) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault == nil {
		return nil
	}
	return fmt.Errorf("watch %s since %s: %w", h.What, h.since.Format(time.RFC3339), h.fault)
}
