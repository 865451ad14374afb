package lifecycle

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

var then = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestConverter_Node(t *testing.T) {
	at := metav1.NewTime(then)
	got := (&converter{warn: func(object, what string) { t.Errorf("%s: %s", object, what) }}).node(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", UID: "u", CreationTimestamp: at,
			Labels: map[string]string{
				"topology.kubernetes.io/region": "new", "failure-domain.beta.kubernetes.io/region": "old", "topology.kubernetes.io/zone": "z",
				"kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "", "node.kubernetes.io/exclude-disruption": "",
			},
			Annotations: map[string]string{"node.openyurt.io/autonomy-duration": "0", "plimsoll.dev/autonomy-duration": "2h"},
		},
		Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute, TimeAdded: &at}, {Key: "l", Effect: corev1.TaintEffectPreferNoSchedule}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastHeartbeatTime: at, LastTransitionTime: metav1.NewTime(then.Add(-time.Second)), Reason: "r"},
			{Type: "their.dev/Pressure", Status: corev1.ConditionTrue},
			{Type: "plimsoll.dev/PIDPressure", Status: corev1.ConditionTrue}, {Type: "plimsoll.dev/DiskPressure", Status: corev1.ConditionFalse}, {Type: "plimsoll.dev/MemoryPressure", Status: corev1.ConditionUnknown},
			{Type: corev1.NodeDiskPressure},
		}},
	})
	want := &model.Node{
		Name: "a", UID: "u", Created: then, Unschedulable: true, Autonomy: 2 * time.Hour,
		Labels:    model.Labels{Region: "old", Zone: "z", OS: model.Label{Value: "linux", Is: true}, OldArch: model.Label{Is: true}, Excluded: true},
		Taints:    []model.Taint{{Key: "k", Value: "v", Effect: model.NoExecute, Added: then.Add(time.Second - 1)}, {Key: "l", Effect: model.PreferNoSchedule}},
		Pressures: []string{"plimsoll.dev/MemoryPressure", "plimsoll.dev/PIDPressure"},
	}
	want.Conditions[model.Ready] = model.Condition{Status: model.False, Heartbeat: then, Transition: then.Add(-1), Reason: "r"}
	want.Conditions[model.DiskPressure] = model.Condition{Status: model.Unknown}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestConverter_Autonomy(t *testing.T) {
	for _, c := range []struct {
		ours, yurt string // "-": absent
		want       time.Duration
		warned     int
	}{
		{"-", "-", 0, 0}, {"90m", "-", 90 * time.Minute, 0}, {"-", "24h", 24 * time.Hour, 0}, {"-", "0", model.Forever, 0},
		{"-1h", "5m", model.Forever, 0}, {" 5m ", "-", 5 * time.Minute, 0}, {"two hours", "5m", 0, 1}, {"", "-", 0, 1}, {"1e99h", "-", 0, 1},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", Annotations: map[string]string{}}}
		for key, text := range map[string]string{api.Prefix + "autonomy-duration": c.ours, "node.openyurt.io/autonomy-duration": c.yurt} {
			if text != "-" {
				n.Annotations[key] = text
			}
		}
		warned := 0
		got := (&converter{warn: func(string, string) { warned++ }}).node(n).Autonomy
		if got != c.want || warned != c.warned {
			t.Errorf("%q and %q: got %s with %d warnings, want %s with %d", c.ours, c.yurt, got, warned, c.want, c.warned)
		}
	}
}

func TestConverter_Pod(t *testing.T) {
	at, minute, controls := metav1.NewTime(then), int64(60), true
	request := &model.Request{Cause: "memory.available", GraceSeconds: 30, Since: then}
	warned := 0
	got := (&converter{warn: func(string, string) { warned++ }, requested: func(*corev1.Pod) (*model.Request, error) { return request, nil }}).pod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "p", UID: "u", CreationTimestamp: at, DeletionTimestamp: &at,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: &controls}},
		},
		Spec: corev1.PodSpec{NodeName: "a", Tolerations: []corev1.Toleration{
			{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &minute},
			{Key: "l", Value: "v"}, {Key: "m", Operator: "Nearly"}, {Effect: "NoBreakfast", Operator: corev1.TolerationOpExists},
		}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: "plimsoll.dev/Evicted", Status: corev1.ConditionTrue, LastTransitionTime: at},
		}},
	})
	want := &model.Pod{
		Namespace: "n", Name: "p", UID: "u", Node: "a", Created: then.Add(time.Second - 1), Daemon: true, Finished: true, Deleting: true, Ready: true, Requested: request, Evicted: &then,
		Tolerations: []model.Toleration{
			{Key: "k", Operator: model.Exists, Effect: model.NoExecute, Seconds: 60, Bounded: true},
			{Key: "l", Value: "v"}, {Key: "m", Operator: model.UnknownOperator}, {Operator: model.InvalidOperator},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || warned != 1 {
		t.Errorf("got %d warnings, want 1; diff: %s", warned, diff)
	}
}

func TestConverter_SharesTolerations(t *testing.T) {
	c := &converter{}
	pod := func(name, key string) *model.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "u"}, Spec: corev1.PodSpec{NodeName: "a"}}
		tolerating(300)(p)
		p.Spec.Tolerations[0].Key = key
		return c.pod(p)
	}
	a, b, other := pod("a", "k"), pod("b", "k"), pod("c", "l")
	if !sameTolerations(a.Tolerations, b.Tolerations) {
		t.Error("equal tolerations of two pods are not shared")
	}
	if sameTolerations(a.Tolerations, other.Tolerations) || other.Tolerations[0].Key != "l" {
		t.Error("different tolerations of two pods are shared")
	}
	// Keys must differ if only one part, or its offset, differs.
	one, two := &corev1.Toleration{Key: "a", Value: "b"}, &corev1.Toleration{Key: "ab"}
	if string(appendToleration(nil, one)) == string(appendToleration(nil, two)) {
		t.Error("different tolerations have the same key")
	}
}

