package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/kube/slimpods"
)

// send makes one request on its turn, within the timeout. The client's own retries are
// off: they would wait outside of the budget.
func (t *task) send(ctx context.Context, r *rest.Request, into runtime.Object) error {
	if err := t.await(ctx); err != nil {
		return err
	}
	t.paid, t.granted = false, false
	began := time.Now()
	if !t.lock.holds(began) {
		return errNotLeading
	}
	ctx, cancel := context.WithTimeout(ctx, t.settings.RequestTimeout)
	defer cancel()
	answer := r.MaxRetries(0).Do(ctx)
	err := answer.Error()
	if err == nil && into != nil {
		err = answer.Into(into)
	}
	t.parts.Meters.request(t.class, t.waited, time.Since(began), resultOf(err))
	return err
}

func (t *task) core() rest.Interface { return t.parts.Writing.Core() }

// readLease returns when the node's lease was renewed, past any cache; zero if there is
// none.
func (t *task) readLease(ctx context.Context) (renewed time.Time, err error) {
	l := &coordinationv1.Lease{}
	r := t.parts.Writing.Coordination().Get().
		Namespace(corev1.NamespaceNodeLease).Resource("leases").Name(t.Node)
	switch err := t.send(ctx, r, l); {
	case isGone(err):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("read the lease of node %s: %w", t.Node, err)
	case l.Spec.RenewTime == nil:
		return time.Time{}, nil
	}
	return l.Spec.RenewTime.Time, nil
}

// readNode returns the node, past any cache.
func (t *task) readNode(ctx context.Context) (*corev1.Node, error) {
	n := &corev1.Node{}
	if err := t.send(ctx, t.core().Get().Resource("nodes").Name(t.Node), n); err != nil {
		return nil, fmt.Errorf("read node %s: %w", t.Node, err)
	}
	if uid := t.object().UID; uid != "" && string(n.UID) != uid {
		return nil, fmt.Errorf("read node %s: it is another one by now: UID %s instead of %s", t.Node, n.UID, uid)
	}
	return n, nil
}

// readPod returns the fields of the pod that are read, past any cache; nil if it is
// gone.
func (t *task) readPod(ctx context.Context) (*corev1.Pod, error) {
	p := &slimpods.Pod{}
	err := t.send(ctx, t.core().Get().Namespace(t.Pod.Namespace).Resource("pods").Name(t.Pod.Name), p)
	switch {
	case isGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read pod %s: %w", t.Pod.Key(), err)
	case string(p.UID) != t.Pod.UID:
		return nil, nil
	}
	return &p.Pod, nil
}

// patchNode patches the node, or its status.
func (t *task) patchNode(ctx context.Context, kind types.PatchType, subresource string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode a patch of node %s: %w", t.Node, err)
	}
	r := t.core().Patch(kind).Resource("nodes").Name(t.Node)
	if subresource != "" {
		r = r.SubResource(subresource)
	}
	if err := t.send(ctx, r.Body(text), nil); err != nil {
		return fmt.Errorf("patch node %s %s: %w", t.Node, subresource, err)
	}
	return nil
}

// patchPodStatus patches the status of the pod. A deleted pod is no error.
func (t *task) patchPodStatus(ctx context.Context, s podStatus) (gone bool, err error) {
	text, err := json.Marshal(podPatch{Metadata: precondition{UID: t.Pod.UID}, Status: s})
	if err != nil {
		return false, fmt.Errorf("encode a patch of pod %s: %w", t.Pod.Key(), err)
	}
	err = t.send(ctx, t.core().Patch(types.StrategicMergePatchType).Namespace(t.Pod.Namespace).
		Resource("pods").Name(t.Pod.Name).SubResource("status").Body(text), nil)
	switch {
	case isGone(err) || isOtherUID(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("patch the status of pod %s: %w", t.Pod.Key(), err)
	}
	return false, nil
}

// deletePod deletes the pod with its own grace period. A deleted pod is no error.
func (t *task) deletePod(ctx context.Context) error { return t.deletePodAt(ctx, nil) }

// deletePodAt does the same if the pod still has the version; nil stands for any.
func (t *task) deletePodAt(ctx context.Context, version *string) error {
	if err := t.confirm(ctx); err != nil {
		return err
	}
	uid := types.UID(t.Pod.UID)
	err := t.send(ctx, t.core().Delete().Namespace(t.Pod.Namespace).Resource("pods").Name(t.Pod.Name).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: version}}), nil)
	return t.ended(ctx, "delete", err)
}

// requestEviction creates a policy/v1 Eviction, with the pod's own grace period if grace is nil. A
// deleted pod is no error.
func (t *task) requestEviction(ctx context.Context, grace *int64) error {
	if err := t.confirm(ctx); err != nil {
		return err
	}
	uid := types.UID(t.Pod.UID)
	err := t.send(ctx, t.core().Post().Namespace(t.Pod.Namespace).Resource("pods").Name(t.Pod.Name).SubResource("eviction").
		VersionedParams(&metav1.CreateOptions{}, api.ParameterCodec).
		Body(&policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: t.Pod.Namespace, Name: t.Pod.Name},
			DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &uid}},
		}), nil)
	return t.ended(ctx, "request the eviction of", err)
}

// ended returns the result of a request to end the pod. A conflict is about its UID,
// unless the pod exists.
func (t *task) ended(ctx context.Context, doing string, err error) error {
	if err == nil || isGone(err) {
		return nil
	}
	if apierrors.IsConflict(err) {
		if p, failed := t.readPod(ctx); failed == nil && p == nil {
			return nil
		}
	}
	return fmt.Errorf("%s pod %s: %w", doing, t.Pod.Key(), err)
}

// result is the outcome of a request.
type result uint8

const (
	requestOK result = iota
	// requestDeclined: the object is gone or has changed, or a PodDisruptionBudget
	// forbids the eviction. Each is an ordinary answer, and no fault.
	requestDeclined
	requestFailed
)

var resultNames = [...]string{requestOK: "ok", requestDeclined: "declined", requestFailed: "failed"}

// Results returns the names of the results of requests.
func Results() []string { return resultNames[:] }

// resultOf returns the result of a request that ended with err. A 429 is declined only if a
// budget is its cause; any other is from an overloaded server.
func resultOf(err error) result {
	switch {
	case err == nil:
		return requestOK
	case isGone(err), isOtherUID(err), apierrors.IsConflict(err), apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return requestDeclined
	}
	return requestFailed
}

// isGone reports whether the API server has no such object. A 404 without a reason is
// from another server.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

// isOtherUID reports whether a patch was refused because the object has another UID
// than the patch.
func isOtherUID(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == "metadata.uid" {
			return true
		}
	}
	return false
}
