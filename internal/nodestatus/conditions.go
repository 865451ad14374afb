package nodestatus

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/backoff"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// comparePeriod is the interval between comparisons of the Node with the desired conditions.
// They detect writes by others and a new kubelet. With an informer they cost no request.
const comparePeriod = 10 * time.Second

// writeBackoff is the delay after a failed write.
var writeBackoff = backoff.Bounds{Min: 500 * time.Millisecond, Max: 30 * time.Second}

// ConditionParts configures Conditions.
type ConditionParts struct {
	Client   api.Interface
	NodeName string
	// Node returns the Node from an informer, or nil while the informer is not synced. If Node is
	// nil, each comparison reads the Node from the API server.
	Node func() *corev1.Node
	// Owner returns the writer of each condition for the current Node.
	Owner func(*corev1.Node) Owners
	// Why explains the result of Owner for the log. Nil: the log has no explanation.
	Why func(*corev1.Node) string
	// Transition is the minimum time for which a condition stays True; see [Conditions.SetTransition].
	Transition time.Duration
	// Taint also sets the taint plimsoll.dev/memory-pressure:NoSchedule and the like for conditions
	// of types of our own.
	Taint  bool
	Events *Events // nil: none
	Log    *slog.Logger
	// Armed reports whether writes are permitted; nil: always. As soon as they are not, earlier
	// writes are withdrawn. A change of its result requires a call of [Conditions.Kick].
	Armed func() bool
	// Alive returns an error while the agent does not work, see [Heartbeat.Alive]; nil: it always
	// works. While Alive returns an error, a True is not renewed.
	Alive func(now time.Time) error
	// Inherited states that a predecessor on this node was armed, so that its writes may still be
	// on the Node.
	Inherited bool
}

// Conditions writes the node's pressure conditions.
//
// It requires the rights to get nodes and to patch nodes/status. Taints also require the right to
// patch nodes.
type Conditions struct {
	ConditionParts

	latest chan wanted   // one slot, the newest
	wake   chan struct{} // one slot: the desired conditions have changed
	// called and last belong to the caller of Set: whether it was called, and its last argument.
	called bool
	last   signals.ConditionSet

	// The following fields belong to the goroutine in Run.
	wanted    *wanted
	ledger    *ledger
	answer    *corev1.Node // of the last write
	uncertain bool         // the result of the last write is unknown
	fails     int          // successive
	tainted   error        // error of the last write of taints
	chosen    *Owners      // last logged owners

	written, failed atomic.Int64
	withdrawn       atomic.Bool
	transition      atomic.Int64 // nanoseconds
}

// NewConditions returns a writer; Run starts it.
func NewConditions(p ConditionParts) *Conditions {
	c := &Conditions{
		ConditionParts: p, ledger: newLedger(p.Transition),
		latest: make(chan wanted, 1), wake: make(chan struct{}, 1),
	}
	c.SetTransition(p.Transition)
	return c
}

// SetTransition replaces the transition period, from the next comparison on. It counts from the same
// transition of the Node. It is safe for concurrent use.
func (c *Conditions) SetTransition(d time.Duration) { c.transition.Store(int64(d)) }

