package podstatus

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Times of the collection.
const (
	// minDelay doubles with every failure; a fifth of the wait at most is
	// chance, so that the agents of a cluster do not come all at once when the
	// server is back. The longest wait is 30 s.
	minDelay = 250 * time.Millisecond
	maxDelay = 24 * time.Second
	// lawless is how long a server that has just started may not know its own
	// RBAC rules, and forbids everything: only then a right counts as missing.
	lawless = 10 * time.Second
	// killTime is how long to wait for word of the kill. A debt of which nothing
	// was heard by then is judged by what the node and the server know, as one
	// that a predecessor left.
	killTime = 5 * time.Second
	// patience is how long a server may refuse a debt until it is given up. While
	// it does not answer at all nothing is given up.
	patience = time.Hour
)

// maxDebts bounds the ledger, and with it the state file: about 2 KiB each.
const maxDebts = 1000

// A backoff is how long to wait after a failure: twice as long as last time.
type backoff struct{ delay time.Duration }

func (b *backoff) next() time.Duration {
	b.delay = min(max(2*b.delay, minDelay), maxDelay)
	return b.delay + rand.N(b.delay/4+1)
}

// An entry is one debt and how collecting it goes.
type entry struct {
	debt    PendingStatus
	told    bool // the status, promptly
	spared  bool // the pod was not killed
	telling int  // prompt requests under way
	taken   bool // it is being collected
	due     time.Time
	backoff backoff
	refused time.Time // since when the server refuses it, zero if it does not
}

// over reports whether the entry can be forgotten: all is paid, or nothing was
// said of a pod that was spared.
func (e *entry) over() bool {
	return !e.debt.Status && !e.debt.Event || e.spared && e.telling == 0 && !e.told
}

// A queue holds the debts in the order in which they arose. It reads no clock.
type queue struct {
	entries []*entry
	quiet   time.Time // the server is left alone until then
	backoff backoff   // of the server as a whole
}

func (l *queue) find(id identity) *entry {
	for _, e := range l.entries {
		if e.debt.Notice.identity() == id {
			return e
		}
	}
	return nil
}

// latest is the newest entry of a pod.
func (l *queue) latest(uid string) *entry {
	for _, e := range slices.Backward(l.entries) {
		if e.debt.Notice.UID == uid {
			return e
		}
	}
	return nil
}

// add takes a debt, and returns those that it makes void: statuses of the same
// pod, which has obviously run again, and the oldest of too many. Where the same
// containers are to be killed once more, an earlier kill that nobody has seen
// never was.
func (l *queue) add(e *entry) (superseded, dropped []*entry) {
	for _, older := range l.entries {
		if e.debt.Status && older.debt.Status && older.debt.Notice.UID == e.debt.Notice.UID {
			older.debt.Status = false
			if !older.debt.Ended && slices.ContainsFunc(e.debt.Notice.Killed, older.debt.Notice.killed) {
				older.debt.Event = false
			}
			superseded = append(superseded, older)
		}
	}
	l.entries = append(l.entries, e)
	l.forget()
	for len(l.entries) > maxDebts {
		dropped = append(dropped, l.entries[0])
		l.entries = slices.Delete(l.entries, 0, 1)
	}
	return superseded, dropped
}

// forget lets go of what is settled.
func (l *queue) forget() { l.entries = slices.DeleteFunc(l.entries, (*entry).over) }

func (l *queue) remove(e *entry) {
	l.entries = slices.DeleteFunc(l.entries, func(x *entry) bool { return x == e })
}

// next returns the entry that is longest due, or how long nothing will be; a
// negative wait is until something changes.
func (l *queue) next(now time.Time) (*entry, time.Duration) {
	var first *entry
	for _, e := range l.entries {
		if e.telling == 0 && (first == nil || e.due.Before(first.due)) {
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

// heard notes that the server answers again.
func (l *queue) heard() { l.quiet, l.backoff = time.Time{}, backoff{} }

// rest leaves the server alone for as long as it asks for.
func (l *queue) rest(until time.Time) {
	if until.After(l.quiet) {
		l.quiet = until
	}
}

// unheard leaves the server alone for a while, at least as long as it asks for.
// The entry goes to the end of the line, so that one request that the server
// never answers does not keep the others from it.
func (l *queue) unheard(e *entry, now time.Time, asked time.Duration) {
	l.rest(now.Add(max(l.backoff.next(), asked)))
	e.due = now
}

// delayed puts an entry off after the server refused it, and reports whether
// its patience is at an end.
func (l *queue) delayed(e *entry, now time.Time, asked time.Duration) (end bool) {
	if e.refused.IsZero() {
		e.refused = now
	}
	if due := now.Add(max(e.backoff.next(), asked)); due.After(e.due) {
		e.due = due
	}
	return now.Sub(e.refused) >= patience
}

// outstanding are the debts, oldest first. Their notices are shared: nobody
// changes one that was entered.
func (l *queue) outstanding() []PendingStatus {
	debts := make([]PendingStatus, len(l.entries))
	for i, e := range l.entries {
		debts[i] = e.debt
	}
	return debts
}
