package podstatus

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Options are the optional inputs of a Reporter.
type Options struct {
	// Running returns the runtime's IDs of the containers of a pod, by UID, that run on this node
	// now. The pod on the API server is as old as the kubelet's last status update, which does not
	// arrive while the server is away. Without Running, a late status can be reported of a pod that
	// has just been restarted. An error postpones the status.
	Running func(ctx context.Context, uid string) ([]string, error)
	// Refused is called when the API server refuses a status for a missing right, once until it accepts one. It must
	// neither block nor call back.
	Refused func()
}

// Reporter reports evicted pods to the API server. Its methods are safe for concurrent use.
type Reporter struct {
	client  api.Interface
	node    string
	log     *slog.Logger
	store   func([]PendingStatus)
	options Options

	wake chan struct{}

	mu    sync.Mutex
	queue queue
	// loggedRights contains the missing rights that were logged.
	loggedRights map[string]bool
	// refused: the last answer about a status was that a right is missing.
	refused bool
	// unconfirmed are recently reported statuses, by the pod's UID.
	unconfirmed map[string]confirmation
	// alsoKilled are containers that were killed since, by the pod's UID, see [Reporter.AlsoKilled].
	alsoKilled map[string][]string
	// repairs are the repairs of pods without their reason, by the pod's UID.
	repairs map[string]repair
}

// New returns a Reporter. The client must not have a rate limit of its own, because the kill waits
// for its request. store is called with all pending statuses whenever they change; it must not
// block, call back, or modify them.
func New(client api.Interface, node string, log *slog.Logger, store func([]PendingStatus), options Options) *Reporter {
	return &Reporter{
		client: client, node: node, log: log, store: store, options: options,
		wake:         make(chan struct{}, 1),
		loggedRights: map[string]bool{}, unconfirmed: map[string]confirmation{}, repairs: map[string]repair{}, alsoKilled: map[string][]string{},
	}
}

// Enqueue stores the status and the event of a pod before its kill, and passes them to the store.
// It sends nothing: Evicted does, and Run once Commit or Cancel was called, or 5 s have passed.
func (t *Reporter) Enqueue(n Notice) {
	t.enter(&entry{pending: PendingStatus{Notice: n, Status: true, Event: true}, due: time.Now().Add(killTime)})
}

// Announce enqueues only the event, for a pod deleted by the API server after a soft eviction was
// accepted.
func (t *Reporter) Announce(n Notice) {
	t.enter(&entry{pending: PendingStatus{Notice: n, Ended: true, Event: true}})
}

func (t *Reporter) enter(e *entry) {
	e.pending = e.pending.clone()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !e.pending.Notice.complete() || t.queue.find(e.pending.Notice.identity()) != nil {
		return
	}
	superseded, dropped := t.queue.add(e)
	for _, s := range superseded {
		t.log.Info("Dropping a pod status update: the pod was evicted again", about(&s.pending)...)
	}
	for _, d := range dropped {
		t.log.Error("Dropping the oldest pod status update: too many are pending", about(&d.pending)...)
	}
	t.changed()
}

// changed removes completed entries, passes the others to the store, and wakes Run. The lock is
// held, so that the store receives the states in their order.
func (t *Reporter) changed() {
	t.queue.forget()
	t.store(t.queue.outstanding())
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Commit records that the kill of the latest enqueued pod with this UID has happened. Run reports
// the status or event if still pending.
func (t *Reporter) Commit(uid string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over(uid, func(e *entry) { e.pending.Ended = true })
}

// Cancel records that the pod was not killed: the entry is dropped unless the status was reported.
// Then the event remains. It explains the kubelet's reaction: the kubelet overwrites the status,
// which is right, or ends the pod.
func (t *Reporter) Cancel(uid string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.unconfirmed, uid)
	t.over(uid, func(e *entry) { e.cancelled = true })
}

// over records the end of a kill. The lock is held.
func (t *Reporter) over(uid string, note func(*entry)) {
	if e := t.queue.latest(uid); e != nil && !e.pending.Ended && !e.cancelled {
		note(e)
		e.due = time.Now()
		t.changed()
	}
}

// Evicted reports the pod's status immediately, with one request bound to the UID. It needs only
// the right to patch pods/status. On success the status is complete. After an error it stays
// pending, except after [ErrGone]. Returns an error if the notice is not enqueued, or the kill is
// over.
func (t *Reporter) Evicted(ctx context.Context, n Notice) error {
	e, err := t.begin(&n)
	if e == nil || err != nil {
		return err
	}
	enqueued := &e.pending.Notice // not n: a late report must equal this one
	err = t.reportEvicted(ctx, enqueued, evicted(enqueued, ""))
	t.mu.Lock()
	defer t.mu.Unlock()
	e.reporting--
	switch a := answerTo(err); a {
	case done, gone:
		t.queue.answered()
		e.pending.Status, e.reported = false, a == done
		if a == done {
			t.refused = false
			t.confirm(e)
		}
		if a == gone {
			err = fmt.Errorf("%w: %w", ErrGone, err)
		}
	case absent:
		t.queue.rest(time.Now().Add(retryAfter(err)))
	case forbidden:
		e.denied = fmt.Sprintf("%.*s", maxDenied, err)
		t.noteRefusal()
	}
	t.changed()
	if err != nil {
		return fmt.Errorf("report the status of pod %s: %w", n.Pod(), err)
	}
	return nil
}

// begin claims the entry for an immediate request; nil if the status is complete.
func (t *Reporter) begin(n *Notice) (*entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := t.queue.find(n.identity()); {
	case e == nil:
		return nil, fmt.Errorf("report the status of pod %s: it is not pending", n.Pod())
	case !e.pending.Status:
		return nil, nil
	case e.pending.Ended || e.taken:
		return nil, fmt.Errorf("report the status of pod %s: the kill is over; it is reported with the other pending statuses", n.Pod())
	default:
		e.reporting++
		return e, nil
	}
}

// PendingCount returns the number of evictions that are not completely reported.
func (t *Reporter) PendingCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue.entries)
}

// Outstanding returns the pending statuses, oldest first. They must not be modified.
func (t *Reporter) Outstanding() []PendingStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queue.outstanding()
}

// Rights, as they are logged.
const (
	getPods      = "get pods"
	patchStatus  = "patch pods/status"
	createEvents = "create events"
)

// maxDenied bounds an answer that is kept, in characters.
const maxDenied = 512

// noteRefusal notes that a right is missing. The lock is held.
func (t *Reporter) noteRefusal() {
	if !t.refused && t.options.Refused != nil {
		t.options.Refused()
	}
	t.refused = true
}

// logMissingRight logs once that a right is missing. The lock is held.
func (t *Reporter) logMissingRight(right string, err error) {
	if !t.loggedRights[right] {
		t.loggedRights[right] = true
		t.log.Error("The API server refuses pod status updates: apply the rules in deploy/rbac to the agent's service account",
			"right", right, "node", t.node, "error", err)
	}
}

// about returns the log attributes of a pending status: all its data.
func about(d *PendingStatus) []any {
	n := &d.Notice
	return []any{"pod", n.Pod(), "uid", n.UID, "cause", n.Cause, "decided", n.Decided, "message", n.Message,
		"status", d.Status, "event", d.Event}
}
