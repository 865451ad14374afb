package heartbeat

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
	"plimsoll.dev/plimsoll/internal/vitals"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// withHeartbeat runs a heartbeat in a bubble of virtual time. The agent checks the node every ten
// seconds until hang is called.
func withHeartbeat(t *testing.T, test func(a *fakeAPI, h *Heartbeat, log *logcapture.Book, hang func())) {
	synctest.Test(t, func(t *testing.T) {
		a, log := newAPI(t, nodeOf()), &logcapture.Book{}
		h := New(Parts{
			Client: apitest.From(a), NodeName: "n", Period: 10 * time.Second, Log: log.Logger(), Node: a.Node,
			Vitals: func() Vitals {
				return Vitals{Version: "v1", Conditions: memoryPressure(), Thresholds: "t",
					Armed: true, ArmedReason: "flag", Findings: []string{"a", "b"},
					Readings:     []vitals.Reading{{Signal: signals.MemoryAvailable, Known: true, Available: 9, Threshold: 5}},
					LastEviction: vitals.Eviction{Time: noon, Pod: "ns/p", Cause: "memory.available"}}
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		checks, hang := context.WithCancel(ctx)
		go func() {
			for checks.Err() == nil {
				h.Beat(time.Now())
				<-time.After(h.Period)
			}
		}()
		done := make(chan struct{})
		go func() { h.Run(ctx); close(done) }()
		pass(delayedPeriod)
		test(a, h, log, hang)
		cancel()
		<-done
		hang()
		pass(h.Period)
	})
}

// fakeAPI is a fake API server with leases.
type fakeAPI struct{ *apitest.Fake }

func newAPI(t *testing.T, n *corev1.Node) *fakeAPI { return &fakeAPI{apitest.NewFake(t, n)} }

func memoryPressure() (set signals.ConditionSet) {
	set.Add(signals.MemoryPressure)
	return set
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func nodeOf() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}} }

// lease reads a lease, or returns nil.
func (a *fakeAPI) lease(namespace string) *coordinationv1.Lease {
	object, err := a.Tracker().Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), namespace, "n")
	if err != nil {
		return nil
	}
	l, _ := object.(*coordinationv1.Lease)
	return l
}

// pass advances virtual time.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// renewedAt returns the last renewal time of the agent's lease.
func (a *fakeAPI) renewedAt(namespace string) time.Time {
	if l := a.lease(namespace); l != nil && l.Spec.RenewTime != nil {
		return l.Spec.RenewTime.Time
	}
	return time.Time{}
}

func TestHeartbeat_ReportsVitals(t *testing.T) {
	withHeartbeat(t, func(a *fakeAPI, h *Heartbeat, _ *logcapture.Book, _ func()) {
		started := time.Now()
		pass(time.Minute)
		l := a.lease(Namespace)
		if l == nil {
			t.Fatal("no lease")
		}
		want := map[string]string{
			AnnotationVersion: "v1", AnnotationConditions: "MemoryPressure", AnnotationDryRun: "false",
			AnnotationArmed: "true", AnnotationArmedReason: "flag", AnnotationFindings: "a,b",
			AnnotationThresholds: "t", AnnotationLastCheck: l.Annotations[AnnotationLastCheck],
			AnnotationSignals: "memory.available=9/5", AnnotationLastEviction: "2026-03-01T12:00:00Z ns/p memory.available",
		}
		if diff := cmp.Diff(want, l.Annotations); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		if lastCheck, err := time.Parse(time.RFC3339, l.Annotations[AnnotationLastCheck]); err != nil || time.Since(lastCheck) > 2*RenewPeriod {
			t.Errorf("last check at %s: %v", lastCheck, err)
		}
		owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}}
		if diff := cmp.Diff(owner, l.OwnerReferences); diff != "" || *l.Spec.HolderIdentity != "n" || *l.Spec.LeaseDurationSeconds != 40 {
			t.Errorf("%v, owner -want +got\n%s", l.Spec, diff)
		}
		renewals := a.Called("create leases") + a.Called("update leases")
		if maxRenewals := int(time.Since(started)/(RenewPeriod-RenewPeriod/10)) + 2; renewals < 6 || renewals > maxRenewals {
			t.Errorf("%d renewals in a minute, want 6 to %d", renewals, maxRenewals)
		}
		if a.Called("get leases") != 1 {
			t.Errorf("the lease was read %d times, want once", a.Called("get leases"))
		}
	})
}

