package nodestatus

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Reason and message of a standard condition after the withdrawal. No kubelet exists that could
// report better.
const (
	withdrawnReason  = "PlimsollWithdrew"
	withdrawnMessage = "pressure on this node is not reported: plimsoll is disarmed or was removed"
)

// disarmed reports whether only withdrawals are permitted.
func (c *Conditions) disarmed() bool { return c.Armed != nil && !c.Armed() }

// Kick makes the writer evaluate Armed without delay. It does not block.
func (c *Conditions) Kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Withdrawn reports whether all writes of the agent were removed from the Node.
func (c *Conditions) Withdrawn() bool { return c.withdrawn.Load() }

// withdraw removes all writes once: a condition without updates would stay as it was for ever.
func (c *Conditions) withdraw(ctx context.Context) error {
	if c.withdrawn.Load() {
		return nil
	}
	n, err := c.current(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	if d := c.ledger.withdraw(now, n, c.Owner(n), c.Inherited); !d.empty() {
		if err := c.patchStatus(ctx, d, n, now); err != nil {
			return err
		}
	}
	if _, tainted := taints(n.Spec.Taints, 0); tainted {
		if err := c.patchTaints(ctx, 0); err != nil {
			return err
		}
	}
	c.withdrawn.Store(true)
	return nil
}

// withdraw drafts the removal of everything that the agent wrote to a Node. Types of our own are
// removed. Standard types with True become False, if this ledger wrote them or, with inherited, a
// predecessor.
func (l *ledger) withdraw(now time.Time, n *corev1.Node, owners Owners, inherited bool) *draft {
	d := &draft{}
	for c := range signals.Condition(signals.ConditionCount) {
		if own := ownType(c); find(n, own) != nil {
			d.remove = append(d.remove, own)
			delete(l.written, own)
		}
		p, r := find(n, standardType(c)), l.written[standardType(c)]
		ours := r != nil && r.ours(p) || r == nil && inherited && owners[c] == StandardTypes
		if p == nil || p.Status != corev1.ConditionTrue || !ours {
			continue
		}
		d.set = append(d.set, corev1.NodeCondition{Type: p.Type, Status: corev1.ConditionFalse, Reason: withdrawnReason, Message: withdrawnMessage,
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now)})
	}
	return d
}
