package podstatus

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
)

// Options are what a Teller can do without.
type Options struct {
	// Running lists the runtime's IDs of the containers of a pod, by UID, that run
	// on this node now. What the API server knows is as old as the kubelet's last
	// word, which says nothing while the server is away: without Running, a late
	// status can be told of a pod that has just started again. An error puts the
	// status off.
	Running func(ctx context.Context, uid string) ([]string, error)
}

// A Reporter tells the API server of evicted pods. Its methods may be called at
// the same time.
type Reporter struct {
	client  kubernetes.Interface
	node    string
	log     *slog.Logger
	store   func([]PendingStatus)
	options Options

	wake chan struct{}

	mu     sync.Mutex
	ledger queue
	// complained: the lack of a right was said, by what it is for.
	complained map[string]bool
	// unconfirmed are statuses that were told lately, by the pod's UID.
	unconfirmed map[string]confirmation
	// repairs are those of pods that lost their reason, by the pod's UID.
	repairs map[string]repair
}

// New makes a Teller. The client must be one that speaks to a server, without a
// limit of its own on requests per second: the kill waits behind it. store is
// handed all debts whenever they change; it must not wait, call back, or change
// them.
func New(client kubernetes.Interface, node string, log *slog.Logger, store func([]PendingStatus), options Options) *Reporter {
	return &Reporter{
		client: client, node: node, log: log, store: store, options: options,
		wake:       make(chan struct{}, 1),
		complained: map[string]bool{}, unconfirmed: map[string]confirmation{}, repairs: map[string]repair{},
	}
}

// Enqueue enters what will be owed of a pod that is about to be killed, and hands
// it to the store. Nothing is sent: that is for Evicted, and for Run once
// Killed or Spared was called, or 5 s have passed.
func (t *Reporter) Enqueue(n Notice) {
	t.enter(&entry{debt: PendingStatus{Notice: n, Status: true, Event: true}, due: time.Now().Add(killTime)})
}

// Announce owes the event alone: of a pod that others end, after a soft
// eviction was accepted.
func (t *Reporter) Announce(n Notice) {
	t.enter(&entry{debt: PendingStatus{Notice: n, Ended: true, Event: true}})
}

func (t *Reporter) enter(e *entry) {
	e.debt = e.debt.clone()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !e.debt.Notice.complete() || t.ledger.find(e.debt.Notice.identity()) != nil {
		return
	}
	superseded, dropped := t.ledger.add(e)
	for _, s := range superseded {
		t.log.Info("the status of an evicted pod is not told any more: the pod was evicted again", about(&s.debt)...)
	}
	for _, d := range dropped {
		t.log.Error("too many evictions are untold: the oldest is given up", about(&d.debt)...)
	}
	t.changed()
}

// changed lets go of what is settled, hands the rest to the store, and has Run
// look. The lock is held, so that the store gets the states in their order.
func (t *Reporter) changed() {
	t.ledger.forget()
	t.store(t.ledger.outstanding())
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Commit says that the kill of the pod that was owed last under this UID has
// happened: what is still owed is collected.
func (t *Reporter) Commit(uid string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over(uid, func(e *entry) { e.debt.Ended = true })
}

// Cancel says that the pod was not killed after all: the debt is cancelled,
// unless the status was told. Then the event explains what a kubelet may make
// of it: it takes the status back, which is right, or ends the pod.
func (t *Reporter) Cancel(uid string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.unconfirmed, uid)
	t.over(uid, func(e *entry) { e.spared = true })
}

// over notes how a kill ended. The lock is held.
func (t *Reporter) over(uid string, note func(*entry)) {
	if e := t.ledger.latest(uid); e != nil && !e.debt.Ended && !e.spared {
		note(e)
		e.due = time.Now()
		t.changed()
	}
}

// Evicted tells the pod's status at once; one request, bound to the UID. It
// needs no right but patch on pods/status. On success the status is paid; after
// an error it stays owed, except that of [ErrGone] it is not. The notice must be
// owed, and the kill not be over.
func (t *Reporter) Evicted(ctx context.Context, n Notice) error {
	e, err := t.begin(&n)
	if e == nil || err != nil {
		return err
	}
	owed := &e.debt.Notice // not n: what is told late must be what was told now
	err = send(ctx, t.client, owed, evicted(owed, ""))
	t.mu.Lock()
	defer t.mu.Unlock()
	e.telling--
	switch a := answerTo(err); a {
	case done, gone:
		t.ledger.heard()
		e.debt.Status, e.told = false, a == done
		if a == done {
			t.confirm(e)
		}
		if a == gone {
			err = fmt.Errorf("%w: %w", ErrGone, err)
		}
	case absent:
		t.ledger.rest(time.Now().Add(retryAfter(err)))
	}
	t.changed()
	if err != nil {
		return fmt.Errorf("tell the status of pod %s: %w", n.Pod(), err)
	}
	return nil
}

// begin claims the entry for a prompt request; nil if the status is paid.
func (t *Reporter) begin(n *Notice) (*entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := t.ledger.find(n.identity()); {
	case e == nil:
		return nil, fmt.Errorf("tell the status of pod %s: it is not owed (any more)", n.Pod())
	case !e.debt.Status:
		return nil, nil
	case e.debt.Ended || e.taken:
		return nil, fmt.Errorf("tell the status of pod %s: the kill is over, it is told with the other debts", n.Pod())
	default:
		e.telling++
		return e, nil
	}
}

// Debts is how many evictions are not told in full.
func (t *Reporter) Debts() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.ledger.entries)
}

// Outstanding are the debts, oldest first; they are not to be changed.
func (t *Reporter) Outstanding() []PendingStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ledger.outstanding()
}

// What a right is for, as complaints name it.
const (
	getPods      = "get pods"
	patchStatus  = "patch pods/status"
	createEvents = "create events"
)

// complain says once that a right is missing. The lock is held.
func (t *Reporter) complain(right string, err error) {
	if !t.complained[right] {
		t.complained[right] = true
		t.log.Error("the API server does not let the agent tell of evictions: apply the rules in deploy/rbac to its service account",
			"right", right, "node", t.node, "error", err)
	}
}

// about is what the log says of a debt: all that was known.
func about(d *PendingStatus) []any {
	n := &d.Notice
	return []any{"pod", n.Pod(), "uid", n.UID, "cause", n.Cause, "decided", n.Decided, "message", n.Message,
		"status", d.Status, "event", d.Event}
}
