package heartbeat

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/backoff"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

const (
	// LeaseDuration is the validity of a lease, as in the kubelet.
	LeaseDuration = 40 * time.Second
	// RenewPeriod is the interval between renewals. It is shortened at random by up to a tenth, so
	// that the nodes of a cluster do not synchronise.
	RenewPeriod = LeaseDuration / 4
	// delayedPeriod is the interval between attempts while a renewal is not permitted.
	delayedPeriod = time.Second
)

// renewBackoff is the delay after a failed renewal.
var renewBackoff = backoff.Bounds{Min: 200 * time.Millisecond, Max: 7 * time.Second}

// claim is the desired content of a lease.
type claim struct {
	namespace, name, holder string
	owner                   *corev1.Node // nil: not known yet
	annotations             map[string]string
}

// renewed returns the lease to write now: old with a new renewal time, holder and annotations of
// our own, everything else unchanged. If old is nil, the lease is new.
//
// A renewal time never decreases a little: observers that compare it would miss the renewal. A time
// far in the future, left by a clock that was set back, is corrected: it would keep the node alive
// long after its end.
func renewed(old *coordinationv1.Lease, want *claim, now time.Time) *coordinationv1.Lease {
	l := old.DeepCopy()
	if l == nil {
		l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: want.namespace, Name: want.name}}
	}
	if r := l.Spec.RenewTime; r != nil && !now.After(r.Time) && now.Add(LeaseDuration).After(r.Time) {
		now = r.Add(time.Microsecond)
	}
	renewal, seconds, holder := metav1.NewMicroTime(now), int32(LeaseDuration/time.Second), want.holder
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != holder {
		l.Spec.AcquireTime = &renewal
	}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &holder, &seconds, &renewal
	if want.owner != nil {
		// Owned by its Node, the lease is deleted with it. Otherwise leases of removed nodes
		// accumulate.
		l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: want.owner.Name, UID: want.owner.UID}}
	}
	l.Annotations = annotated(l.Annotations, want.annotations)
	return l
}

// annotated returns old with our annotations replaced by ours. The last eviction stays until there is
// a later one: a restarted agent has none yet.
func annotated(old, ours map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, old)
	maps.DeleteFunc(all, func(key, _ string) bool { return strings.HasPrefix(key, api.Prefix) && key != AnnotationLastEviction })
	maps.Copy(all, ours)
	return all
}

// renewer renews one lease.
type renewer struct {
	leases api.Resource[*coordinationv1.Lease, *coordinationv1.LeaseList]
	what   string // name in log messages
	cached *coordinationv1.Lease
	fails  int // successive
}

// renew writes the lease once. After a conflicting write it calls recheck and retries at once, up
// to api.MaxConflicts attempts.
func (r *renewer) renew(ctx context.Context, want *claim, recheck func(context.Context) error) error {
	for try := range api.MaxConflicts {
		if try > 0 {
			if err := recheck(ctx); err != nil {
				return err
			}
		}
		l, err := r.write(ctx, want)
		if err == nil {
			r.cached = l
			return nil
		}
		deleted := apierrors.IsNotFound(err) && r.cached != nil
		r.cached = nil // read it again
		if !deleted && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return r.explain(err, want)
		}
	}
	return fmt.Errorf("renew %s: others wrote to the lease %s/%s %d times meanwhile: let one agent run on a node",
		r.what, want.namespace, want.name, api.MaxConflicts)
}

func (r *renewer) write(ctx context.Context, want *claim) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, api.RequestTimeout)
	defer cancel()
	old := r.cached
	if old == nil {
		var err error
		old, err = r.leases.Get(ctx, want.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return r.leases.Create(ctx, renewed(nil, want, time.Now()), metav1.CreateOptions{FieldManager: api.FieldOwner})
		case err != nil:
			return nil, err
		}
	}
	return r.leases.Update(ctx, renewed(old, want, time.Now()), metav1.UpdateOptions{FieldManager: api.FieldOwner})
}

func (r *renewer) explain(err error, want *claim) error {
	attempt := fmt.Sprintf("renew %s, the lease %s/%s", r.what, want.namespace, want.name)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s: %w: the namespace %s has to exist", attempt, err, want.namespace)
	}
	return api.Explain(err, attempt, "get, create and update leases in the namespace "+want.namespace)
}

// pause returns the delay after an attempt.
func (r *renewer) pause(err error) time.Duration {
	if err == nil {
		r.fails = 0
		return RenewPeriod - rand.N(RenewPeriod/10)
	}
	r.fails++
	return renewBackoff.Jittered(r.fails)
}
