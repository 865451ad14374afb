package nodestatus

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
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// beating runs a heartbeat in a bubble of virtual time. The agent checks the node every ten seconds
// until hang is called.
func beating(t *testing.T, test func(a *fakeAPI, h *Heartbeat, log *logcapture.Book, hang func())) {
	synctest.Test(t, func(t *testing.T) {
		a, log := newAPI(t, nodeOf()), &logcapture.Book{}
		h := NewHeartbeat(HeartbeatParts{
			Client: apitest.From(a), NodeName: "n", Period: 10 * time.Second, Log: log.Logger(), Node: a.node,
			Vitals: func() Vitals {
				return Vitals{Version: "v1", Conditions: memory, Thresholds: "t",
					Armed: true, ArmedReason: "told to", Findings: []string{"a", "b"}}
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		looks, hang := context.WithCancel(ctx)
		go func() {
			for looks.Err() == nil {
				h.Beat(time.Now())
				<-time.After(h.Period)
			}
		}()
		done := make(chan struct{})
		go func() { h.Run(ctx); close(done) }()
		pass(heldBackPeriod)
		test(a, h, log, hang)
		cancel()
		<-done
		hang()
		pass(h.Period)
	})
}

// renewedAt returns the last renewal time of the agent's lease.
func (a *fakeAPI) renewedAt(namespace string) time.Time {
	if l := a.lease(namespace); l != nil && l.Spec.RenewTime != nil {
		return l.Spec.RenewTime.Time
	}
	return time.Time{}
}

func TestHeartbeatTellsHowTheAgentFares(t *testing.T) {
	beating(t, func(a *fakeAPI, h *Heartbeat, _ *logcapture.Book, _ func()) {
		began := time.Now()
		pass(time.Minute)
		l := a.lease(HeartbeatNamespace)
		if l == nil {
			t.Fatal("no lease")
		}
		want := map[string]string{
			AnnotationVersion: "v1", AnnotationConditions: "MemoryPressure", AnnotationDryRun: "false",
			AnnotationArmed: "true", AnnotationArmedReason: "told to", AnnotationFindings: "a,b",
			AnnotationThresholds: "t", AnnotationLastLook: l.Annotations[AnnotationLastLook],
		}
		if diff := cmp.Diff(want, l.Annotations); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		if look, err := time.Parse(time.RFC3339, l.Annotations[AnnotationLastLook]); err != nil || time.Since(look) > 2*RenewPeriod {
			t.Errorf("the last look is said to be at %s: %v", look, err)
		}
		owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}}
		if diff := cmp.Diff(owner, l.OwnerReferences); diff != "" || *l.Spec.HolderIdentity != "n" || *l.Spec.LeaseDurationSeconds != 40 {
			t.Errorf("%v, owner -want +got\n%s", l.Spec, diff)
		}
		renewals := a.called("create leases") + a.called("update leases")
		if most := int(time.Since(began)/(RenewPeriod-RenewPeriod/10)) + 2; renewals < 6 || renewals > most {
			t.Errorf("%d renewals in a minute", renewals)
		}
		if a.called("get leases") != 1 {
			t.Errorf("the lease was read %d times, want once", a.called("get leases"))
		}
	})
}

func TestAHungAgentHasNoHeartbeat(t *testing.T) {
	beating(t, func(a *fakeAPI, h *Heartbeat, log *logcapture.Book, hang func()) {
		pass(time.Minute)
		hang()
		pass(3 * h.Period)
		last := a.renewedAt(HeartbeatNamespace)
		pass(2 * LeaseDuration)
		if got := a.renewedAt(HeartbeatNamespace); got != last {
			t.Errorf("renewed at %s, long after the last look", got)
		}
		if _, _, held := h.Counts(); held == 0 || log.Count("the agent hangs") != 1 {
			t.Errorf("held back %d times: %s", held, log)
		}
		h.Beat(time.Now()) // the agent continues
		pass(heldBackPeriod)
		if got := a.renewedAt(HeartbeatNamespace); time.Since(got) > heldBackPeriod {
			t.Errorf("not renewed since %s", got)
		}
	})
}

func TestNoLookNoHeartbeat(t *testing.T) {
	h := NewHeartbeat(HeartbeatParts{Period: 10 * time.Second})
	if err := h.Alive(time.Now()); err == nil {
		t.Error("alive before its first look")
	}
	h.Beat(time.Now())
	for after, alive := range map[time.Duration]bool{0: true, 20 * time.Second: true, 21 * time.Second: false} {
		if err := h.Alive(h.begun.Add(after)); (err == nil) != alive {
			t.Errorf("after %s: %v", after, err)
		}
	}
}

func TestHeartbeatSurvivesFaults(t *testing.T) {
	for _, test := range []struct {
		name, call string
		fault      error
		says       string
	}{
		{"429", "update leases", apierrors.NewTooManyRequests("slow down", 1), "slow down"},
		{"500", "update leases", apierrors.NewInternalError(errors.New("broken")), "broken"},
		{"409 without end", "update leases", apierrors.NewConflict(leaseResource, "n", errors.New("changed")), "let one agent run on a node"},
		{"403", "update leases", apierrors.NewForbidden(leaseResource, "n", errors.New("no")), "right to get, create and update leases in the namespace plimsoll-system"},
	} {
		t.Run(test.name, func(t *testing.T) {
			beating(t, func(a *fakeAPI, h *Heartbeat, log *logcapture.Book, _ func()) {
				a.fail(test.call, test.fault)
				pass(2 * time.Minute)
				if tries := a.called(test.call); tries > 100 || log.Count(test.says) != 1 {
					t.Errorf("%d tries: %s", tries, log)
				}
				a.fail(test.call, nil)
				pass(lastRenewRetry)
				if got := a.renewedAt(HeartbeatNamespace); time.Since(got) > lastRenewRetry || log.Count("Resumed renewing") != 1 {
					t.Errorf("renewed at %s: %s", got, log)
				}
			})
		})
	}
}

func TestALeaseThatWasDeletedIsMadeAnewAtOnce(t *testing.T) {
	beating(t, func(a *fakeAPI, h *Heartbeat, log *logcapture.Book, _ func()) {
		if err := a.Tracker().Delete(coordinationv1.SchemeGroupVersion.WithResource("leases"), HeartbeatNamespace, "n"); err != nil {
			t.Fatal(err)
		}
		pass(RenewPeriod)
		if a.lease(HeartbeatNamespace) == nil || log.Count("Failed to renew") != 0 {
			t.Errorf("not made anew, or told as trouble: %s", log)
		}
	})
}

func TestHeartbeatNamesTheNamespaceThatIsMissing(t *testing.T) {
	beating(t, func(a *fakeAPI, h *Heartbeat, log *logcapture.Book, _ func()) {
		if err := a.Tracker().Delete(coordinationv1.SchemeGroupVersion.WithResource("leases"), HeartbeatNamespace, "n"); err != nil {
			t.Fatal(err)
		}
		a.fail("create leases", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, HeartbeatNamespace))
		pass(time.Minute)
		if log.Count("the namespace plimsoll-system has to exist") != 1 {
			t.Errorf("not said: %s", log)
		}
		a.fail("create leases", nil)
		pass(lastRenewRetry)
		if a.lease(HeartbeatNamespace) == nil {
			t.Error("not made anew")
		}
	})
}