func TestConverter_WarnsOnceOfUnknownValues(t *testing.T) {
	var log logcapture.Book
	warned := &warnings{log: log.Logger()}
	c := &converter{warn: warned.once, requested: func(p *corev1.Pod) (*model.Request, error) {
		return &model.Request{Cause: "x"}, errors.New("an invalid mark")
	}}
	for range 3 {
		n := c.node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "odd", Effect: "NoBreakfast"}, {Key: "k", Effect: "NoExecute"}, {Key: "e"}}}})
		if len(n.Taints) != 1 || n.Taints[0].Key != "k" {
			t.Errorf("got taints %+v, want only k", n.Taints)
		}
		if p := c.pod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}, Spec: corev1.PodSpec{NodeName: "a", Tolerations: []corev1.Toleration{{Key: "k", Operator: "Nearly"}}}}); p == nil || p.Requested != nil {
			t.Errorf("got pod %+v", p)
		}
		for _, n := range []*corev1.Node{{}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}} {
			if c.node(n) != nil {
				t.Errorf("a node without an identity was converted: %+v", n)
			}
		}
	}
	for range 2 {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "q", UID: "v"}, Spec: corev1.PodSpec{NodeName: "a"}}
		setEvicted(p)
		if p.Status.Conditions[1].LastTransitionTime = (metav1.Time{}); (&converter{warn: warned.once}).pod(p).Evicted != nil {
			t.Error("a mark without a time was converted")
		}
	}
	for i := range 3 {
		warned.once("n/long", strings.Repeat("ö", 1<<20)+strconv.Itoa(i)) // a message of the API
	}
	if n := len(log.String()); n > 10_000 {
		t.Errorf("the log has %d bytes", n)
	}
	for part, want := range map[string]int{"n/long": 1, "odd": 1, "Nearly": 1, "has no lastTransitionTime": 1, "an invalid mark": 1, "no UID": 2} {
		if got := log.Count(part); got != want {
			t.Errorf("%q: got %d warnings, want %d:\n%s", part, got, want, log.String())
		}
	}
}

func FuzzObjects(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a","uid":"u","annotations":{"plimsoll.dev/autonomy-duration":"5m"}},"spec":{"taints":[{"key":"k","effect":"NoExecute"}]},"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"plimsoll.dev/X","status":"Unknown"}]}}`))
	f.Add([]byte(`{"metadata":{"name":"p","uid":"u","ownerReferences":[{"kind":"DaemonSet","apiVersion":"apps/v1","controller":true}]},"spec":{"nodeName":"a","tolerations":[{"key":"k","operator":"Exists","tolerationSeconds":-5}]},"status":{"phase":"Failed","reason":"Evicted","conditions":[{"type":"plimsoll.dev/Evicted","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`))
	f.Add([]byte(`{"metadata":{"managedFields":[{"manager":"kube-controller-manager","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:spec":{"f:taints":[]}}}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var n corev1.Node
		var p corev1.Pod
		c := &converter{warn: func(object, what string) {
			if what == "" {
				t.Errorf("empty warning about %s", object)
			}
		}}
		if json.Unmarshal(text, &n) == nil {
			otherWriters(DefaultOtherWriters).of(&n)
			checkNode(t, &n, c.node(&n))
		}
		if json.Unmarshal(text, &p) == nil {
			first, second := c.pod(&p), c.pod(&p)
			if !reflect.DeepEqual(first, second) || first != nil && !samePod(first, second) {
				t.Errorf("two conversions of one pod differ: %+v and %+v", first, second)
			}
			if first != nil && len(first.Tolerations) != len(p.Spec.Tolerations) {
				t.Errorf("got %d tolerations, want %d", len(first.Tolerations), len(p.Spec.Tolerations))
			}
		}
	})
}

func checkNode(t *testing.T, n *corev1.Node, f *model.Node) {
	t.Helper()
	if f == nil {
		if n.Name != "" && n.UID != "" {
			t.Error("a node with an identity was not converted")
		}
		return
	}
	if f.Autonomy < 0 || !slices.IsSorted(f.Pressures) || len(f.Taints) > len(n.Spec.Taints) {
		t.Errorf("got node %+v", f)
	}
	for _, taint := range f.Taints {
		if taint.Effect == model.AnyEffect {
			t.Errorf("taint without an effect: %+v", taint)
		}
	}
	for i := range n.Status.Conditions {
		if kind, decides := model.ParseConditionType(string(n.Status.Conditions[i].Type)); decides && f.Conditions[kind].Status == model.Absent {
			t.Errorf("condition %s is missing in the result", kind)
		}
	}
}
