package lifecycle

import (
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// heldBy returns a lease of the leader with a holder, renewed at a time of the holder's clock.
func heldBy(holder string, renewed time.Time) *coordinationv1.Lease {
	at, seconds, transitions := metav1.NewMicroTime(renewed), int32(15), int32(4)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "plimsoll-controller", Annotations: map[string]string{"kept": "yes"}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &at, RenewTime: &at, LeaseTransitions: &transitions,
		},
	}
}

func TestLock_AcquiresUnheldLease(t *testing.T) {
	for name, c := range map[string]struct {
		lease       *coordinationv1.Lease // at the start; nil: none
		change      time.Duration         // interval of renewals by its holder; 0: never
		after       time.Duration         // until it is acquired; 0: never
		transitions int32
	}{
		"missing lease":               {nil, 0, 1, 0},
		"released lease":              {heldBy("", time.Unix(0, 0)), 0, 1, 5},
		"own lease of an earlier run": {heldBy("own", time.Unix(0, 0)), 0, 1, 4},
		"lease renewed long ago":      {heldBy("other", time.Unix(0, 0)), 0, 15 * time.Second, 5},
		"lease of a fast clock":       {heldBy("other", time.Unix(1<<36, 0)), 0, 15 * time.Second, 5},
		"renewed lease":               {heldBy("other", time.Unix(0, 0)), 14 * time.Second, 0, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newEnv(t)
				r.settings.Election.Identity = "own"
				if c.lease != nil {
					r.with(func() { r.store("leases", c.lease.DeepCopy()) })
				}
				l := New(withElections(r.settings), r.policy, r.parts()).lock
				began, acquired, renewals := time.Now(), time.Duration(0), 0
				for ; acquired == 0 && time.Since(began) < time.Minute; r.until(time.Since(began) + time.Second) {
					if now := int(time.Since(began) / max(c.change, 1)); c.change > 0 && now > renewals {
						renewals = now
						r.with(func() { r.store("leases", heldBy("other", time.Unix(int64(now), 0))) })
					}
					if l.try(t.Context(), time.Time{}) {
						acquired = max(time.Since(began), 1)
					}
				}
				if acquired != c.after {
					t.Errorf("got the lease after %s, want %s", acquired, c.after)
				}
				lease := r.leaderLease(t)
				if got := *lease.Spec.LeaseTransitions; got != c.transitions {
					t.Errorf("got %d transitions, want %d", got, c.transitions)
				}
				if c.lease != nil && lease.Annotations["kept"] != "yes" {
					t.Error("the annotations of the lease were removed")
				}
				if l.holds(time.Now()) != (c.after != 0) {
					t.Errorf("holds: got %v, want %v", l.holds(time.Now()), c.after != 0)
				}
			})
		})
	}
}

func TestLock_LosesToAnotherWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.settings.Election.Identity = "own"
		l := New(withElections(r.settings), r.policy, r.parts()).lock
		if !l.try(t.Context(), time.Time{}) || l.taken() {
			t.Fatal("the missing lease was not acquired")
		}
		r.with(func() { r.store("leases", heldBy("other", time.Now())) })
		if l.try(t.Context(), time.Time{}) {
			t.Error("a conflict counted as a renewal")
		}
		if l.try(t.Context(), time.Time{}) || !l.taken() {
			t.Error("the other holder was not detected")
		}
		l.release(t.Context())
		if got := *r.leaderLease(t).Spec.HolderIdentity; got != "other" {
			t.Errorf("the lease of another holder was released: %q", got)
		}
	})
}

func TestLock_ReleaseLetsASuccessorStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.settings.Election.Identity = "own"
		l := New(withElections(r.settings), r.policy, r.parts()).lock
		if !l.try(t.Context(), time.Time{}) {
			t.Fatal("the missing lease was not acquired")
		}
		l.release(t.Context())
		if l.holds(time.Now()) {
			t.Error("the released lease is held")
		}
		r.settings.Election.Identity = "next"
		next := New(withElections(r.settings), r.policy, r.parts()).lock
		if !next.try(t.Context(), time.Time{}) {
			t.Error("the successor did not acquire the released lease")
		}
		if lease := r.leaderLease(t); *lease.Spec.HolderIdentity != "next" || *lease.Spec.LeaseTransitions != 1 {
			t.Errorf("got lease %+v", lease.Spec)
		}
	})
}

// leaderLease returns the lease of the leader as the server has it.
func (r *env) leaderLease(t *testing.T) (lease *coordinationv1.Lease) {
	t.Helper()
	r.with(func() { lease, _ = r.objects["leases"][system+"/plimsoll-controller"].(*coordinationv1.Lease) })
	if lease == nil {
		t.Fatal("the lease is missing")
	}
	return lease
}
