package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// task is an action in execution.
type task struct {
	*executor
	*core.Action
	class   class
	added   time.Time
	waited  time.Duration // for the latest turn
	paid    bool          // the next request has its turn
	begun   bool          // it had a turn
	granted bool          // the owner confirmed that it is wanted, and nothing was sent since
	version string        // of the node when the task began
	// urgent is closed when a more urgent task waits for this one; nil except for writes
	// to nodes.
	urgent    chan struct{}
	expedited bool // urgent is closed; of the owner of the fleet
}

// begin waits for the turn of the first request, and only then checks whether the action is still
// wanted: hours may have passed since the decision.
func (t *task) begin(ctx context.Context) (wanted bool) {
	if t.await(ctx) != nil {
		return false
	}
	p := t.checkWanted(ctx, false)
	t.version = p.version
	return p.granted
}

// confirm repeats that check before an irreversible request. Minutes may have passed between two
// turns, and the pod's node may be back.
func (t *task) confirm(ctx context.Context) error {
	if t.granted {
		return nil
	}
	if err := t.await(ctx); err != nil {
		return err
	}
	if p := t.checkWanted(ctx, true); !p.granted {
		return cmp.Or(ctx.Err(), core.ErrObsolete)
	}
	return nil
}

// expedite moves a running task ahead of others. It is called by the owner of the fleet.
func (t *task) expedite() {
	if !t.expedited {
		t.expedited = true
		close(t.urgent)
	}
}

// checkWanted queries the owner of the fleet, on a turn that it returns if the action is not
// wanted.
func (t *task) checkWanted(ctx context.Context, again bool) (p permission) {
	answer := make(chan permission, 1)
	t.inbox.put(wantedQuery{by: t.executor, action: t.Action, again: again, answer: answer})
	select {
	case p = <-answer:
	case <-ctx.Done():
	}
	if t.granted = p.granted; !p.granted {
		t.paid = false
		t.budget.release()
	}
	return p
}

// await waits for the turn of one request, unless the task has one.
func (t *task) await(ctx context.Context) error {
	if t.paid {
		return nil
	}
	began := time.Now()
	if err := t.queue(ctx); err != nil {
		return err
	}
	t.waited, t.paid, t.begun = time.Since(began), true, true
	return nil
}

// queue waits for a turn, with the highest rank once something urgent waits for the
// task.
func (t *task) queue(ctx context.Context) error {
	acquired, err := t.budget.acquireUnless(ctx, rankOf(t.class, t.begun), t.urgent)
	if acquired || err != nil {
		return err
	}
	return t.budget.acquire(ctx, rankOf(protect, t.begun))
}

// errNotLeading ends a write of a process that was stopped for longer than its
// leadership is certain.
var errNotLeading = errors.New("the leadership was not renewed in time: nothing is written")

// object returns the latest observation of the action's node; without one, a node with
// only the name.
func (t *task) object() *model.Node {
	if t.Action.Object == nil {
		return &model.Node{Name: t.Node}
	}
	return t.Action.Object
}
