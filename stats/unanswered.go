package stats

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/internal/backoff"
)

// unansweredPause is the pause of regular requests after a runtime has not answered in time. The runtime
// completes abandoned requests too: the next one at once would be slower still, and finally no container
// could be started or ended. containerd has nothing new for 10 s in any case.
var unansweredPause = backoff.Bounds{Min: 10 * time.Second, Max: time.Minute}

// unanswered is the state after requests to the runtime without an answer in time.
type unanswered struct {
	count int       // successive requests without an answer
	until time.Time // end of the pause
	err   error     // of the last request
}

// paused returns the error of the last request during the pause, otherwise nil.
func (u *unanswered) paused() error {
	if time.Now().Before(u.until) {
		return u.err
	}
	return nil
}

// note updates the state after a request with a bounded wait within ctx, and returns the request's error. It
// contains the pause, if one follows.
func (u *unanswered) note(ctx, bounded context.Context, err error) error {
	if err == nil || bounded.Err() == nil || ctx.Err() != nil {
		*u = unanswered{}
		return err
	}
	u.count++
	pause := unansweredPause.After(u.count)
	u.until, u.err = time.Now().Add(pause), fmt.Errorf("%w: the next request follows after %s", err, pause)
	return u.err
}