func TestHeartbeat_StopsWhileAgentHangs(t *testing.T) {
	withHeartbeat(t, func(a *fakeAPI, h *Heartbeat, log *logcapture.Book, hang func()) {
		pass(time.Minute)
		hang()
		pass(3 * h.Period)
		last := a.renewedAt(Namespace)
		pass(2 * LeaseDuration)
		if got := a.renewedAt(Namespace); got != last {
			t.Errorf("renewed at %s, long after the last check", got)
		}
		if _, _, delayed := h.Counts(); delayed == 0 || log.Count("the agent hangs") != 1 {
			t.Errorf("delayed %d times, or not logged once: %s", delayed, log)
		}
		h.Beat(time.Now()) // the agent continues
		pass(delayedPeriod)
		if got := a.renewedAt(Namespace); time.Since(got) > delayedPeriod {
			t.Errorf("not renewed since %s", got)
		}
	})
}

func TestHeartbeat_AliveRequiresRecentCheck(t *testing.T) {
	h := New(Parts{Period: 10 * time.Second})
	if err := h.Alive(time.Now()); err == nil {
		t.Error("alive before the first check")
	}
	h.Beat(time.Now())
	for after, alive := range map[time.Duration]bool{0: true, 20 * time.Second: true, 21 * time.Second: false} {
		if err := h.Alive(h.begun.Add(after)); (err == nil) != alive {
			t.Errorf("after %s: %v", after, err)
		}
	}
}

func TestHeartbeat_BeatAllocatesNothing(t *testing.T) {
	h, now := New(Parts{}), time.Now()
	if n := testing.AllocsPerRun(1000, func() { h.Beat(now) }); n != 0 {
		t.Errorf("Beat allocates %v times, want 0", n)
	}
}

func TestHeartbeat_RetriesAfterAPIErrors(t *testing.T) {
	for _, test := range []struct {
		name, call string
		fault      error
		wantLog    string
	}{
		{"429", "update leases", apierrors.NewTooManyRequests("slow down", 1), "slow down"},
		{"500", "update leases", apierrors.NewInternalError(errors.New("broken")), "broken"},
		{"permanent 409", "update leases", apierrors.NewConflict(leaseResource, "n", errors.New("changed")), "let one agent run on a node"},
		{"403", "update leases", apierrors.NewForbidden(leaseResource, "n", errors.New("no")), "right to get, create and update leases in the namespace plimsoll-system"},
	} {
		t.Run(test.name, func(t *testing.T) {
			withHeartbeat(t, func(a *fakeAPI, h *Heartbeat, log *logcapture.Book, _ func()) {
				a.Fail(test.call, test.fault)
				pass(2 * time.Minute)
				if tries := a.Called(test.call); tries > 100 || log.Count(test.wantLog) != 1 {
					t.Errorf("%d tries: %s", tries, log)
				}
				a.Fail(test.call, nil)
				pass(renewBackoff.Max)
				if got := a.renewedAt(Namespace); time.Since(got) > renewBackoff.Max || log.Count("Resumed renewing") != 1 {
					t.Errorf("renewed at %s: %s", got, log)
				}
			})
		})
	}
}

func TestHeartbeat_RecreatesDeletedLease(t *testing.T) {
	withHeartbeat(t, func(a *fakeAPI, h *Heartbeat, log *logcapture.Book, _ func()) {
		if err := a.Tracker().Delete(coordinationv1.SchemeGroupVersion.WithResource("leases"), Namespace, "n"); err != nil {
			t.Fatal(err)
		}
		pass(RenewPeriod)
		if a.lease(Namespace) == nil || log.Count("Failed to renew") != 0 {
			t.Errorf("not created again, or logged as an error: %s", log)
		}
	})
}