func TestWhatALeaseKeeps(t *testing.T) {
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
		{"a new one", nil, at(0), at(0)},
		{"one of before", lease(at(-time.Minute)), at(0), at(-time.Hour)},
		{"the clock was set back a little", lease(at(10 * time.Second)), at(10*time.Second + time.Microsecond), at(-time.Hour)},
		{"the clock was set back far", lease(at(time.Hour)), at(0), at(-time.Hour)},
	} {
		l := renewed(test.old, want, noon)
		if !l.Spec.RenewTime.Equal(test.renewed) || !l.Spec.AcquireTime.Equal(test.since) {
			t.Errorf("%s: renewed at %s since %s", test.name, l.Spec.RenewTime, l.Spec.AcquireTime)
		}
		kept := map[string]string{AnnotationVersion: "v"}
		if test.old != nil {
			kept["theirs"] = "x"
			if l.ResourceVersion != "7" || test.old.Annotations[AnnotationPod] != "old" {
				t.Errorf("%s: version %q, or the old one was changed", test.name, l.ResourceVersion)
			}
		}
		if diff := cmp.Diff(kept, l.Annotations); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.name, diff)
		}
	}
	another := lease(at(-time.Minute))
	*another.Spec.HolderIdentity = "m"
	if l := renewed(another, want, noon); *l.Spec.HolderIdentity != "n" || !l.Spec.AcquireTime.Equal(at(0)) {
		t.Errorf("taken over from another: %v", l.Spec)
	}
}

