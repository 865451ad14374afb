package lifecycle

import (
	"context"
	"slices"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// executor carries out actions during one term of leadership. Actions of one class start in the
// order in which they were added.
type executor struct {
	term   *term
	cancel context.CancelFunc // of all tasks
	wg     sync.WaitGroup

	settings *Settings
	parts    *Parts
	events   *events
	budget   *budget
	inbox    *inbox
	lock     *lock
	backlogs [classes]*backlog

	// Of the owner of the fleet.
	open   map[*core.Action]bool // added and not finished
	queues map[string][]*task    // by node: the write to it in progress, and those that wait for it
}

// workers is the number of concurrent actions of a class. It is enough to use the whole budget
// with a server that takes a second for each answer.
var workers = [classes]int{protect: 32, evict: 32, repair: 16, tidy: 4}

// newExecutor starts an executor. Its tasks end with ctx, with the present term, or by
// stop.
func newExecutor(ctx context.Context, c *Controller) *executor {
	e := &executor{
		term: c.term, settings: &c.settings, parts: &c.parts, events: c.events,
		budget: c.budget, inbox: c.inbox, lock: c.lock, open: map[*core.Action]bool{}, queues: map[string][]*task{},
	}
	ctx, e.cancel = context.WithCancel(ctx)
	e.wg.Go(func() { e.endWithTerm(ctx) })
	for class, n := range workers {
		e.backlogs[class] = newBacklog()
		for range n {
			e.wg.Go(func() { e.work(ctx, e.backlogs[class]) })
		}
	}
	return e
}

// endWithTerm ends all tasks as soon as the leadership is lost.
func (e *executor) endWithTerm(ctx context.Context) {
	select {
	case <-e.term.ended:
		e.cancel()
	case <-ctx.Done():
	}
}

// stop ends all tasks and waits for that. No request delays it.
func (e *executor) stop() {
	e.cancel()
	e.wg.Wait()
}

// add adds an action, and does not block.
func (e *executor) add(a *core.Action) {
	t := &task{executor: e, Action: a, class: classOf(a), added: time.Now()}
	e.open[a] = true
	if writesNode(a) {
		t.urgent = make(chan struct{})
		line := e.queues[a.Node]
		e.queues[a.Node] = append(line, t)
		if len(line) > 0 {
			e.expedite(line[0], t.class)
			return
		}
	}
	e.backlogs[t.class].put(t)
}

// expedite moves a task to the class of a task that waits for it.
func (e *executor) expedite(t *task, as class) {
	switch {
	case t.class <= as:
	case e.backlogs[t.class].remove(t):
		t.class = as
		e.backlogs[as].put(t)
	default:
		t.expedite()
	}
}

// writesNode reports whether an action writes to a node. Such writes to one node run
// one after the other: at once they would conflict, and the taint would precede its
// reason.
func writesNode(a *core.Action) bool {
	return a.Kind == core.MarkUnknown || a.Kind == core.Taint || a.Kind == core.CleanUpAgent
}

// close removes a finished action, and starts the task that waited for it.
func (e *executor) close(a *core.Action) {
	delete(e.open, a)
	if !writesNode(a) {
		return
	}
	line := e.queues[a.Node][1:]
	if len(line) == 0 {
		delete(e.queues, a.Node)
		return
	}
	e.queues[a.Node] = line
	for _, behind := range line[1:] {
		line[0].class = min(line[0].class, behind.class)
	}
	e.backlogs[line[0].class].put(line[0])
}

// classOf returns the urgency of an action.
func classOf(a *core.Action) class {
	switch a.Kind {
	case core.MarkUnknown, core.ReadLease:
		return protect
	case core.Evict, core.SoftEvict:
		return evict
	case core.MarkNotReady:
		return repair
	case core.Taint:
		noExecute := func(t model.Taint) bool { return t.Effect == model.NoExecute }
		switch {
		case len(a.Add) > 0, slices.ContainsFunc(a.Remove, noExecute): // which cancels evictions
			return protect
		case len(a.Remove) > 0:
			return repair
		}
	}
	return tidy
}

// work carries out the tasks of a backlog until ctx ends.
func (e *executor) work(ctx context.Context, b *backlog) {
	for {
		t, ok := b.next(ctx)
		if !ok {
			return
		}
		if t.Kind == core.ReadLease {
			at, err := t.readLease(ctx)
			e.inbox.put(leaseRead{e, t.Action, at, err})
		} else if t.begin(ctx) {
			e.inbox.put(finished{e, t.Action, taskFuncs[t.Kind](t, ctx)})
		}
	}
}

// taskFuncs carry out the kinds of actions.
var taskFuncs = map[core.Kind]func(*task, context.Context) error{
	core.MarkUnknown:      (*task).markUnknown,
	core.Taint:            (*task).taint,
	core.MarkNotReady:     (*task).markNotReady,
	core.Evict:            (*task).evict,
	core.SoftEvict:        (*task).softEvict,
	core.CleanUpAgent:     (*task).cleanUpAgent,
	core.DeleteEvictedPod: (*task).deleteEvictedPod,
}

// backlog holds tasks that no worker has started yet.
type backlog struct {
	mu   sync.Mutex
	all  []*task
	some chan struct{} // has a token while there are tasks
}

func newBacklog() *backlog { return &backlog{some: make(chan struct{}, 1)} }

func (b *backlog) put(t *task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, t)
	b.signal()
}

// signal wakes a worker. The caller holds mu.
func (b *backlog) signal() {
	select {
	case b.some <- struct{}{}:
	default:
	}
}

// next removes the oldest task, and waits for one. ok is false when ctx has ended.
func (b *backlog) next(ctx context.Context) (*task, bool) {
	for {
		select {
		case <-ctx.Done():
			return nil, false
		case <-b.some:
		}
		if t := b.pop(); t != nil && ctx.Err() == nil {
			return t, true
		}
	}
}

// remove removes a task, and reports whether no worker had started it.
func (b *backlog) remove(t *task) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.all, t)
	if i >= 0 {
		b.all = slices.Delete(b.all, i, i+1)
	}
	return i >= 0
}

func (b *backlog) pop() *task {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == 0 {
		return nil
	}
	t := b.all[0]
	b.all[0], b.all = nil, b.all[1:]
	if len(b.all) > 0 {
		b.signal()
	}
	return t
}