func TestHeartbeat_NamesMissingNamespace(t *testing.T) {
	withHeartbeat(t, func(a *fakeAPI, h *Heartbeat, log *logcapture.Book, _ func()) {
		if err := a.Tracker().Delete(coordinationv1.SchemeGroupVersion.WithResource("leases"), Namespace, "n"); err != nil {
			t.Fatal(err)
		}
		a.Fail("create leases", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, Namespace))
		pass(time.Minute)
		if log.Count("the namespace plimsoll-system has to exist") != 1 {
			t.Errorf("the missing namespace is not logged: %s", log)
		}
		a.Fail("create leases", nil)
		pass(renewBackoff.Max)
		if a.lease(Namespace) == nil {
			t.Error("not created again")
		}
	})
}

func TestHeartbeat_KickRenewsAtOnce(t *testing.T) {
	withHeartbeat(t, func(a *fakeAPI, h *Heartbeat, _ *logcapture.Book, _ func()) {
		pass(time.Minute)
		before := a.renewedAt(Namespace)
		h.Kick()
		h.Kick() // one renewal suffices for both
		synctest.Wait()
		if after := a.renewedAt(Namespace); !after.After(before) || time.Since(after) > time.Millisecond {
			t.Errorf("renewed at %s, before that at %s", after, before)
		}
	})
}

func TestRenewed_PreservesForeignFields(t *testing.T) {
	at := func(d time.Duration) *metav1.MicroTime {
		t := metav1.NewMicroTime(noon.Add(d))
		return &t
	}
	lease := func(renewed *metav1.MicroTime) *coordinationv1.Lease {
		holder := "n"
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{"theirs": "x", AnnotationPod: "old"}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, AcquireTime: at(-time.Hour), RenewTime: renewed},
		}
	}
	want := &claim{namespace: "ns", name: "n", holder: "n", annotations: map[string]string{AnnotationVersion: "v"}}
	for _, test := range []struct {
		name    string
		old     *coordinationv1.Lease
		renewed *metav1.MicroTime
		since   *metav1.MicroTime
	}{
		{"new lease", nil, at(0), at(0)},
		{"existing lease", lease(at(-time.Minute)), at(0), at(-time.Hour)},
		{"clock set back a little", lease(at(10 * time.Second)), at(10*time.Second + time.Microsecond), at(-time.Hour)},
		{"clock set back far", lease(at(time.Hour)), at(0), at(-time.Hour)},
	} {
		l := renewed(test.old, want, noon)
		if !l.Spec.RenewTime.Equal(test.renewed) || !l.Spec.AcquireTime.Equal(test.since) {
			t.Errorf("%s: renewed at %s since %s", test.name, l.Spec.RenewTime, l.Spec.AcquireTime)
		}
		preserved := map[string]string{AnnotationVersion: "v"}
		if test.old != nil {
			preserved["theirs"] = "x"
			if l.ResourceVersion != "7" || test.old.Annotations[AnnotationPod] != "old" {
				t.Errorf("%s: version %q, or the old lease was changed", test.name, l.ResourceVersion)
			}
		}
		if diff := cmp.Diff(preserved, l.Annotations); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.name, diff)
		}
	}
	another := lease(at(-time.Minute))
	*another.Spec.HolderIdentity = "m"
	if l := renewed(another, want, noon); *l.Spec.HolderIdentity != "n" || !l.Spec.AcquireTime.Equal(at(0)) {
		t.Errorf("acquired from another holder: %v", l.Spec)
	}
}