// nodeLease runs the renewal of a node's lease in a bubble of virtual time.
func nodeLease(t *testing.T, n *corev1.Node, test func(a *fakeAPI, dead *atomic.Bool, ended <-chan error)) {
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

func TestNodeLeaseWithoutAKubelet(t *testing.T) {
	nodeLease(t, nodeOf(), func(a *fakeAPI, dead *atomic.Bool, _ <-chan error) {
		pass(time.Minute)
		l := a.lease(corev1.NamespaceNodeLease)
		if l == nil || time.Since(l.Spec.RenewTime.Time) > RenewPeriod || *l.Spec.HolderIdentity != "n" || len(l.Annotations) != 0 || l.OwnerReferences[0].UID != "u" {
			t.Fatalf("the lease is %v", l)
		}
		dead.Store(true)
		pass(LeaseDuration)
		if got := a.renewedAt(corev1.NamespaceNodeLease); time.Since(got) < LeaseDuration-RenewPeriod {
			t.Errorf("renewed at %s, though the agent hangs", got)
		}
	})
}

func TestNodeLeaseIsRefusedBesideAKubelet(t *testing.T) {
	n := nodeOf()
	n.Status.NodeInfo.KubeletVersion = "v1.36.3"
	nodeLease(t, n, func(a *fakeAPI, _ *atomic.Bool, ended <-chan error) {
		select {
		case err := <-ended:
			if !errors.Is(err, ErrKubelet) || !strings.Contains(err.Error(), "node n, whose kubelet is v1.36.3") {
				t.Errorf("refused by %v", err)
			}
		default:
			t.Error("not refused")
		}
		if a.lease(corev1.NamespaceNodeLease) != nil {
			t.Error("a dead kubelet looks alive")
		}
	})
}

// TestNodeLeaseEndsWhenAKubeletComes: a new kubelet writes to the lease, which the agent detects
// even with a stale informer.
func TestNodeLeaseEndsWhenAKubeletComes(t *testing.T) {
	nodeLease(t, nodeOf(), func(a *fakeAPI, _ *atomic.Bool, ended <-chan error) {
		pass(time.Minute)
		a.change(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.36.3" })
		before := a.renewedAt(corev1.NamespaceNodeLease)
		a.fail("update leases", apierrors.NewConflict(leaseResource, "n", errors.New("the kubelet was here")))
		pass(RenewPeriod)
		select {
		case err := <-ended:
			if !errors.Is(err, ErrKubelet) {
				t.Errorf("ended by %v", err)
			}
		default:
			t.Error("it goes on")
		}
		if got := a.renewedAt(corev1.NamespaceNodeLease); got != before {
			t.Errorf("renewed at %s", got)
		}
	})
}

func TestDigest(t *testing.T) {
	a, b := kubeletconfig.Threshold{Signal: signals.MemoryAvailable, Text: "1Gi"}, kubeletconfig.Threshold{Signal: signals.PIDAvailable, Text: "5%"}
	if Digest([]kubeletconfig.Threshold{a, b}) != Digest([]kubeletconfig.Threshold{b, a}) || Digest([]kubeletconfig.Threshold{a}) == Digest([]kubeletconfig.Threshold{b}) {
		t.Error("equal thresholds differ, or others do not")
	}
}
