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
	// refreshPeriod is the interval between writes of a condition without a change, as in the
	// kubelet (nodeStatusReportFrequency).
	refreshPeriod = 5 * time.Minute
	// renewalPeriod is the interval between writes of a type of our own with status True. Admission
	// by deploy/admission/kubelet-keeps-conditions.yaml ignores it one minute after the last write.
	renewalPeriod = 20 * time.Second
	// apiSecond is the resolution of times in a condition: the API truncates them to seconds.
	apiSecond = time.Second
)

// ledger computes the next write of a Node's conditions. It stores its own writes, in order to
// recognise those of others. It uses neither a clock nor the network. A new ledger needs only the
// Node to continue.
//
// Rules for the types that it owns, in this order:
//
//  1. If another program changed a type since our write: a standard type with True or False is
//     given up for good, in favour of a type of our own. Any other type (set to Unknown by a node
//     lifecycle controller, or one of our own) is written at most once per transition period.
//  2. True is written at once.
//  3. False is written at once over a missing condition and over Unknown. Over True it is
//     written once the transition period has passed since the Node's transition to True.
//  4. An unchanged condition is refreshed every refreshPeriod; a True of a type of our own
//     every renewalPeriod, unless the agent hangs.
type ledger struct {
	transition time.Duration
	uid        types.UID // of the Node that the fields below belong to
	written    map[corev1.NodeConditionType]*trace
	yielded    [signals.ConditionCount]bool // another program writes the standard type
}

func newLedger(transition time.Duration) *ledger {
	return &ledger{transition: transition, written: map[corev1.NodeConditionType]*trace{}}
}

// maxRemembered bounds the stored states of a type. More than one are needed only for lost
// responses and stale views of the Node.
const maxRemembered = 16

// trace is the set of states of one type that our own writes explain: the written ones and, because
// a write may have been lost, the previous one.
type trace struct {
	views  []corev1.NodeCondition // latest states, oldest first
	absent bool                   // a missing condition is explained too
	at     time.Time              // time of the last write
}

// ours reports whether the condition on the Node can result from our own writes.
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

// draft is the next write.
type draft struct {
	set     []corev1.NodeCondition
	remove  []corev1.NodeConditionType
	changes []change  // visible changes of status
	notices []string  // messages for the log, each once
	next    time.Time // time of the next decision without new input
	// own are the conditions with types of our own; pressed those of them that are True after the
	// write.
	own, pressed signals.ConditionSet
}

// change is the transition of a condition to True or False.
type change struct {
	condition signals.Condition
	pressed   bool
}

func (d *draft) empty() bool { return len(d.set) == 0 && len(d.remove) == 0 }

// again requests a new decision at a time.
func (d *draft) again(at time.Time) {
	if at.Before(d.next) {
		d.next = at
	}
}

// decide compares the Node with the desired conditions. n must not be older than the last
// acknowledged write.
func (l *ledger) decide(now time.Time, n *corev1.Node, owners Owners, w *wanted) *draft {
	if n.UID != l.uid { // another Node of this name: no writes yet
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

// owner replaces a standard type that another program writes (rule 1).
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
	d.notices = append(d.notices, fmt.Sprintf("another program writes the condition %s of the node (now %s, reason %s): the agent reports %s instead; "+
		"select the writer with --pressure-conditions", kind, p.Status, p.Reason, ownType(c)))
	return OwnTypes
}

// entry decides about one type and returns its status after the write.
func (l *ledger) entry(d *draft, now time.Time, c signals.Condition, kind corev1.NodeConditionType, n *corev1.Node, w *wanted) corev1.ConditionStatus {
	p, want := find(n, kind), w.condition(c, kind, l.transition)
	if at := l.standOff(kind, p); now.Before(at) {
		d.again(at)
		return statusOf(p)
	}
	switch status := statusOf(p); {
	case status == want.Status:
		l.refresh(d, now, p, want, w.period(c, want))
	case status == corev1.ConditionTrue && want.Status == corev1.ConditionFalse && l.inTransition(d, now, p):
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

// standOff returns the time before which a type changed by another program is not written (rule 1);
// zero for a type without such a change.
func (l *ledger) standOff(kind corev1.NodeConditionType, p *corev1.NodeCondition) time.Time {
	if r := l.written[kind]; r != nil && !r.ours(p) {
		return r.at.Add(l.transition)
	}
	return time.Time{}
}

// inTransition reports whether a True is too young to be cleared (rule 3).
func (l *ledger) inTransition(d *draft, now time.Time, p *corev1.NodeCondition) bool {
	until := p.LastTransitionTime.Add(l.transition + apiSecond)
	if !now.Before(until) {
		return false
	}
	d.again(until)
	return true
}

// period returns the refresh interval of a condition (rule 4). A hung agent does not renew True:
// the renewals would confirm a pressure without a measurement.
func (w *wanted) period(c signals.Condition, want corev1.NodeCondition) time.Duration {
	if want.Type == ownType(c) && want.Status == corev1.ConditionTrue && !w.hung {
		return renewalPeriod
	}
	return refreshPeriod
}

// refresh rewrites a condition with unchanged status once a period has passed. It corrects times in
// the future, left by a clock that was set back: they would keep the condition True until then.
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

// sent stores a draft before it is written over n, whatever the result.
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

// accepted records that the API server accepted a draft.
func (l *ledger) accepted(d *draft) {
	for _, condition := range d.set {
		l.written[condition.Type].absent = false
	}
}

// find returns the Node's condition of a type, or nil.
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
