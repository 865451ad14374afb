package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// An task is an action that is being carried out.
type task struct {
	*executor
	*core.Action
	class   class
	added   time.Time
	waited  time.Duration // for the turn that is paid
	paid    bool          // the next request has its turn already
	begun   bool          // it had a turn
	granted bool          // it was asked whether it is wanted, and nothing was sent since
	version string        // of the node when the errand began
	// urgent is closed when something more urgent waits for this. Of writes to nodes;
	// nil for others.
	urgent    chan struct{}
	expedited bool // urgent is closed; of the owner of the fleet
}

// begin waits for the first request's turn, and asks only then whether the action
// still is to be: hours may have passed since it was decided.
func (t *task) begin(ctx context.Context) (wanted bool) {
	if t.await(ctx) != nil {
		return false
	}
	p := t.ask(ctx, false)
	t.version = p.version
	return p.granted
}

// confirm asks once more before a request that can not be undone: minutes may have
// passed between two turns, and the pod's node may be back.
func (t *task) confirm(ctx context.Context) error {
	if t.granted {
		return nil
	}
	if err := t.await(ctx); err != nil {
		return err
	}
	if p := t.ask(ctx, true); !p.granted {
		return cmp.Or(ctx.Err(), core.ErrObsolete)
	}
	return nil
}

// expedite has a task that is under way go before others.
func (t *task) expedite() {
	if !t.expedited {
		t.expedited = true
		close(t.urgent)
	}
}

// ask asks the owner of the fleet, on a turn that is given back if the answer is no.
func (t *task) ask(ctx context.Context, again bool) (p permission) {
	answer := make(chan permission, 1)
	t.inbox.put(asked{by: t.executor, action: t.Action, again: again, answer: answer})
	select {
	case p = <-answer:
	case <-ctx.Done():
	}
	if t.granted = p.granted; !p.granted {
		t.paid = false
		t.budget.putBack()
	}
	return p
}

// await waits for the turn of one request, unless there is one.
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

// queue waits for a turn, and goes before others as soon as something waits for it
// that does.
func (t *task) queue(ctx context.Context) error {
	taken, err := t.budget.takeUnless(ctx, rankOf(t.class, t.begun), t.urgent)
	if taken || err != nil {
		return err
	}
	return t.budget.take(ctx, rankOf(protect, t.begun))
}

// errNotLeading is why nothing more is written by a process that was held up for
// longer than its leadership is sure.
var errNotLeading = errors.New("the leadership was not renewed in time: nothing is written")

// object is the node that the action is about, as it was seen last; one without
// anything where there was none.
func (t *task) object() *model.Node {
	if t.Action.Object == nil {
		return &model.Node{Name: t.Node}
	}
	return t.Action.Object
}
