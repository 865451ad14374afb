package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/eviction/signals"
)

const (
	// lookPeriod is how often the Node is looked at for what others wrote and
	// for a kubelet that came. It costs no request where an informer has it.
	lookPeriod = 10 * time.Second
	// requestTimeout bounds one request to the API server.
	requestTimeout = 8 * time.Second
	// Tries after a failure come at growing intervals between these two.
	firstRetry, lastRetry = 500 * time.Millisecond, 30 * time.Second
	// fieldManager is who the API server says wrote.
	fieldManager = "plimsoll-agent"
)

// ConditionParts are what the writer of conditions is made of.
type ConditionParts struct {
	Client   kubernetes.Interface
	NodeName string
	// Node is the Node as an informer knows it, nil while it does not. Without
	// the function the Node is read whenever it is looked at.
	Node func() *corev1.Node
	// Owner says who reports each condition of the node as it is now.
	Owner func(*corev1.Node) Owners
	// Why says why they do, for the log; nil: it is not told.
	Why func(*corev1.Node) string
	// Transition is how long a condition stays True at least.
	Transition time.Duration
	// Taint: conditions told by types of our own are also taints
	// plimsoll.dev/memory-pressure:NoSchedule and the like.
	Taint  bool
	Events *Events // nil: none
	Log    *slog.Logger
	// Armed says whether anything may be written; nil: it may. As soon as it may
	// not, what was written is taken back. Who is told of a change has to call
	// [Conditions.Kick].
	Armed func() bool
	// Alive says what is wrong with the agent, see [Heartbeat.Alive]; nil: nothing
	// ever is. While it hangs, a True is not renewed.
	Alive func(now time.Time) error
	// Inherited: an armed agent was here before this one, and what it wrote may
	// stand on the Node.
	Inherited bool
}

// Conditions writes the node's pressure conditions.
//
// It needs the rights to get nodes and to patch nodes/status; to patch nodes
// only for taints.
type Conditions struct {
	ConditionParts

	latest chan wanted   // one slot, the newest
	wake   chan struct{} // one slot: what is wanted has changed
	// Of the caller of Set: whether it was called, and with what.
	called bool
	last   signals.ConditionSet

	// Of the goroutine in Run.
	wanted  *wanted
	ledger  *ledger
	answer  *corev1.Node // of the last write
	doubt   bool         // whether the last write was made, nobody knows
	retry   time.Duration
	failing bool    // and it was told
	tainted error   // what the last write of taints ended with
	chosen  *Owners // that were told of

	written, failed atomic.Int64
	withdrawn       atomic.Bool
}

// NewConditions prepares a writer; Run writes.
func NewConditions(p ConditionParts) *Conditions {
	return &Conditions{
		ConditionParts: p, ledger: newLedger(p.Transition),
		latest: make(chan wanted, 1), wake: make(chan struct{}, 1),
	}
}

// Set says which conditions are True, and why. It does not wait and does
// not allocate. It must be called by one goroutine.
func (c *Conditions) Set(set signals.ConditionSet, crossings Crossings) {
	select {
	case <-c.latest: // not taken yet: replaced
	default:
	}
	c.latest <- wanted{set: set, crossings: crossings}
	if c.called && c.last == set {
		return // a new message alone is worth no write
	}
	c.called, c.last = true, set
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Counts are how often the API server took a write, and how often a try
// failed, since the start.
func (c *Conditions) Counts() (written, failed int64) { return c.written.Load(), c.failed.Load() }

// Run writes until ctx ends. Nothing is written before the first Set, and nothing
// taken back.
func (c *Conditions) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(c.round(ctx))
		wake := c.wake
		if c.retry > 0 {
			wake = nil // the newest counts at the next try, which comes when it comes
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

// round does what is to be done now, and returns when to look again.
func (c *Conditions) round(ctx context.Context) time.Duration {
	select {
	case w := <-c.latest:
		c.wanted = &w
	default:
	}
	if c.wanted == nil { // the first look also knows whose conditions are whose
		return lookPeriod
	}
	next, err := c.write(ctx)
	if err != nil {
		return c.backOff(ctx, err)
	}
	if c.failing {
		c.Log.Info("the node's conditions are written again", "node", c.NodeName)
	}
	c.retry, c.failing = 0, false
	return min(max(time.Until(next), 0), lookPeriod)
}

func (c *Conditions) backOff(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return 0 // it is over
	}
	c.failed.Add(1)
	if !c.failing {
		c.Log.Error("the node's conditions can not be written; it is tried again", "node", c.NodeName, "error", err)
	}
	c.failing = true
	c.retry = min(max(2*c.retry, firstRetry), lastRetry)
	return c.retry - rand.N(c.retry/4)
}

// write compares the Node with what is wanted, and writes the difference; in a
// disarmed agent, what takes everything back.
func (c *Conditions) write(ctx context.Context) (next time.Time, err error) {
	if c.silent() {
		return time.Now().Add(lookPeriod), c.withdraw(ctx)
	}
	c.withdrawn.Store(false)
	n, err := c.look(ctx)
	if err != nil {
		return next, err
	}
	now := time.Now()
	c.wanted.hung = c.Alive != nil && c.Alive(now) != nil
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

// look returns the Node, at least as new as our last write to it.
func (c *Conditions) look(ctx context.Context) (*corev1.Node, error) {
	if c.Node != nil && !c.doubt {
		if n, ok := newer(c.Node(), c.answer); ok {
			return n, nil
		}
	}
	n, err := c.read(ctx)
	c.doubt = err != nil
	return n, err
}

func (c *Conditions) read(ctx context.Context) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	n, err := c.Client.CoreV1().Nodes().Get(ctx, c.NodeName, metav1.GetOptions{})
	if err != nil {
		return nil, explain(err, "read the node "+c.NodeName, "get nodes")
	}
	return n, nil
}

// newer is the newer of two views of one object; ok is false if that can not be
// told.
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
		return explain(err, "write the conditions of the node "+c.NodeName, "patch nodes/status")
	}
	c.ledger.taken(d)
	for _, change := range d.changes {
		if c.Events != nil {
			c.Events.changed(change)
		}
	}
	return nil
}

func (c *Conditions) patch(ctx context.Context, kind types.PatchType, patch []byte, subresource ...string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := c.Client.CoreV1().Nodes().Patch(ctx, c.NodeName, kind, patch, metav1.PatchOptions{FieldManager: fieldManager}, subresource...)
	if err != nil {
		c.doubt = true
		return err
	}
	c.answer = answer
	c.written.Add(1)
	return nil
}

// explain says what was attempted and, where a right is missing, which. Of nil
// it makes nil.
func explain(err error, attempt, right string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w: grant the agent's service account the right to %s", attempt, err, right)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w: the API server did not answer within %s", attempt, err, requestTimeout)
	}
	return fmt.Errorf("%s: %w", attempt, err)
}
