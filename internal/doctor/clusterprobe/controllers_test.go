package clusterprobe

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
)

func TestController_ActsByCommandLine(t *testing.T) {
	for _, test := range []struct {
		read     func([]string) (bool, bool)
		args     []string
		acts, ok bool
	}{
		{replaces, []string{"controller"}, false, true},
		{replaces, []string{"controller", "--mode=replace"}, true, true},
		{replaces, []string{"controller", "--mode", "replace"}, true, true},
		{replaces, []string{"controller", "--mode=observe", "--config=/c.yaml"}, false, true},
		{replaces, []string{"controller", "--mode=replace", "--dry-run"}, false, true},
		{replaces, []string{"controller", "--mode=replace", "--dry-run=false"}, true, true},
		{replaces, []string{"controller", "--config=/c.yaml"}, false, false},
		{runsLifecycle, []string{"kube-controller-manager"}, true, true},
		{runsLifecycle, []string{"kube-controller-manager", "--controllers=*,bootstrapsigner"}, true, true},
		{runsLifecycle, []string{"kube-controller-manager", "--controllers=*,-node-lifecycle-controller"}, true, true}, // the other one
		{runsLifecycle, []string{"kube-controller-manager", "--controllers=*,-node-lifecycle-controller,-taint-eviction-controller"}, false, true},
		{runsLifecycle, []string{"kube-controller-manager", "--controllers=*,-nodelifecycle,-taint-eviction-controller"}, false, true},
		{runsLifecycle, []string{"kube-controller-manager", "--controllers=garbagecollector"}, false, true},
		{runsLifecycle, []string{"kube-controller-manager", "--controllers=taint-eviction-controller"}, true, true},
	} {
		if acts, ok := test.read(test.args); acts != test.acts || ok != test.ok {
			t.Errorf("%q: got %v, %v, want %v, %v", test.args, acts, ok, test.acts, test.ok)
		}
	}
}

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func lease(namespace, name string, age time.Duration, annotations map[string]string) *coordinationv1.Lease {
	renewed, seconds, holder := metav1.NewMicroTime(now.Add(-age)), int32(40), "h"
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations},
		Spec: coordinationv1.LeaseSpec{RenewTime: &renewed, LeaseDurationSeconds: &seconds, HolderIdentity: &holder}}
}

func TestAgentOf_ReadsLease(t *testing.T) {
	for _, test := range []struct {
		annotations map[string]string
		armed       bool
	}{
		{map[string]string{version: "v", dryRun: "false"}, true},
		{map[string]string{version: "v", dryRun: "true"}, false},
		{map[string]string{version: "v"}, false},
		{map[string]string{version: "v", dryRun: "false", armed: "false"}, false},
		{map[string]string{version: "v", dryRun: "true", armed: "true"}, true},
		{map[string]string{version: "v", dryRun: "false", armed: "perhaps"}, false},
	} {
		if a := agentOf(lease("p", "n", time.Second, test.annotations), now); a == nil || a.Armed != test.armed || a.Silent != time.Second || a.Lasts != 40*time.Second {
			t.Errorf("%v: %+v", test.annotations, a)
		}
	}
	if a := agentOf(lease("p", "plimsoll-controller", 0, nil), now); a != nil {
		t.Errorf("the controller's lease counts as an agent: %+v", a)
	}
	a := agentOf(lease("p", "n", 0, map[string]string{version: "v", findings: "a,b", reason: "r"}), now)
	if len(a.Findings) != 2 || a.Reason != "r" {
		t.Errorf("%+v", a)
	}
	hostile := "\x1b[2J" + strings.Repeat("x", 10_000)
	a = agentOf(lease("p", "n", 0, map[string]string{version: hostile, findings: strings.Repeat(hostile+",", 100), reason: hostile, thresholds: hostile}), now)
	for _, text := range append(a.Findings, a.Version, a.Reason, a.Thresholds) {
		if len(a.Findings) != maxFindings || strings.Contains(text, "\x1b") || len(text) > maxText {
			t.Fatalf("%d findings, and a text of %d bytes: %.20q", len(a.Findings), len(text), text)
		}
	}
}

func TestPressure_OfNodeOrLease(t *testing.T) {
	n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
		{Type: "plimsoll.dev/PIDPressure", Status: corev1.ConditionTrue},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}}}}
	if got := pressure(n, "MemoryPressure,Other"); !slices.Equal(got, []string{"MemoryPressure", "PIDPressure"}) {
		t.Errorf("found %v", got)
	}
	if got := pressure(n, ""); !slices.Equal(got, []string{"PIDPressure"}) {
		t.Errorf("without a lease: %v", got)
	}
}

func node(manager string, age time.Duration, fields string) corev1.Node {
	at := metav1.NewTime(now.Add(-age))
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: manager, Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}}}}
}

func TestWritten_FindsRecentWriters(t *testing.T) {
	const ready, taints, other = `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:status":{}}}}}`, `{"f:spec":{"f:taints":{}}}`, `{"f:spec":{"f:podCIDR":{}}}`
	for _, test := range []struct {
		node corev1.Node
		want bool
	}{
		{node("kcm", time.Minute, ready), true},
		{node("kcm", time.Minute, taints), true},
		{node("kcm", time.Minute, other), false},
		{node("kcm", time.Hour, taints), false},
		{node("kubectl", time.Minute, taints), false},
		{node("kcm", time.Minute, "?"), false},
	} {
		if got := written([]corev1.Node{test.node}, "kcm", now); (got != "") != test.want {
			t.Errorf("%+v: %q", test.node.ManagedFields, got)
		}
	}
}

func TestControllers_FromLeasesAndPods(t *testing.T) {
	pod := func(namespace string, c corev1.Container) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	}
	client := apitest.From(fake.NewClientset(lease("ps", "plimsoll-controller", time.Second, nil), lease("kube-system", "kube-controller-manager", time.Hour, nil),
		pod("ps", corev1.Container{Command: []string{"/plimsoll"}, Args: []string{"controller", "--mode=replace"}})))
	o := Options{Client: client, Namespace: "ps"}
	found := o.controllers(t.Context(), nil, now)
	if len(found.Value) != 1 || !found.Value[0].Ours || found.Value[0].Acts != doctor.Known(true) {
		t.Errorf("stale lease: %+v", found)
	}
	o.Client = apitest.From(fake.NewClientset(lease("kube-system", "kube-controller-manager", time.Second, nil)))
	if found = o.controllers(t.Context(), nil, now); len(found.Value) != 1 || found.Value[0].Acts.Known {
		t.Errorf("no pod: %+v", found)
	}
	o.Client = apitest.From(fake.NewClientset(pod("kube-system", corev1.Container{Command: []string{"kube-controller-manager"}})))
	if found = o.controllers(t.Context(), nil, now); len(found.Value) != 1 || found.Value[0].Acts != doctor.Known(true) {
		t.Errorf("no lease: %+v", found)
	}
}
