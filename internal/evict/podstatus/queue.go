package podstatus

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/internal/backoff"
)

// Times of the queue.
const (
	// rbacLoadTime is the time for which a server that has just started may not know its own RBAC rules,
	// and forbids everything. Only after it a right counts as missing.
	rbacLoadTime = 10 * time.Second
	// killTime bounds the wait for Commit or Cancel. After it, an entry is checked against the
	// state of node and server, like an entry of a previous run.
	killTime = 5 * time.Second
	// patience is the time for which a server may refuse a report before it is given up. While the
	// server does not answer at all, no report is given up.
	patience = time.Hour
)

// maxPending bounds the queue, and with it the state file: about 2 KiB per entry.
const maxPending = 1000

// requestBackoff is the delay after a failed request.
var requestBackoff = backoff.Bounds{Min: 250 * time.Millisecond, Max: 30 * time.Second}

// entry is one pending status and the state of its report.
type entry struct {
	pending   PendingStatus
	reported  bool // the status was reported immediately
	cancelled bool // the pod was not killed
	reporting int  // immediate requests in progress
	taken     bool // Run is reporting it
	due       time.Time
	fails     int       // successive
	refused   time.Time // start of the server's refusals, zero if there are none
	denied    string    // the answer to the immediate request, if a right seems to be missing
}

// over reports whether the entry can be removed: all is reported, or no status was reported of a
// pod that was not killed.
func (e *entry) over() bool {
	return !e.pending.Status && !e.pending.Event || e.cancelled && e.reporting == 0 && !e.reported
}

// queue contains the pending statuses in the order of their arrival. It does not read the clock.
type queue struct {
	entries []*entry
	quiet   time.Time // no requests before this time
	fails   int       // successive, of the server as a whole
}

func (l *queue) find(id identity) *entry {
	for _, e := range l.entries {
		if e.pending.Notice.identity() == id {
			return e
		}
	}
	return nil
}

// latest returns the newest entry of a pod.
func (l *queue) latest(uid string) *entry {
	for _, e := range slices.Backward(l.entries) {
		if e.pending.Notice.UID == uid {
			return e
		}
	}
	return nil
}

// add appends an entry. It returns the entries that become obsolete: statuses of the same pod,
// which has run again, and the oldest entries above maxPending. If the same containers are to be
// killed once more, an earlier unconfirmed kill did not happen.
func (l *queue) add(e *entry) (superseded, dropped []*entry) {
	for _, older := range l.entries {
		if e.pending.Status && older.pending.Status && older.pending.Notice.UID == e.pending.Notice.UID {
			older.pending.Status = false
			if !older.pending.Ended && slices.ContainsFunc(e.pending.Notice.Killed, older.pending.Notice.killed) {
				older.pending.Event = false
			}
			superseded = append(superseded, older)
		}
	}
	l.entries = append(l.entries, e)
	l.forget()
	for len(l.entries) > maxPending {
		dropped = append(dropped, l.entries[0])
		l.entries = slices.Delete(l.entries, 0, 1)
	}
	return superseded, dropped
}

// forget removes completed entries.
func (l *queue) forget() { l.entries = slices.DeleteFunc(l.entries, (*entry).over) }

func (l *queue) remove(e *entry) {
	l.entries = slices.DeleteFunc(l.entries, func(x *entry) bool { return x == e })
}

// next returns the entry that is due first, or the time until one is due. A negative wait means
// until the next change.
func (l *queue) next(now time.Time) (*entry, time.Duration) {
	var first *entry
	for _, e := range l.entries {
		if e.reporting == 0 && (first == nil || e.due.Before(first.due)) {
			first = e
		}
	}
	if first == nil {
		return nil, -1
	}
	if wait := max(first.due.Sub(now), l.quiet.Sub(now)); wait > 0 {
		return nil, wait
	}
	return first, 0
}

// answered resets the backoff after an answer of the server.
func (l *queue) answered() { l.quiet, l.fails = time.Time{}, 0 }

// rest pauses requests for as long as the server asks for.
func (l *queue) rest(until time.Time) {
	if until.After(l.quiet) {
		l.quiet = until
	}
}

// unanswered pauses requests for the backoff, and at least for as long as the server asks for. The
// entry moves to the end of the queue, so that a request without an answer does not block the
// others.
func (l *queue) unanswered(e *entry, now time.Time, asked time.Duration) {
	l.fails++
	l.rest(now.Add(max(requestBackoff.Jittered(l.fails), asked)))
	e.due = now
}

// delayed postpones an entry after the server refused it, and reports whether its patience is
// exhausted.
func (l *queue) delayed(e *entry, now time.Time, asked time.Duration) (end bool) {
	if e.refused.IsZero() {
		e.refused = now
	}
	e.fails++
	if due := now.Add(max(requestBackoff.Jittered(e.fails), asked)); due.After(e.due) {
		e.due = due
	}
	return now.Sub(e.refused) >= patience
}

// outstanding returns the pending statuses, oldest first. Their notices are shared: an enqueued
// notice is never modified.
func (l *queue) outstanding() []PendingStatus {
	list := make([]PendingStatus, len(l.entries))
	for i, e := range l.entries {
		list[i] = e.pending
	}
	return list
}
