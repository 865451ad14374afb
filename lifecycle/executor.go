package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/facts"
	"plimsoll.dev/plimsoll/lifecycle/fleet"
)

// An executor carries out actions during one term of leadership. Actions of one
// class begin in the order in which they were taken.
type executor struct {
	term   context.Context // of the leadership
	ctx    context.Context // ends with it, or by stop
	cancel context.CancelFunc
	wg     sync.WaitGroup

	settings *Settings
	parts    *Parts
	events   *events
	budget   *budget
	mail     *mailbox
	lock     *lock
	backlogs [classes]*backlog

	// Of the owner of the fleet.
	open   map[*fleet.Action]bool // taken and not finished
	behind map[string][]*errand   // by node: writes to it that wait for the one under way
}

// workers is how many actions of a class are under way at once: enough to use the
// budget up with a server that takes a second for each answer.
var workers = [classes]int{protect: 32, evict: 32, repair: 16, tidy: 4}

func newExecutor(c *Controller) *executor {
	e := &executor{
		term: c.term, settings: &c.settings, parts: &c.parts, events: c.events,
		budget: c.budget, mail: c.mail, lock: c.lock, open: map[*fleet.Action]bool{}, behind: map[string][]*errand{},
	}
	e.ctx, e.cancel = context.WithCancel(c.term)
	for class, n := range workers {
		e.backlogs[class] = newBacklog()
		for range n {
			e.wg.Go(func() { e.work(e.backlogs[class]) })
		}
	}
	return e
}

// stop ends what is under way and waits for its end, which no request holds up.
func (e *executor) stop() {
	e.cancel()
	e.wg.Wait()
}

// take takes an action over, and does not wait.
func (e *executor) take(a *fleet.Action) {
	x := &errand{executor: e, Action: a, class: classOf(a), taken: time.Now()}
	e.open[a] = true
	if writesNode(a) {
		waiting, busy := e.behind[a.Node]
		if busy {
			e.behind[a.Node] = append(waiting, x)
			return
		}
		e.behind[a.Node] = nil
	}
	e.backlogs[x.class].put(x)
}

// writesNode: two such writes to one node at once would only get into each other's
// way, and the taint would come before its reason.
func writesNode(a *fleet.Action) bool {
	return a.Kind == fleet.Silence || a.Kind == fleet.Taint || a.Kind == fleet.ClearAgent
}

// close takes in that an action is finished, and begins what waited for it.
func (e *executor) close(a *fleet.Action) {
	delete(e.open, a)
	if !writesNode(a) {
		return
	}
	if waiting := e.behind[a.Node]; len(waiting) > 0 {
		e.behind[a.Node] = waiting[1:]
		e.backlogs[waiting[0].class].put(waiting[0])
	} else {
		delete(e.behind, a.Node)
	}
}

// classOf is how urgent an action is.
func classOf(a *fleet.Action) class {
	switch a.Kind {
	case fleet.Silence, fleet.ReadLease:
		return protect
	case fleet.Evict, fleet.SoftEvict:
		return evict
	case fleet.MarkNotReady:
		return repair
	case fleet.Taint:
		noExecute := func(t facts.Taint) bool { return t.Effect == facts.NoExecute }
		switch {
		case len(a.Add) > 0, slices.ContainsFunc(a.Remove, noExecute): // which calls evictions off
			return protect
		case len(a.Remove) > 0:
			return repair
		}
	}
	return tidy
}

func (e *executor) work(b *backlog) {
	for {
		x, ok := b.next(e.ctx)
		if !ok {
			return
		}
		if x.Kind == fleet.ReadLease {
			at, err := x.readLease()
			e.mail.put(leaseRead{e, x.Action, at, err})
		} else if x.begin() {
			e.mail.put(finished{e, x.Action, deeds[x.Kind](x)})
		}
	}
}

// deeds are how actions are carried out.
var deeds = map[fleet.Kind]func(*errand) error{
	fleet.Silence:      (*errand).silence,
	fleet.Taint:        (*errand).taint,
	fleet.MarkNotReady: (*errand).markNotReady,
	fleet.Evict:        (*errand).evict,
	fleet.SoftEvict:    (*errand).softEvict,
	fleet.ClearAgent:   (*errand).clearAgent,
}

// An errand is an action that is being carried out.
type errand struct {
	*executor
	*fleet.Action
	class   class
	taken   time.Time
	waited  time.Duration // for the turn that is paid
	paid    bool          // the next request has its turn already
	begun   bool          // it had a turn
	sure    bool          // it was asked whether it is wanted, and nothing was sent since
	version string        // of the node when the errand began
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
		return cmp.Or(x.ctx.Err(), fleet.ErrOvertaken)
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
	if err := x.budget.turn(x.ctx, rankOf(x.class, x.begun)); err != nil {
		return err
	}
	x.waited, x.paid, x.begun = time.Since(began), true, true
	return nil
}

// errNotLeading is why nothing more is written by a process that was held up for
// longer than its leadership is sure.
var errNotLeading = errors.New("the leadership was not renewed in time: nothing is written")

// object is the node that the action is about, as it was seen last; one without
// anything where there was none.
func (x *errand) object() *facts.Node {
	if x.Action.Object == nil {
		return &facts.Node{Name: x.Node}
	}
	return x.Action.Object
}

// A backlog holds errands that nobody has begun yet.
type backlog struct {
	mu   sync.Mutex
	all  []*errand
	some chan struct{} // has a token while there are any
}

func newBacklog() *backlog { return &backlog{some: make(chan struct{}, 1)} }

func (b *backlog) put(x *errand) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, x)
	b.signal()
}

// signal is called by who holds mu.
func (b *backlog) signal() {
	select {
	case b.some <- struct{}{}:
	default:
	}
}

// next takes the oldest errand out, and waits for one.
func (b *backlog) next(ctx context.Context) (*errand, bool) {
	for {
		select {
		case <-ctx.Done():
			return nil, false
		case <-b.some:
		}
		if x := b.pop(); x != nil && ctx.Err() == nil {
			return x, true
		}
	}
}

func (b *backlog) pop() *errand {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == 0 {
		return nil
	}
	x := b.all[0]
	b.all[0], b.all = nil, b.all[1:]
	if len(b.all) > 0 {
		b.signal()
	}
	return x
}
