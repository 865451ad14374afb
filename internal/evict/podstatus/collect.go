package podstatus

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// requestTimeout bounds a request of the queue.
	requestTimeout = 10 * time.Second
	// maxReads bounds the immediate reads of a pod that changes concurrently.
	maxReads = 3
)

// Run reports the pending statuses until ctx ends: those of a previous run, and those after their
// kill. Call it once, before the first Enqueue.
func (t *Reporter) Run(ctx context.Context, previous []PendingStatus) {
	t.inherit(previous)
	for ctx.Err() == nil {
		t.mu.Lock()
		e, wait := t.queue.next(time.Now())
		if e != nil {
			e.taken = true
		}
		t.mu.Unlock()
		if e != nil {
			t.collect(ctx, e)
			continue
		}
		t.await(ctx, wait)
	}
}

// await waits for a change of the queue, or until the time has passed if it is not negative.
func (t *Reporter) await(ctx context.Context, wait time.Duration) {
	var passed <-chan time.Time
	if wait >= 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-ctx.Done():
	case <-t.wake:
	case <-passed:
	}
}

// inherit inserts the pending statuses of a previous run before those that arrived since.
func (t *Reporter) inherit(previous []PendingStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.queue.entries
	t.queue.entries = nil
	for _, d := range previous {
		if !d.Notice.complete() {
			t.log.Error("Dropping a saved pod status update without a pod or a time", about(&d)...)
			continue
		}
		t.queue.entries = append(t.queue.entries, &entry{pending: d.clone()})
	}
	t.queue.entries = append(t.queue.entries, own...)
	if len(previous) > 0 {
		t.log.Info("Resuming pending pod status updates from a previous run", "updates", len(previous))
	}
	t.changed()
}

// part is one part of a report: the status or the event.
type part struct {
	field  func(*PendingStatus) *bool
	ready  func(*PendingStatus) bool
	right  string
	report func(*Reporter, context.Context, *PendingStatus) outcome
}

// parts are in their order: controllers act on the status, and reporting it determines whether
// there was a kill to report.
var parts = []part{
	{func(d *PendingStatus) *bool { return &d.Status }, func(d *PendingStatus) bool { return d.Status }, patchStatus, (*Reporter).reportStatus},
	{func(d *PendingStatus) *bool { return &d.Event }, func(d *PendingStatus) bool { return d.Event && (d.Ended || !d.Status) }, createEvents, (*Reporter).reportEvent},
}

// outcome is the result of reporting one part. After done and gone the part is complete; why is the
// reason if it was not reported.
type outcome struct {
	answer  answer
	err     error
	why     string
	right   string // the missing right, if it is not the part's own
	ended   bool   // there was a kill, as far as is known
	nothing bool   // neither part is true
}

// collect tries to report the pending parts of one entry.
func (t *Reporter) collect(ctx context.Context, e *entry) {
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		e.taken = false
	}()
	for _, p := range parts {
		t.mu.Lock()
		pending := e.pending
		t.mu.Unlock()
		if !p.ready(&pending) {
			continue
		}
		o := p.report(t, ctx, &pending)
		if ctx.Err() != nil {
			return // the next run determines whether the request succeeded
		}
		if !t.settle(e, &p, o) {
			return
		}
	}
}

// settle records an outcome, and reports whether the server can receive further requests.
func (t *Reporter) settle(e *entry, p *part, o outcome) (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	e.pending.Ended = e.pending.Ended || o.ended
	if o.answer == absent {
		t.queue.unanswered(e, now, retryAfter(o.err))
		return false
	}
	t.queue.answered()
	if o.answer == done || o.answer == gone {
		t.settled(e, p, o)
		return true
	}
	if o.answer == forbidden && cmp.Or(o.right, p.right) == patchStatus { // that to events may be a quota of a namespace
		t.noteRefusal()
	}
	if o.answer == forbidden && !e.refused.IsZero() && now.Sub(e.refused) > rbacLoadTime {
		t.logMissingRight(cmp.Or(o.right, p.right), o.err)
	}
	if t.queue.delayed(e, now, retryAfter(o.err)) {
		t.log.Error(fmt.Sprintf("Dropping a pod status update: the API server has refused the %s for %s", p.right, patience),
			append(about(&e.pending), "error", o.err)...)
		t.queue.remove(e)
		t.changed()
		return false
	}
	return true
}