// withNodeLease runs the renewal of a node's lease in a bubble of virtual time.
func withNodeLease(t *testing.T, n *corev1.Node, test func(a *fakeAPI, dead *atomic.Bool, ended <-chan error)) {
	synctest.Test(t, func(t *testing.T) {
		a, log, dead := newAPI(t, n), &logcapture.Book{}, &atomic.Bool{}
		seen := n // a permanently stale informer
		l := NewNodeLease(NodeLeaseParts{Client: apitest.From(a), NodeName: "n", Node: func() *corev1.Node { return seen }, Log: log.Logger(),
			Alive: func(time.Time) error {
				if dead.Load() {
					return errors.New("it hangs")
				}
				return nil
			}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		synctest.Wait()
		test(a, dead, ended)
		cancel()
		synctest.Wait()
	})
}

func TestNodeLease_RenewedWithoutKubelet(t *testing.T) {
	withNodeLease(t, nodeOf(), func(a *fakeAPI, dead *atomic.Bool, _ <-chan error) {
		pass(time.Minute)
		l := a.lease(corev1.NamespaceNodeLease)
		if l == nil || time.Since(l.Spec.RenewTime.Time) > RenewPeriod || *l.Spec.HolderIdentity != "n" || len(l.Annotations) != 0 || l.OwnerReferences[0].UID != "u" {
			t.Fatalf("lease %v", l)
		}
		dead.Store(true)
		pass(LeaseDuration)
		if got := a.renewedAt(corev1.NamespaceNodeLease); time.Since(got) < LeaseDuration-RenewPeriod {
			t.Errorf("renewed at %s while the agent hangs", got)
		}
	})
}

func TestNodeLease_RefusedBesideKubelet(t *testing.T) {
	n := nodeOf()
	n.Status.NodeInfo.KubeletVersion = "v1.36.3"
	withNodeLease(t, n, func(a *fakeAPI, _ *atomic.Bool, ended <-chan error) {
		select {
		case err := <-ended:
			if !errors.Is(err, ErrKubelet) || !strings.Contains(err.Error(), "node n with kubelet v1.36.3") {
				t.Errorf("got %v, want ErrKubelet", err)
			}
		default:
			t.Error("not refused")
		}
		if a.lease(corev1.NamespaceNodeLease) != nil {
			t.Error("a lease was created beside a kubelet")
		}
	})
}

// TestNodeLease_EndsWhenKubeletStarts: a new kubelet writes to the lease, which the agent detects
// even with a stale informer.
func TestNodeLease_EndsWhenKubeletStarts(t *testing.T) {
	withNodeLease(t, nodeOf(), func(a *fakeAPI, _ *atomic.Bool, ended <-chan error) {
		pass(time.Minute)
		a.Change(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.36.3" })
		before := a.renewedAt(corev1.NamespaceNodeLease)
		a.Fail("update leases", apierrors.NewConflict(leaseResource, "n", errors.New("the kubelet was here")))
		pass(RenewPeriod)
		select {
		case err := <-ended:
			if !errors.Is(err, ErrKubelet) {
				t.Errorf("got %v, want ErrKubelet", err)
			}
		default:
			t.Error("the renewal did not end")
		}
		if got := a.renewedAt(corev1.NamespaceNodeLease); got != before {
			t.Errorf("renewed at %s", got)
		}
	})
}

// A restarted agent has evicted no pod yet: what the lease has is the last eviction of the node.
func TestAnnotated_LastEvictionSurvivesRestart(t *testing.T) {
	before, restarted := "2026-03-01T12:00:00Z ns/p memory.available", Vitals{Version: "v2"}
	old := map[string]string{AnnotationLastEviction: before, AnnotationSignals: "memory.available=1/5"}
	if got := annotated(old, restarted.annotations(noon)); got[AnnotationLastEviction] != before || got[AnnotationSignals] != "" {
		t.Errorf("after a restart: %v", got)
	}
	restarted.LastEviction = vitals.Eviction{Time: noon.Add(time.Hour), Pod: "ns/q", Cause: "nodefs.available"}
	if got := annotated(old, restarted.annotations(noon)); got[AnnotationLastEviction] != "2026-03-01T13:00:00Z ns/q nodefs.available" {
		t.Errorf("after another eviction: %v", got)
	}
}

func TestDigest_IgnoresOrder(t *testing.T) {
	a, b := kubeletconfig.Threshold{Signal: signals.MemoryAvailable, Text: "1Gi"}, kubeletconfig.Threshold{Signal: signals.PIDAvailable, Text: "5%"}
	if Digest([]kubeletconfig.Threshold{a, b}) != Digest([]kubeletconfig.Threshold{b, a}) || Digest([]kubeletconfig.Threshold{a}) == Digest([]kubeletconfig.Threshold{b}) {
		t.Error("the digests of equal thresholds differ, or those of different ones are equal")
	}
}
