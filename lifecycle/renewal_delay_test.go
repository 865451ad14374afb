package lifecycle

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRenewal_CountsFromArrival checks that a renewal in the inbox at the node's deadline
// keeps the node alive. The next deadline is a grace period after its arrival.
func TestRenewal_CountsFromArrival(t *testing.T) {
	const came, grace = 49700 * time.Millisecond, 50 * time.Second // it would be delayed until 50.7 s
	for name, reads := range map[string]bool{"watches only": false, "live reads": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newEnv(t)
				r.policy.Confirmation.LiveReads = reads
				for _, name := range []string{"a", "b", "c"} {
					r.node(name)
				}
				r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
				r.start()
				r.until(came)
				r.renew(corev1.NamespaceNodeLease, "a") // for the last time
				r.until(came + grace - time.Millisecond)
				if got := r.lines("mark-unknown", "taint", "mark-not-ready", "evict"); got != "" {
					t.Errorf("got decisions within the grace period:\n%s", got)
				}
				if got := r.seenRequests(); len(got) > 0 {
					t.Errorf("got requests %v for a renewed node", got)
				}
				r.until(came + grace + slack)
				if got := conditionOf(r.live("a"), corev1.NodeReady).Status; got != corev1.ConditionUnknown {
					t.Errorf("after the grace period: got Ready %s, want Unknown", got)
				}
			})
		})
	}
}

// TestAgentRenewal_CountsFromArrival checks that the remains of a dead agent are removed a
// grace period after the arrival of its last renewal, not after it was read.
func TestAgentRenewal_CountsFromArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const came, grace = 39600 * time.Millisecond, 40 * time.Second
		r := newEnv(t)
		r.node("a", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "plimsoll.dev/MemoryPressure", Status: corev1.ConditionTrue})
		})
		r.renew(system, "a")
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "a")
		r.start()
		r.until(came)
		r.renew(system, "a")
		r.until(came + grace - time.Millisecond)
		if got := r.lines("cleanup-agent"); got != "" {
			t.Errorf("got decisions within the grace period:\n%s", got)
		}
		r.until(came + grace + slack)
		if got := r.lines("cleanup-agent"); got == "" {
			t.Error("got no cleanup after the grace period")
		}
	})
}

// TestController_WakesOncePerSecondWhenIdle checks that renewals are read in batches, and that
// neither they nor the deadlines that they moved cause further wake-ups.
func TestController_WakesOncePerSecondWhenIdle(t *testing.T) {
	for _, nodes := range []int{1, 7, 40, 200} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rounds atomic.Int64
				r := newEnv(t)
				r.meters.Checked = func(time.Duration) { rounds.Add(1) }
				for i := range nodes {
					name := fmt.Sprint("n", i)
					r.node(name)
					time.AfterFunc(time.Duration(i)*10*time.Second/time.Duration(nodes), func() {
						r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, name)
					})
				}
				r.start()
				r.until(2 * time.Minute)
				before := rounds.Load()
				r.until(3 * time.Minute)
				limit := min(60, 6*int64(nodes)+8) // each renewal alone, and the periodic self-check
				if got := rounds.Load() - before; got < 6 || got > limit {
					t.Errorf("got %d rounds in an idle minute, want 6 to %d", got, limit)
				}
			})
		})
	}
}

// TestNodeHeartbeat_CountsFromArrival checks that a report without changes causes no
// wake-up, and moves the deadline as from its arrival.
func TestNodeHeartbeat_CountsFromArrival(t *testing.T) {
	const came, grace = 49700 * time.Millisecond, 50 * time.Second
	synctest.Test(t, func(t *testing.T) {
		var rounds atomic.Int64
		r := newEnv(t)
		r.policy.Confirmation.LiveReads = false
		r.meters.Checked = func(time.Duration) { rounds.Add(1) }
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()
		r.until(came - time.Millisecond)
		before := rounds.Load()
		r.until(came)
		r.change("a", func(n *corev1.Node) {
			for i := range n.Status.Conditions {
				n.Status.Conditions[i].LastHeartbeatTime = metav1.Now()
			}
		})
		synctest.Wait()
		if n := rounds.Load() - before; n > 0 {
			t.Errorf("got %d wakeups, want none", n)
		}
		r.until(came + grace - time.Millisecond)
		if got := r.lines("mark-unknown", "taint", "mark-not-ready", "evict"); got != "" {
			t.Errorf("got decisions within the grace period:\n%s", got)
		}
		r.until(came + grace + slack)
		if got := conditionOf(r.live("a"), corev1.NodeReady).Status; got != corev1.ConditionUnknown {
			t.Errorf("after the grace period: got Ready %s, want Unknown", got)
		}
	})
}