func (t *Reporter) settled(e *entry, p *part, o outcome) {
	delete(t.loggedRights, p.right)
	if p.right == patchStatus {
		delete(t.loggedRights, getPods)
		t.refused = t.refused && o.why != ""
	}
	e.refused, e.fails = time.Time{}, 0
	switch {
	case o.why != "" && o.answer == done && p.right == patchStatus && e.denied != "":
		t.log.Warn("The API server refused the status of an evicted pod, which is obsolete now: the doctor examines whether a right is missing",
			append(about(&e.pending), "right", p.right, "reason", o.why, "error", e.denied)...)
	case o.why != "":
		t.log.Info("Dropping an obsolete pod status update", append(about(&e.pending), "right", p.right, "reason", o.why)...)
	case p.right == patchStatus && e.pending.Repair:
		t.log.Info("Restored reason and message of an evicted pod that its kubelet had overwritten", append(about(&e.pending),
			"repeats", t.repairs[e.pending.Notice.UID].pause > minRepair, "remedy", "apply deploy/admission/evicted-keeps-reason.yaml where the API server has MutatingAdmissionPolicy")...)
	case p.right == patchStatus && e.pending.Again:
		t.log.Info("Repeated the status update of an evicted pod that its kubelet had overwritten", about(&e.pending)...)
		t.confirm(e)
	case p.right == patchStatus:
		t.log.Info("Updated the status of an evicted pod late", about(&e.pending)...)
		t.confirm(e)
	}
	*p.field(&e.pending) = false
	if o.nothing {
		e.pending.Event = false
	}
	t.changed()
}

// reportStatus reports a status late: it reads the pod, checks it, and writes on condition that the
// pod has not changed in between.
func (t *Reporter) reportStatus(ctx context.Context, d *PendingStatus) outcome {
	var err error
	for range maxReads {
		var o outcome
		if o = t.tryStatus(ctx, d); o.answer != changed {
			return o
		}
		err = o.err
	}
	return outcome{answer: refused, err: err}
}

func (t *Reporter) tryStatus(ctx context.Context, d *PendingStatus) outcome {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	n := &d.Notice
	pod, err := read(ctx, t.client, n)
	if a := answerTo(err); a != done {
		return outcome{answer: a, err: err, why: podGone.when(a), right: getPods}
	}
	s := sight{pending: d, pod: pod, at: time.Now()}
	if t.options.Running != nil {
		if s.running, err = t.options.Running(ctx, n.UID); err != nil {
			return outcome{answer: refused, err: fmt.Errorf("find out whether pod %s runs again: %w", n.Pod(), err)}
		}
		s.asked = true
	}
	switch standing, why := s.classify(); standing {
	case stands:
	case unclear:
		return outcome{answer: refused, err: fmt.Errorf("report the status of pod %s: %s", n.Pod(), why)}
	default:
		return outcome{answer: done, why: why, ended: standing != nothing, nothing: standing == nothing}
	}
	p := evicted(n, pod.ResourceVersion)
	if d.Repair {
		mark, _ := s.lost()
		p.Status.Message, p.Status.Conditions = mark.Message, nil
		err = patchPodStatus(ctx, t.client, n, p)
	} else {
		err = t.reportEvicted(ctx, n, p)
	}
	if tooLarge(err) {
		return outcome{answer: done, why: "the pod has no room for it", ended: true}
	}
	a := answerTo(err)
	return outcome{answer: a, err: err, why: podGone.when(a), ended: true}
}

// reportEvent creates the event. An existing event is a success: an earlier attempt created it.
func (t *Reporter) reportEvent(ctx context.Context, d *PendingStatus) outcome {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := create(ctx, t.client, event(&d.Notice, t.node))
	a := answerTo(err)
	if apierrors.IsAlreadyExists(err) && !apierrors.IsUnexpectedServerError(err) {
		a = done
	}
	return outcome{answer: a, err: err, why: namespaceGone.when(a)}
}

// reason is why a part is obsolete if its object does not exist.
type reason string

const (
	podGone       reason = "the pod is gone"
	namespaceGone reason = "its namespace is gone, or going: nothing can be created there"
)

func (r reason) when(a answer) string {
	if a == gone {
		return string(r)
	}
	return ""
}
