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
		e, wait := t.ledger.next(time.Now())
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
	own := t.ledger.entries
	t.ledger.entries = nil
	for _, d := range previous {
		if !d.Notice.complete() {
			t.log.Error("Dropping a saved pod status update without a pod or a time", about(&d)...)
			continue
		}
		t.ledger.entries = append(t.ledger.entries, &entry{debt: d.clone()})
	}
	t.ledger.entries = append(t.ledger.entries, own...)
	if len(previous) > 0 {
		t.log.Info("Resuming pending pod status updates from a previous run", "updates", len(previous))
	}
	t.changed()
}

// payment is one part of a report: the status or the event.
type payment struct {
	owed  func(*PendingStatus) *bool
	ready func(*PendingStatus) bool
	right string
	pay   func(*Reporter, context.Context, *PendingStatus) outcome
}

// payments are in their order: controllers act on the status, and reporting it determines whether
// there was a kill to report.
var payments = []payment{
	{func(d *PendingStatus) *bool { return &d.Status }, func(d *PendingStatus) bool { return d.Status }, patchStatus, (*Reporter).payStatus},
	{func(d *PendingStatus) *bool { return &d.Event }, func(d *PendingStatus) bool { return d.Event && (d.Ended || !d.Status) }, createEvents, (*Reporter).payEvent},
}

// outcome is the result of reporting one part. After done and gone the part is complete; why is the
// reason if it was not reported.
type outcome struct {
	answer  answer
	err     error
	why     string
	right   string // the missing right, if it is not the payment's own
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
	for _, p := range payments {
		t.mu.Lock()
		debt := e.debt
		t.mu.Unlock()
		if !p.ready(&debt) {
			continue
		}
		o := p.pay(t, ctx, &debt)
		if ctx.Err() != nil {
			return // the next run determines whether the request succeeded
		}
		if !t.settle(e, &p, o) {
			return
		}
	}
}

// settle records an outcome, and reports whether the server can receive further requests.
func (t *Reporter) settle(e *entry, p *payment, o outcome) (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	e.debt.Ended = e.debt.Ended || o.ended
	if o.answer == absent {
		t.ledger.unheard(e, now, retryAfter(o.err))
		return false
	}
	t.ledger.heard()
	if o.answer == done || o.answer == gone {
		t.settled(e, p, o)
		return true
	}
	if o.answer == forbidden && !e.refused.IsZero() && now.Sub(e.refused) > lawless {
		t.complain(cmp.Or(o.right, p.right), o.err)
	}
	if t.ledger.delayed(e, now, retryAfter(o.err)) {
		t.log.Error(fmt.Sprintf("Dropping a pod status update: the API server has refused the %s for %s", p.right, patience),
			append(about(&e.debt), "error", o.err)...)
		t.ledger.remove(e)
		t.changed()
		return false
	}
	return true
}

func (t *Reporter) settled(e *entry, p *payment, o outcome) {
	delete(t.complained, p.right)
	if p.right == patchStatus {
		delete(t.complained, getPods)
	}
	e.refused, e.backoff = time.Time{}, backoff{}
	switch {
	case o.why != "":
		t.log.Info("Dropping an obsolete pod status update", append(about(&e.debt), "right", p.right, "reason", o.why)...)
	case p.right == patchStatus && e.debt.Repair:
		t.log.Info("Restored reason and message of an evicted pod that its kubelet had overwritten", append(about(&e.debt),
			"repeats", t.repairs[e.debt.Notice.UID].pause > minRepair, "remedy", "apply deploy/admission/evicted-keeps-reason.yaml where the API server has MutatingAdmissionPolicy")...)
	case p.right == patchStatus && e.debt.Again:
		t.log.Info("Repeated the status update of an evicted pod that its kubelet had overwritten", about(&e.debt)...)
		t.confirm(e)
	case p.right == patchStatus:
		t.log.Info("Updated the status of an evicted pod late", about(&e.debt)...)
		t.confirm(e)
	}
	*p.owed(&e.debt) = false
	if o.nothing {
		e.debt.Event = false
	}
	t.changed()
}

// payStatus reports a status late: it reads the pod, checks it, and writes on condition that the
// pod has not changed in between.
func (t *Reporter) payStatus(ctx context.Context, d *PendingStatus) outcome {
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
	s := sight{debt: d, pod: pod, at: time.Now()}
	if t.options.Running != nil {
		if s.running, err = t.options.Running(ctx, n.UID); err != nil {
			return outcome{answer: refused, err: fmt.Errorf("find out whether pod %s runs again: %w", n.Pod(), err)}
		}
		s.asked = true
	}
	switch standing, why := s.judge(); standing {
	case stands:
	case unclear:
		return outcome{answer: refused, err: fmt.Errorf("tell the status of pod %s: %s", n.Pod(), why)}
	default:
		return outcome{answer: done, why: why, ended: standing != nothing, nothing: standing == nothing}
	}
	p := evicted(n, pod.ResourceVersion)
	if d.Repair {
		mark, _ := s.lost()
		p.Status.Message, p.Status.Conditions = mark.Message, nil
	}
	err = send(ctx, t.client, n, p)
	a := answerTo(err)
	return outcome{answer: a, err: err, why: podGone.when(a), ended: true}
}

// payEvent creates the event. An existing event is a success: an earlier attempt created it.
func (t *Reporter) payEvent(ctx context.Context, d *PendingStatus) outcome {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := create(ctx, t.client, event(&d.Notice, t.node))
	a := answerTo(err)
	if apierrors.IsAlreadyExists(err) && !apierrors.IsUnexpectedServerError(err) {
		a = done
	}
	return outcome{answer: a, err: err, why: namespaceGone.when(a)}
}

// reason is why a part lapses when its object does not exist.
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
