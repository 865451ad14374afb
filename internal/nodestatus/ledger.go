package nodestatus

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/eviction/signals"
)

const (
	// refreshPeriod is how often a condition that does not change is written
	// again, as the kubelet does (nodeStatusReportFrequency).
	refreshPeriod = 5 * time.Minute
	// renewalPeriod is how often a type of our own is written again while it says
	// True: who goes by it, as deploy/admission/kubelet-keeps-conditions.yaml does,
	// lets go a minute after the last time.
	renewalPeriod = 20 * time.Second
	// apiSecond is how exact times in a condition are: what was written within a
	// second is cut down to its beginning.
	apiSecond = time.Second
)

// A ledger decides what to write next into a Node's conditions, and remembers
// what was written, to know a stranger's writing. It reads no clock and speaks
// to nobody. A new one needs nothing but the Node to go on.
//
// Rules for the types it owns, in this order:
//
//  1. A type that somebody else changed since we wrote it: if it is a standard
//     one and says True or False, it is given up for good, for a type of our
//     own. Otherwise (a node lifecycle controller set it to Unknown, somebody
//     changed ours) it is written at most once per transition period.
//  2. True is written at once.
//  3. False is written at once over nothing and Unknown; over True when the
//     transition period has passed since the Node says it is True.
//  4. What stays is refreshed every refreshPeriod; a True of a type of our own
//     every renewalPeriod, unless the agent hangs.
type ledger struct {
	transition time.Duration
	uid        types.UID // of the Node that everything below is about
	written    map[corev1.NodeConditionType]*trace
	yielded    [signals.ConditionCount]bool // the standard type is a stranger's
}

func newLedger(transition time.Duration) *ledger {
	return &ledger{transition: transition, written: map[corev1.NodeConditionType]*trace{}}
}

// maxRemembered bounds what is remembered of a type: more than one only for
// answers that were lost and views of the Node that lag behind.
const maxRemembered = 16

// A trace is what the Node may say of one type without anybody else having
// written: what was written, and what was there before, for a write may have
// been lost.
type trace struct {
	views  []corev1.NodeCondition // the last ones, oldest first
	absent bool                   // or nothing at all
	at     time.Time              // of the last write
}

// ours reports whether what stands on the Node can be our doing.
func (r *trace) ours(p *corev1.NodeCondition) bool {
	if p == nil {
		return r.absent
	}
	return slices.ContainsFunc(r.views, func(v corev1.NodeCondition) bool {
		return p.Status == v.Status && p.Reason == v.Reason && p.LastHeartbeatTime.Unix() == v.LastHeartbeatTime.Unix()
	})
}

func (r *trace) remember(view corev1.NodeCondition) {
	if len(r.views) == maxRemembered {
		r.views = slices.Delete(r.views, 0, 1)
	}
	r.views = append(r.views, view)
}

// A draft is what to write next.
type draft struct {
	set     []corev1.NodeCondition
	remove  []corev1.NodeConditionType
	changes []change  // what the cluster will see change
	notices []string  // what a person should know, once
	next    time.Time // when to decide anew, though nothing new is wanted
	// own are the conditions told by types of our own; pressed those of them that
	// say True once the draft is written.
	own, pressed signals.ConditionSet
}

// A change is a condition that becomes True or False.
type change struct {
	condition signals.Condition
	pressed   bool
}

func (d *draft) empty() bool { return len(d.set) == 0 && len(d.remove) == 0 }

// again asks to decide anew at a time.
func (d *draft) again(at time.Time) {
	if at.Before(d.next) {
		d.next = at
	}
}

// decide compares what stands on the Node with what is wanted. n must not be
// older than the last write that was answered.
func (l *ledger) decide(now time.Time, n *corev1.Node, owners Owners, w *wanted) *draft {
	if n.UID != l.uid { // made anew: nobody has written anything yet
		*l = *newLedger(l.transition)
		l.uid = n.UID
	}
	d := &draft{next: now.Add(refreshPeriod)}
	for c := range signals.Condition(signals.ConditionCount) {
		owner := l.owner(d, c, owners[c], n)
		if own := ownType(c); owner != OwnTypes && find(n, own) != nil {
			d.remove = append(d.remove, own)
			delete(l.written, own)
		}
		switch owner {
		case KubeletReports:
		case OwnTypes:
			d.own.Add(c)
			if l.entry(d, now, c, ownType(c), n, w) == corev1.ConditionTrue {
				d.pressed.Add(c)
			}
		case StandardTypes:
			l.entry(d, now, c, standardType(c), n, w)
		}
	}
	return d
}

