package lifecycle

import (
	"context"
	"reflect"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// lock is the lease of the leader, in the form of client-go's leader election: either can take over
// from the other. It relies on the local clock alone: the lease of another process is valid for its
// duration after the last change that was observed here (docs/internals/decisions/038).
type lock struct {
	leases          api.Resource[*coordinationv1.Lease, *coordinationv1.LeaseList]
	namespace, name string
	identity        string
	link            *link
	leaseDuration   time.Duration

	// Of the goroutine that runs for the leadership.
	lease   *coordinationv1.Lease // as read or written last; nil: there is none
	changed time.Time             // when its content changed last
	current bool                  // false: another version may exist, and is read first

	mu      sync.Mutex
	former  time.Time // renewal by the holder at the latest read
	renewed time.Time // start of our own latest successful renewal
}

func (c *Controller) newLock() *lock {
	s := &c.settings.Election
	return &lock{
		leases: c.parts.Electing.Leases(s.Namespace), namespace: s.Namespace, name: s.Name, identity: s.Identity,
		link: c.link("the lease of the leader"), leaseDuration: s.LeaseDuration,
	}
}

// try acquires or renews the lease until end, and reports whether this process holds it now. A
// zero end leaves the bound to the client.
func (l *lock) try(ctx context.Context, end time.Time) bool {
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if !end.IsZero() {
		bounded, cancel = context.WithDeadline(ctx, end)
	}
	defer cancel()
	holds, err := l.attempt(bounded)
	l.observe(ctx, err)
	return holds
}

func (l *lock) attempt(ctx context.Context) (holds bool, err error) {
	began := time.Now()
	if !l.current || !l.mine() {
		if err := l.read(ctx); err != nil {
			return false, err
		}
		if l.taken() && time.Now().Before(l.changed.Add(l.duration())) {
			return false, nil
		}
	}
	if err := l.write(ctx, l.next(time.Now())); err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = began
	return true, nil
}

// read reads the lease. A missing one is no error.
func (l *lock) read(ctx context.Context) error {
	lease, err := l.leases.Get(ctx, l.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = nil, nil
	}
	if err != nil {
		return err
	}
	if lease != nil && (l.lease == nil || !reflect.DeepEqual(lease.Spec, l.lease.Spec)) {
		l.changed = time.Now()
	}
	l.lease, l.current = lease, true
	l.mu.Lock()
	defer l.mu.Unlock()
	l.former = time.Time{}
	if lease != nil && lease.Spec.RenewTime != nil {
		l.former = lease.Spec.RenewTime.Time
	}
	return nil
}

// next returns the lease with this process as its holder.
func (l *lock) next(now time.Time) *coordinationv1.Lease {
	lease, at, seconds := l.lease.DeepCopy(), metav1.NewMicroTime(now), int32(l.leaseDuration/time.Second)
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.name}}
	}
	if !l.mine() {
		transitions := int32(0)
		if t := lease.Spec.LeaseTransitions; t != nil {
			transitions = *t + 1
		}
		lease.Spec.AcquireTime, lease.Spec.LeaseTransitions = &at, &transitions
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &l.identity, &seconds, &at
	return lease
}

// write creates or updates the lease. A write with an error can have succeeded: the next attempt
// reads the lease first.
func (l *lock) write(ctx context.Context, lease *coordinationv1.Lease) (err error) {
	l.current = false
	if l.lease == nil {
		lease, err = l.leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease, err = l.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err == nil {
		l.lease, l.changed, l.current = lease, time.Now(), true
	}
	return err
}

// release removes this process as the holder, so that a successor starts at once.
func (l *lock) release(ctx context.Context) {
	if !l.current || !l.mine() {
		return
	}
	l.mu.Lock()
	l.renewed = time.Time{}
	l.mu.Unlock()
	lease, at, none, seconds := l.lease.DeepCopy(), metav1.NewMicroTime(time.Now()), "", int32(1)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &none, &seconds
	lease.Spec.AcquireTime, lease.Spec.RenewTime = &at, &at
	l.observe(ctx, l.write(ctx, lease))
}

// holder returns the identity of the holder; empty without one.
func (l *lock) holder() string {
	if l.lease == nil || l.lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.lease.Spec.HolderIdentity
}

func (l *lock) mine() bool { return l.holder() == l.identity }

// taken reports whether another process held the lease when it was read last.
func (l *lock) taken() bool { return l.holder() != "" && !l.mine() }

// duration returns the validity of the lease after a change, which its holder has set.
func (l *lock) duration() time.Duration {
	if s := l.lease.Spec.LeaseDurationSeconds; s != nil && *s > 0 {
		return time.Duration(*s) * time.Second
	}
	return l.leaseDuration
}

// observe passes failures on to the link. A missing lease and a conflict are none.
func (l *lock) observe(ctx context.Context, err error) {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = nil
	}
	l.link.observe(ctx, err)
}

// before returns when the former leader renewed its lease last, by its own clock and
// not later than now; zero if there was none.
func (l *lock) before() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.former.After(now) {
		return now
	}
	return l.former
}

// holds reports whether no other process can have become the leader yet. It is checked
// before each write, because a process that was stopped for a while has not noticed
// yet. Without elections it is always true.
func (l *lock) holds(now time.Time) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	byWallClock := now.Round(0).Sub(l.renewed.Round(0)) // includes the sleep of a machine
	return max(now.Sub(l.renewed), byWallClock) < l.leaseDuration
}