// Set sets the desired conditions and their causes. It neither blocks nor allocates. All calls must
// come from one goroutine.
func (c *Conditions) Set(set signals.ConditionSet, crossings Crossings) {
	select {
	case <-c.latest: // not processed yet: replaced
	default:
	}
	c.latest <- wanted{set: set, crossings: crossings}
	if c.called && c.last == set {
		return // a changed message alone causes no write
	}
	c.called, c.last = true, set
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Counts returns the number of successful and of failed writes since the start.
func (c *Conditions) Counts() (written, failed int64) { return c.written.Load(), c.failed.Load() }

// Run writes conditions until ctx ends. Before the first Set it neither writes nor withdraws.
func (c *Conditions) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(c.round(ctx))
		wake := c.wake
		if c.fails > 0 {
			wake = nil // a backoff is not shortened by new desired conditions
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// round performs the writes that are due and returns the delay until the next round.
func (c *Conditions) round(ctx context.Context) time.Duration {
	select {
	case w := <-c.latest:
		c.wanted = &w
	default:
	}
	if c.wanted == nil { // no owners are determined before the first Set
		return comparePeriod
	}
	next, err := c.write(ctx)
	if err != nil {
		return c.backOff(ctx, err)
	}
	if c.fails > 0 {
		c.Log.Info("Resumed writing the node's conditions", "node", c.NodeName)
	}
	c.fails = 0
	return min(max(time.Until(next), 0), comparePeriod)
}

func (c *Conditions) backOff(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return 0 // ctx has ended
	}
	c.failed.Add(1)
	if c.fails == 0 {
		c.Log.Error("Failed to write the node's conditions, retrying", "node", c.NodeName, "error", err)
	}
	c.fails++
	return writeBackoff.Jittered(c.fails)
}

// write compares the Node with the desired conditions and writes the difference. In a disarmed
// agent it withdraws everything.
func (c *Conditions) write(ctx context.Context) (next time.Time, err error) {
	if c.disarmed() {
		return time.Now().Add(comparePeriod), c.withdraw(ctx)
	}
	c.withdrawn.Store(false)
	n, err := c.current(ctx)
	if err != nil {
		return next, err
	}
	now := time.Now()
	c.wanted.hung = c.Alive != nil && c.Alive(now) != nil
	c.ledger.transition = time.Duration(c.transition.Load())
	d := c.ledger.decide(now, n, c.owners(n), c.wanted)
	for _, notice := range d.notices {
		c.Log.Warn(notice, "node", c.NodeName)
	}
	if !d.empty() {
		if err := c.patchStatus(ctx, d, n, now); err != nil {
			return next, err
		}
	}
	c.writeTaints(ctx, d, n)
	return d.next, nil
}

// current returns a Node at least as new as the last own write to it.
func (c *Conditions) current(ctx context.Context) (*corev1.Node, error) {
	if c.Node != nil && !c.uncertain {
		if n, ok := newer(c.Node(), c.answer); ok {
			return n, nil
		}
	}
	n, err := c.read(ctx)
	c.uncertain = err != nil
	return n, err
}

func (c *Conditions) read(ctx context.Context) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, api.RequestTimeout)
	defer cancel()
	n, err := c.Client.Nodes().Get(ctx, c.NodeName, metav1.GetOptions{})
	if err != nil {
		return nil, api.Explain(err, "read the node "+c.NodeName, "get nodes")
	}
	return n, nil
}

// newer returns the newer of two versions of one object. ok is false if they cannot be compared.
func newer(seen, answer *corev1.Node) (n *corev1.Node, ok bool) {
	if seen == nil || answer == nil {
		return seen, seen != nil
	}
	order, err := resourceversion.CompareResourceVersion(seen.ResourceVersion, answer.ResourceVersion)
	if order < 0 {
		return answer, err == nil
	}
	return seen, err == nil
}

func (c *Conditions) patchStatus(ctx context.Context, d *draft, n *corev1.Node, now time.Time) error {
	patch, err := d.statusPatch()
	if err != nil {
		return err
	}
	c.ledger.sent(d, n, now)
	if err := c.patch(ctx, types.StrategicMergePatchType, patch, "status"); err != nil {
		return api.Explain(err, "write the conditions of the node "+c.NodeName, "patch nodes/status")
	}
	c.ledger.accepted(d)
	for _, change := range d.changes {
		if c.Events != nil {
			c.Events.changed(change)
		}
	}
	return nil
}

func (c *Conditions) patch(ctx context.Context, kind types.PatchType, patch []byte, subresource ...string) error {
	ctx, cancel := context.WithTimeout(ctx, api.RequestTimeout)
	defer cancel()
	answer, err := c.Client.Nodes().Patch(ctx, c.NodeName, kind, patch, metav1.PatchOptions{FieldManager: api.FieldOwner}, subresource...)
	if err != nil {
		c.uncertain = true
		return err
	}
	c.answer = answer
	c.written.Add(1)
	return nil
}
