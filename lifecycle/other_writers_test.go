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

func TestWhoElseWrites(t *testing.T) {
	then := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const other = "kube-controller-manager"
	for name, c := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		what    string
		at      time.Time
	}{
		"nobody":                        {nil, "", time.Time{}},
		"its kubelet":                   {[]metav1.ManagedFieldsEntry{wrote("kubelet", "status", then, wroteReady)}, "", time.Time{}},
		"ourselves":                     {[]metav1.ManagedFieldsEntry{wrote("plimsoll-controller", "", then, wroteTaints)}, "", time.Time{}},
		"a user's taint":                {[]metav1.ManagedFieldsEntry{wrote("kubectl-taint", "", then, wroteTaints)}, "", time.Time{}},
		"addresses and volumes":         {[]metav1.ManagedFieldsEntry{wrote(other, "", then, wroteCIDR), wrote(other, "status", then, wroteVolumes)}, "", time.Time{}},
		"what the kubelet wrote over":   {[]metav1.ManagedFieldsEntry{wrote(other, "status", then, wroteKind)}, "", time.Time{}},
		"the condition Ready":           {[]metav1.ManagedFieldsEntry{wrote(other, "status", then, wroteReady)}, "status.conditions[Ready]", then},
		"taints":                        {[]metav1.ManagedFieldsEntry{wrote(other, "", then, wroteTaints)}, "spec.taints", then},
		"both, the later one":           {[]metav1.ManagedFieldsEntry{wrote(other, "status", then, wroteReady), wrote(other, "", then.Add(time.Second), wroteTaints)}, "spec.taints", then.Add(time.Second)},
		"a form that is not understood": {[]metav1.ManagedFieldsEntry{wrote(other, "", then, `[1,`), {Manager: other}}, "", time.Time{}},
	} {
		got := otherWriters(DefaultOtherWriters).of(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: c.entries}})
		if got.What != c.what || !got.At.Equal(c.at) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestReplaceWaitsUntilNobodyElseWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.node("a", func(n *corev1.Node) {
			n.ManagedFields = []metav1.ManagedFieldsEntry{wrote("kube-controller-manager", "", r.begun, wroteTaints)}
		})
		for _, name := range []string{"b", "c"} {
			r.node(name)
		}
		r.pod("a", "web", tolerating(60))
		r.beat(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()
		r.until(2 * time.Minute)
		if why := r.controller.Rehearses(); !strings.Contains(why, "kube-controller-manager wrote spec.taints of node a") {
			t.Errorf("it says that it rehearses because of %q", why)
		}
		if got := r.seenRequests(); len(got) != 1 || got[0] != "GET leases/a" {
			t.Errorf("while another controller writes it makes the requests %v", got)
		}
		if got := r.lines("evict"); !strings.HasPrefix(got, "1m50s evict") {
			t.Errorf("it would not have evicted:\n%s", got)
		}
		r.until(5*time.Minute + 51*time.Second) // it gets a grace period of its own: its mark-unknown was only assumed so far
		if why := r.controller.Rehearses(); why != "" {
			t.Errorf("nobody has written for 5 minutes, and it rehearses because of %q", why)
		}
		if got := taintsOf(r.live("a")); got != "unreachable:NoSchedule unreachable:NoExecute" {
			t.Errorf("then the dead node has the taints %q", got)
		}
		r.until(6*time.Minute + 52*time.Second)
		if r.livePod("web") != nil {
			t.Error("its pod, of which was believed that it was gone, is there")
		}
		r.with(func() { // the other controller is enabled again
			n := r.things["nodes"]["/b"].DeepCopyObject().(*corev1.Node)
			n.ManagedFields = []metav1.ManagedFieldsEntry{wrote("kube-controller-manager", "status", time.Now(), wroteReady)}
			r.store("nodes", n)
		})
		r.until(6*time.Minute + 53*time.Second)
		if why := r.controller.Rehearses(); !strings.Contains(why, "of node b") {
			t.Errorf("another controller writes, and it says %q", why)
		}
	})
}
