package lifecycle

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// asks renews the lease of a node's agent, with an annotation that requests the eviction of the
// pod of this UID.
func (r *rig) asks(node, uid string) {
	now := metav1.NowMicro()
	r.with(func() {
		r.store("leases", &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: node, Annotations: map[string]string{"asks": uid}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node, RenewTime: &now},
		})
	})
}

func readAsks(annotations map[string]string) (map[string]model.Request, error) {
	switch uid := annotations["asks"]; uid {
	case "":
		return nil, nil
	case "?":
		return nil, errors.New("no request")
	default:
		return map[string]model.Request{uid: {Cause: "memory.available", GraceSeconds: 30, Since: time.Now()}}, nil
	}
}

func TestAgentsAskForEvictionsInTheirLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.requestedIn = readAsks
		for _, name := range []string{"a", "b"} {
			r.node(name)
		}
		r.beat(t.Context(), corev1.NamespaceNodeLease, "a", "b")
		for _, name := range []string{"one", "two", "three"} {
			r.pod("a", name)
		}
		refused := 0
		r.refuses = func(*corev1.Pod) error {
			if refused++; refused == 1 {
				return apierrors.NewTooManyRequests("a budget", 0)
			}
			return nil
		}
		r.start()
		r.until(time.Second)
		r.asks("b", "uid-one") // requests of another node's agent are ignored
		r.asks("a", "?")
		r.until(5 * time.Second)
		if n := r.count("pods"); n != 3 || r.book.Count("no request") != 1 {
			t.Fatalf("%d of 3 pods are there; the log:\n%s", n, r.book.String())
		}
		r.asks("a", "uid-two")
		r.until(6 * time.Second)
		if refused != 1 || r.livePod("two") == nil {
			t.Errorf("the budget was asked %d times", refused)
		}
		r.until(30 * time.Second)
		if r.livePod("two") != nil || r.count("pods") != 2 {
			t.Errorf("the pod that was asked for is there; decided:\n%s", r.lines())
		}
		refused = 0
		r.asks("a", "uid-three")
		r.until(31 * time.Second)
		r.asks("a", "") // withdrawn before it is requested again
		r.until(5 * time.Minute)
		if r.livePod("three") == nil {
			t.Error("a request that was withdrawn was carried out")
		}
	})
}

func TestWhatWasAskedForIsForgottenWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.requestedIn, r.settings.Mode = readAsks, Observe
		r.node("a")
		r.start()
		r.asks("a", "uid-one")
		r.until(time.Second)
		r.with(func() { r.remove("leases", r.things["leases"][system+"/a"]) })
		r.until(2 * time.Second)
		r.pod("a", "one")
		r.until(time.Minute)
		if got := r.lines("soft-evict"); got != "" {
			t.Errorf("a lease that is gone asks:\n%s", got)
		}
	})
}
