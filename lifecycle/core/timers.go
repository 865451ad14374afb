package core

import "time"

// setTimer has a node evaluated again when something is due that no observation
// reports.
func (f *Fleet) setTimer(node *nodeState) {
	if node.object == nil {
		return
	}
	at := earliest(f.ifFuture(node.statusWrite.notBefore), f.ifFuture(node.taintWrite.notBefore), f.nextLegacyDeadline(node))
	if len(node.pendingWrites) > 0 {
		at = earliest(at, node.pendingWrites[0].until)
	}
	if _, until := f.blockedBy(node); node.unready() {
		at = earliest(at, until)
	}
	if at.IsZero() {
		f.nodeTimers.Remove(node.name)
		return
	}
	f.nodeTimers.Set(node.name, at)
}

// ifFuture returns a future time, and zero otherwise.
func (f *Fleet) ifFuture(t time.Time) time.Time {
	if !t.After(f.now) {
		return time.Time{}
	}
	return t
}

// nextLegacyDeadline returns the legacy deadline of a node if it is to come; else zero.
func (f *Fleet) nextLegacyDeadline(node *nodeState) time.Time {
	at, ok := f.legacyDeadline(node)
	if !ok {
		return time.Time{}
	}
	return f.ifFuture(at)
}
