package podstatus

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// direct creates an Eviction on the API server. For a pod that has not started yet, the server
// takes 10 s to refuse another UID.
type direct struct{ client api.Interface }

func (d *direct) Request(ctx context.Context, n Notice, grace int64) (Answer, error) {
	err := d.evict(ctx, &n, max(grace, 1))
	switch a := answerTo(err); {
	case a == done:
		return Answer{Outcome: Evicting}, nil
	case a == gone:
		return Answer{Outcome: Gone}, nil
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return Answer{Refused, causeMessage(err, policyv1.DisruptionBudgetCause), retryAfter(err)}, nil
	case a == changed && d.gone(ctx, &n):
		return Answer{Outcome: Gone}, nil
	case ofThisRequest(err): // such as two budgets for one pod
		return refusal(err), nil
	}
	return Answer{}, fmt.Errorf("request the eviction of pod %s: %w", n.Pod(), err)
}

func (d *direct) evict(ctx context.Context, n *Notice, grace int64) error {
	uid := types.UID(n.UID)
	e := &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Name},
		DeleteOptions: &metav1.DeleteOptions{
			GracePeriodSeconds: &grace,
			Preconditions:      &metav1.Preconditions{UID: &uid},
		},
	}
	return d.client.Core().Post().
		Namespace(n.Namespace).Resource("pods").Name(n.Name).SubResource("eviction").
		VersionedParams(&metav1.CreateOptions{}, api.ParameterCodec).
		MaxRetries(0).Body(e).Do(ctx).Error()
}

// gone reports whether a conflict was about the UID.
func (d *direct) gone(ctx context.Context, n *Notice) bool {
	pod, err := read(ctx, d.client, n)
	a := answerTo(err)
	return a == gone || a == done && string(pod.UID) != n.UID
}

// Withdraw does nothing: a deletion cannot be withdrawn.
func (d *direct) Withdraw(context.Context, Notice) error { return nil }
