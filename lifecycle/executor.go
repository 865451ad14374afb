package lifecycle

import (
	"context"
	"slices"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
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
	open  map[*core.Action]bool // taken and not finished
	lines map[string][]*errand  // by node: writes to it, the one under way and those that wait for it
}

// workers is how many actions of a class are under way at once: enough to use the
// budget up with a server that takes a second for each answer.
var workers = [classes]int{protect: 32, evict: 32, repair: 16, tidy: 4}

func newExecutor(c *Controller) *executor {
	e := &executor{
		term: c.term, settings: &c.settings, parts: &c.parts, events: c.events,
		budget: c.budget, mail: c.mail, lock: c.lock, open: map[*core.Action]bool{}, lines: map[string][]*errand{},
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
func (e *executor) take(a *core.Action) {
	x := &errand{executor: e, Action: a, class: classOf(a), taken: time.Now()}
	e.open[a] = true
	if writesNode(a) {
		x.patience, x.hasten = context.WithCancel(e.ctx)
		line := e.lines[a.Node]
		e.lines[a.Node] = append(line, x)
		if len(line) > 0 {
			e.hurry(line[0], x.class)
			return
		}
	}
	e.backlogs[x.class].put(x)
}

// hurry has an errand go on as what waits for it would.
func (e *executor) hurry(x *errand, as class) {
	switch {
	case x.class <= as:
	case e.backlogs[x.class].remove(x):
		x.class = as
		e.backlogs[as].put(x)
	default:
		x.hasten()
	}
}

// writesNode: two such writes to one node at once would only get into each other's
// way, and the taint would come before its reason.
func writesNode(a *core.Action) bool {
	return a.Kind == core.Silence || a.Kind == core.Taint || a.Kind == core.ClearAgent
}

// close takes in that an action is finished, and begins what waited for it.
func (e *executor) close(a *core.Action) {
	delete(e.open, a)
	if !writesNode(a) {
		return
	}
	line := e.lines[a.Node]
	line[0].hasten() // nothing of it is to be freed later
	if line = line[1:]; len(line) == 0 {
		delete(e.lines, a.Node)
		return
	}
	e.lines[a.Node] = line
	for _, behind := range line[1:] {
		line[0].class = min(line[0].class, behind.class)
	}
	e.backlogs[line[0].class].put(line[0])
}

// classOf is how urgent an action is.
func classOf(a *core.Action) class {
	switch a.Kind {
	case core.Silence, core.ReadLease:
		return protect
	case core.Evict, core.SoftEvict:
		return evict
	case core.MarkNotReady:
		return repair
	case core.Taint:
		noExecute := func(t model.Taint) bool { return t.Effect == model.NoExecute }
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
		if x.Kind == core.ReadLease {
			at, err := x.readLease()
			e.mail.put(leaseRead{e, x.Action, at, err})
		} else if x.begin() {
			e.mail.put(finished{e, x.Action, deeds[x.Kind](x)})
		}
	}
}

// deeds are how actions are carried out.
var deeds = map[core.Kind]func(*errand) error{
	core.Silence:      (*errand).silence,
	core.Taint:        (*errand).taint,
	core.MarkNotReady: (*errand).markNotReady,
	core.Evict:        (*errand).evict,
	core.SoftEvict:    (*errand).softEvict,
	core.ClearAgent:   (*errand).clearAgent,
	core.ClearPod:     (*errand).clearPod,
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

// remove takes out an errand that nobody has begun, and reports whether it was one.
func (b *backlog) remove(x *errand) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.all, x)
	if i >= 0 {
		b.all = slices.Delete(b.all, i, i+1)
	}
	return i >= 0
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
