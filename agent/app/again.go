package app

import (
	"context"
	"time"
)

// again calls step at once and then every period, as long as it returns true.
// It reports whether step has ended it, and not ctx.
func repeat(ctx context.Context, period time.Duration, step func() (more bool)) (ended bool) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for step() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}