// owner gives a standard type up that a stranger writes (rule 1).
func (l *ledger) owner(d *draft, c signals.Condition, owner Owner, n *corev1.Node) Owner {
	switch {
	case owner != StandardTypes:
		return owner
	case l.yielded[c]:
		return OwnTypes
	}
	kind := standardType(c)
	p, r := find(n, kind), l.written[kind]
	if r == nil || p == nil || p.Status == corev1.ConditionUnknown || r.ours(p) {
		return owner
	}
	l.yielded[c] = true
	d.notices = append(d.notices, fmt.Sprintf("somebody else writes the condition %s of the node (now %s, reason %s): from now on %s tells of it; "+
		"choose with --pressure-conditions who is to report", kind, p.Status, p.Reason, ownType(c)))
	return OwnTypes
}

// entry decides about one type and returns the status that it will have.
func (l *ledger) entry(d *draft, now time.Time, c signals.Condition, kind corev1.NodeConditionType, n *corev1.Node, w *wanted) corev1.ConditionStatus {
	p, want := find(n, kind), w.condition(c, kind, l.transition)
	if at := l.standOff(kind, p); now.Before(at) {
		d.again(at)
		return statusOf(p)
	}
	switch status := statusOf(p); {
	case status == want.Status:
		l.refresh(d, now, p, want, w.period(c, want))
	case status == corev1.ConditionTrue && want.Status == corev1.ConditionFalse && l.holds(d, now, p):
		want.Status, want.Reason, want.Message = p.Status, p.Reason, p.Message
		l.refresh(d, now, p, want, w.period(c, want))
	default:
		want.LastTransitionTime, want.LastHeartbeatTime = metav1.NewTime(now), metav1.NewTime(now)
		d.set = append(d.set, want)
		if status == corev1.ConditionTrue || want.Status == corev1.ConditionTrue {
			d.changes = append(d.changes, change{c, want.Status == corev1.ConditionTrue})
		}
	}
	return want.Status
}

// standOff is until when a type that somebody else changed is left as it is
// (rule 1); zero for one that is as we left it.
func (l *ledger) standOff(kind corev1.NodeConditionType, p *corev1.NodeCondition) time.Time {
	if r := l.written[kind]; r != nil && !r.ours(p) {
		return r.at.Add(l.transition)
	}
	return time.Time{}
}

// holds reports whether a True is too young to be cleared (rule 3).
func (l *ledger) holds(d *draft, now time.Time, p *corev1.NodeCondition) bool {
	until := p.LastTransitionTime.Add(l.transition + apiSecond)
	if !now.Before(until) {
		return false
	}
	d.again(until)
	return true
}

// period is how often a condition is refreshed (rule 4). The renewals of one that
// nobody looks after any more would say that it is still so.
func (w *wanted) period(c signals.Condition, want corev1.NodeCondition) time.Duration {
	if want.Type == ownType(c) && want.Status == corev1.ConditionTrue && !w.hung {
		return renewalPeriod
	}
	return refreshPeriod
}

// refresh writes a condition again whose status stays, once a period has passed.
// Times from the future, left by a clock that was set back, are put right, or a
// True would be held until they come.
func (l *ledger) refresh(d *draft, now time.Time, p *corev1.NodeCondition, want corev1.NodeCondition, period time.Duration) {
	due := p.LastHeartbeatTime.Add(period)
	future := now.Add(apiSecond)
	if now.Before(due) && !p.LastHeartbeatTime.After(future) && !p.LastTransitionTime.After(future) {
		d.again(due)
		return
	}
	want.LastHeartbeatTime, want.LastTransitionTime = metav1.NewTime(now), p.LastTransitionTime
	if p.LastTransitionTime.After(future) {
		want.LastTransitionTime = want.LastHeartbeatTime
		d.again(now.Add(l.transition + apiSecond))
	}
	d.set = append(d.set, want)
}

// sent notes a draft that is about to be written over n, whatever becomes of
// it.
func (l *ledger) sent(d *draft, n *corev1.Node, now time.Time) {
	for _, condition := range d.set {
		r, p := l.written[condition.Type], find(n, condition.Type)
		if r == nil {
			r = &trace{}
			l.written[condition.Type] = r
		}
		if p != nil && !r.ours(p) {
			r.remember(*p)
		}
		r.absent = r.absent || p == nil
		r.remember(condition)
		r.at = now
	}
}

// taken notes that the API server has taken a draft.
func (l *ledger) taken(d *draft) {
	for _, condition := range d.set {
		l.written[condition.Type].absent = false
	}
}

// find is the Node's condition of a type, nil if it has none.
func find(n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == kind {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

func statusOf(p *corev1.NodeCondition) corev1.ConditionStatus {
	if p == nil {
		return corev1.ConditionUnknown
	}
	return p.Status
}
