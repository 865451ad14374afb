package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// An errand is an action that is being carried out.
type errand struct {
	*executor
	*core.Action
	class  class
	taken  time.Time
	waited time.Duration // for the turn that is paid
	paid   bool          // the next request has its turn already
	begun  bool          // it had a turn
	// patience ends when something more urgent waits for this, by hasten. Of writes to
	// nodes.
	patience context.Context
	hasten   context.CancelFunc
	sure     bool   // it was asked whether it is wanted, and nothing was sent since
	version  string // of the node when the errand began
}

// begin waits for the first request's turn, and asks only then whether the action
// still is to be: hours may have passed since it was decided.
func (x *errand) begin() (wanted bool) {
	if x.await() != nil {
		return false
	}
	p := x.ask(false)
	x.version = p.version
	return p.granted
}

// confirm asks once more before a request that can not be undone: minutes may have
// passed between two turns, and the pod's node may be back.
func (x *errand) confirm() error {
	if x.sure {
		return nil
	}
	if err := x.await(); err != nil {
		return err
	}
	if p := x.ask(true); !p.granted {
		return cmp.Or(x.ctx.Err(), core.ErrOvertaken)
	}
	return nil
}

// ask asks the owner of the fleet, on a turn that is given back if the answer is no.
func (x *errand) ask(again bool) (p permission) {
	answer := make(chan permission, 1)
	x.mail.put(asked{by: x.executor, action: x.Action, again: again, answer: answer})
	select {
	case p = <-answer:
	case <-x.ctx.Done():
	}
	if x.sure = p.granted; !p.granted {
		x.paid = false
		x.budget.giveBack()
	}
	return p
}

// await waits for the turn of one request, unless there is one.
func (x *errand) await() error {
	if x.paid {
		return nil
	}
	began := time.Now()
	if err := x.queue(); err != nil {
		return err
	}
	x.waited, x.paid, x.begun = time.Since(began), true, true
	return nil
}

// queue waits for a turn, and goes before others as soon as something waits for it
// that does.
func (x *errand) queue() error {
	if x.patience == nil {
		return x.budget.turn(x.ctx, rankOf(x.class, x.begun))
	}
	err := x.budget.turn(x.patience, rankOf(x.class, x.begun))
	if err == nil || x.ctx.Err() != nil {
		return err
	}
	return x.budget.turn(x.ctx, rankOf(protect, x.begun))
}

// errNotLeading is why nothing more is written by a process that was held up for
// longer than its leadership is sure.
var errNotLeading = errors.New("the leadership was not renewed in time: nothing is written")

// object is the node that the action is about, as it was seen last; one without
// anything where there was none.
func (x *errand) object() *model.Node {
	if x.Action.Object == nil {
		return &model.Node{Name: x.Node}
	}
	return x.Action.Object
}
