package lifecycle

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wrote is the API server's record of a writer and its fields.
func wrote(by, part string, at time.Time, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: by, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Subresource: part,
		Time: &metav1.Time{Time: at}, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

const (
	wroteReady   = `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:status":{},"f:lastTransitionTime":{}}}}}`
	wroteKind    = `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:type":{}}}}}`
	wroteTaints  = `{"f:spec":{"f:taints":{}}}`
	wroteVolumes = `{"f:status":{"f:volumesAttached":{}}}`
	wroteCIDR    = `{"f:spec":{"f:podCIDR":{},"f:podCIDRs":{".":{},"v:\"10.0.0.0/24\"":{}}}}`
)

func TestOtherWriters_FindLatestWrite(t *testing.T) {
	then := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const other = "kube-controller-manager"
	for name, c := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		what    string
		at      time.Time
	}{
		"no entries":                    {nil, "", time.Time{}},
		"kubelet":                       {[]metav1.ManagedFieldsEntry{wrote("kubelet", "status", then, wroteReady)}, "", time.Time{}},
		"this controller":               {[]metav1.ManagedFieldsEntry{wrote("plimsoll-controller", "", then, wroteTaints)}, "", time.Time{}},
		"taint of a user":               {[]metav1.ManagedFieldsEntry{wrote("kubectl-taint", "", then, wroteTaints)}, "", time.Time{}},
		"addresses and volumes":         {[]metav1.ManagedFieldsEntry{wrote(other, "", then, wroteCIDR), wrote(other, "status", then, wroteVolumes)}, "", time.Time{}},
		"fields overwritten by kubelet": {[]metav1.ManagedFieldsEntry{wrote(other, "status", then, wroteKind)}, "", time.Time{}},
		"condition Ready":               {[]metav1.ManagedFieldsEntry{wrote(other, "status", then, wroteReady)}, "status.conditions[Ready]", then},
		"taints":                        {[]metav1.ManagedFieldsEntry{wrote(other, "", then, wroteTaints)}, "spec.taints", then},
		"condition, later taints":       {[]metav1.ManagedFieldsEntry{wrote(other, "status", then, wroteReady), wrote(other, "", then.Add(time.Second), wroteTaints)}, "spec.taints", then.Add(time.Second)},
		"unknown form":                  {[]metav1.ManagedFieldsEntry{wrote(other, "", then, `[1,`), {Manager: other}}, "", time.Time{}},
	} {
		got := otherWriters(DefaultOtherWriters).of(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: c.entries}})
		if got.What != c.what || !got.At.Equal(c.at) {
			t.Errorf("%s: got %+v, want %q at %s", name, got, c.what, c.at)
		}
	}
}

func TestReplace_WaitsForOtherWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.node("a", func(n *corev1.Node) {
			n.ManagedFields = []metav1.ManagedFieldsEntry{wrote("kube-controller-manager", "", r.begun, wroteTaints)}
		})
		for _, name := range []string{"b", "c"} {
			r.node(name)
		}
		r.pod("a", "web", tolerating(60))
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()
		r.until(2 * time.Minute)
		if why := r.controller.DryRunReason(); !strings.Contains(why, "kube-controller-manager wrote spec.taints of node a") {
			t.Errorf("got dry-run reason %q", why)
		}
		if got := r.seenRequests(); len(got) != 1 || got[0] != "GET leases/a" {
			t.Errorf("got requests %v beside another writer, want one GET of the lease", got)
		}
		if got := r.lines("evict"); !strings.HasPrefix(got, "1m50s evict") {
			t.Errorf("got no eviction in the dry run:\n%s", got)
		}
		r.until(5*time.Minute + 51*time.Second) // with a new grace period: mark-unknown was only simulated so far
		if why := r.controller.DryRunReason(); why != "" {
			t.Errorf("got dry-run reason %q after 5 minutes without a foreign write", why)
		}
		if got := taintsOf(r.live("a")); got != "unreachable:NoSchedule unreachable:NoExecute" {
			t.Errorf("got taints %q of the dead node", got)
		}
		r.until(6*time.Minute + 52*time.Second)
		if r.livePod("web") != nil {
			t.Error("the pod with a simulated deletion was not deleted")
		}
		r.with(func() { // the other controller is enabled again
			n := r.objects["nodes"]["/b"].DeepCopyObject().(*corev1.Node)
			n.ManagedFields = []metav1.ManagedFieldsEntry{wrote("kube-controller-manager", "status", time.Now(), wroteReady)}
			r.store("nodes", n)
		})
		r.until(6*time.Minute + 53*time.Second)
		if why := r.controller.DryRunReason(); !strings.Contains(why, "of node b") {
			t.Errorf("got dry-run reason %q after a foreign write", why)
		}
	})
}
