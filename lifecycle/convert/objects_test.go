package convert

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

var then = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestNode_CopiesMetadata(t *testing.T) {
	got := Node(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", CreationTimestamp: metav1.NewTime(then), Labels: map[string]string{"topology.kubernetes.io/zone": "z"}},
		Spec:       corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}},
	})
	want := model.Node{Name: "a", UID: "u", Created: then, Unschedulable: true, Labels: model.Labels{Zone: "z"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLabels_PreferBetaTopology(t *testing.T) {
	for _, c := range []struct {
		name   string
		labels map[string]string
		want   model.Labels
	}{
		{"none", nil, model.Labels{}},
		{"stable labels", map[string]string{
			"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z", "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64",
		}, model.Labels{Region: "r", Zone: "z", OS: model.Label{Value: "linux", Is: true}, Arch: model.Label{Value: "arm64", Is: true}}},
		{"beta topology labels win", map[string]string{
			"topology.kubernetes.io/region": "r", "failure-domain.beta.kubernetes.io/region": "old",
			"topology.kubernetes.io/zone": "z", "failure-domain.beta.kubernetes.io/zone": "",
		}, model.Labels{Region: "old"}},
		{"beta OS and arch labels", map[string]string{"kubernetes.io/os": "linux", LabelOldOS: "plan9", LabelOldArch: ""},
			model.Labels{OS: model.Label{Value: "linux", Is: true}, OldOS: model.Label{Value: "plan9", Is: true}, OldArch: model.Label{Is: true}}},
		{"excluded, any value", map[string]string{"node.kubernetes.io/exclude-disruption": "false"}, model.Labels{Excluded: true}},
	} {
		if diff := cmp.Diff(c.want, Labels(c.labels)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestCondition_ReturnsTypeAndStatus(t *testing.T) {
	written := corev1.NodeCondition{LastHeartbeatTime: metav1.NewTime(then), LastTransitionTime: metav1.NewTime(then), Reason: "r"}
	for _, c := range []struct {
		kind     corev1.NodeConditionType
		status   corev1.ConditionStatus
		is       model.ConditionType
		want     model.Status
		relevant bool
	}{
		{"Ready", "True", model.Ready, model.True, true},
		{"NetworkUnavailable", "False", model.NetworkUnavailable, model.False, true},
		{"DiskPressure", "Unknown", model.DiskPressure, model.Unknown, true},
		{"PIDPressure", "", model.PIDPressure, model.Unknown, true},
		{"MemoryPressure", "Perhaps", model.MemoryPressure, model.Unknown, true},
		{"plimsoll.dev/MemoryPressure", "True", 0, model.Absent, false},
	} {
		written.Type, written.Status = c.kind, c.status
		want := model.Condition{}
		if c.relevant {
			want = model.Condition{Status: c.want, Heartbeat: then, Transition: then.Add(time.Second - 1), Reason: "r"}
		}
		if kind, got, relevant := Condition(&written); kind != c.is || got != want || relevant != c.relevant {
			t.Errorf("%s=%q: got %s, %+v, %v", c.kind, c.status, kind, got, relevant)
		}
	}
}

func TestAutonomy_ParsesAnnotation(t *testing.T) {
	const ours, yurt = "plimsoll.dev/autonomy-duration", "node.openyurt.io/autonomy-duration"
	for _, c := range []struct {
		annotations map[string]string
		key, text   string
	}{
		{nil, "", ""},
		{map[string]string{"else": "1h"}, "", ""},
		{map[string]string{yurt: "24h"}, yurt, "24h"},
		{map[string]string{ours: "", yurt: "24h"}, ours, ""},
	} {
		if key, text := Autonomy(c.annotations); key != c.key || text != c.text {
			t.Errorf("%v: got %s=%q, want %s=%q", c.annotations, key, text, c.key, c.text)
		}
	}
	for _, c := range []struct {
		text   string
		want   time.Duration
		faulty bool
	}{
		{"90m", 90 * time.Minute, false}, {"0", model.Forever, false}, {"-1h", model.Forever, false},
		{"", 0, true}, {" 5m ", 0, true}, {"two hours", 0, true}, {"1e99h", 0, true},
	} {
		if got, err := ParseAutonomy(c.text); got != c.want || (err != nil) != c.faulty {
			t.Errorf("%q: got %s, %v, want %s", c.text, got, err, c.want)
		}
	}
}

func TestPod_FinishedAndDeleting(t *testing.T) {
	at := metav1.NewTime(then)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u", CreationTimestamp: at},
		Spec:       corev1.PodSpec{NodeName: "a", Tolerations: []corev1.Toleration{{Key: "k"}}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	want := model.Pod{Namespace: "n", Name: "p", UID: "u", Node: "a", Created: then.Add(time.Second - 1)}
	for phase, finished := range map[corev1.PodPhase]bool{"": false, corev1.PodPending: false, corev1.PodRunning: false, corev1.PodUnknown: false, corev1.PodSucceeded: true, corev1.PodFailed: true} {
		for _, deleted := range []*metav1.Time{nil, &at} {
			p.Status.Phase, p.DeletionTimestamp = phase, deleted
			want.Finished, want.Deleting = finished, deleted != nil
			if diff := cmp.Diff(want, Pod(p)); diff != "" {
				t.Errorf("phase %q: %s", phase, diff)
			}
		}
	}
}

func TestEvicted_RequiresMark(t *testing.T) {
	mark := func(status corev1.ConditionStatus, at metav1.Time) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: "plimsoll.dev/Evicted", Status: status, LastTransitionTime: at}}
	}
	for _, c := range []struct {
		name       string
		phase      corev1.PodPhase
		reason     string
		conditions []corev1.PodCondition
		since      time.Time
		marked     bool
	}{
		{"evicted", corev1.PodFailed, "Evicted", mark(corev1.ConditionTrue, metav1.NewTime(then)), then, true},
		{"mark without a time", corev1.PodFailed, "Evicted", mark(corev1.ConditionTrue, metav1.Time{}), time.Time{}, true},
		{"no mark", corev1.PodFailed, "Evicted", nil, time.Time{}, false},
		{"mark False", corev1.PodFailed, "Evicted", mark(corev1.ConditionFalse, metav1.NewTime(then)), then, false},
		{"mark Unknown", corev1.PodFailed, "Evicted", mark(corev1.ConditionUnknown, metav1.NewTime(then)), then, false},
		{"reason overwritten", corev1.PodFailed, "", mark(corev1.ConditionTrue, metav1.NewTime(then)), then, true},
		{"reason overwritten, mark False", corev1.PodFailed, "", mark(corev1.ConditionFalse, metav1.NewTime(then)), then, false},
		{"another reason of the kubelet", corev1.PodFailed, "DeadlineExceeded", mark(corev1.ConditionTrue, metav1.NewTime(then)), time.Time{}, false},
		{"running", corev1.PodRunning, "Evicted", mark(corev1.ConditionTrue, metav1.NewTime(then)), time.Time{}, false},
		{"succeeded", corev1.PodSucceeded, "Evicted", mark(corev1.ConditionTrue, metav1.NewTime(then)), time.Time{}, false},
	} {
		since, marked := Evicted(&corev1.Pod{Status: corev1.PodStatus{Phase: c.phase, Reason: c.reason, Conditions: c.conditions}})
		if marked != c.marked || !since.Equal(c.since) {
			t.Errorf("%s: got %v since %s, want %v", c.name, marked, since, c.marked)
		}
	}
}

// TestEvicted_WithoutReason checks that a pod without its reason counts as evicted unless a
// container started after the mark.
func TestEvicted_WithoutReason(t *testing.T) {
	running := func(at time.Time) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}}
	}
	ended := func(at time.Time) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(at)}}
	}
	one := func(state, last corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{State: state, LastTerminationState: last}}
	}
	before, after := then.Add(-time.Second), then.Add(time.Second)
	waiting := corev1.ContainerState{}
	for _, c := range []struct {
		name   string
		status corev1.PodStatus
		want   bool
	}{
		{"no container ran", corev1.PodStatus{ContainerStatuses: one(waiting, waiting)}, true},
		{"killed", corev1.PodStatus{ContainerStatuses: one(ended(before), waiting)}, true},
		{"killed, end not reported", corev1.PodStatus{ContainerStatuses: one(running(before), ended(before))}, true},
		{"restarted, then failed", corev1.PodStatus{ContainerStatuses: one(ended(after), ended(before))}, false},
		{"restarted in the same second", corev1.PodStatus{ContainerStatuses: one(ended(then), waiting)}, false},
		{"restarted, waiting", corev1.PodStatus{ContainerStatuses: one(waiting, ended(after))}, false},
		{"sidecar restarted", corev1.PodStatus{InitContainerStatuses: one(running(after), waiting)}, false},
		{"ephemeral container ran", corev1.PodStatus{EphemeralContainerStatuses: one(ended(after), waiting)}, false},
	} {
		c.status.Phase = corev1.PodFailed
		c.status.Conditions = []corev1.PodCondition{{Type: "plimsoll.dev/Evicted", Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(then)}}
		since, marked := Evicted(&corev1.Pod{Status: c.status})
		if marked != c.want || !since.Equal(then) {
			t.Errorf("%s: got %v since %s, want %v", c.name, marked, since, c.want)
		}
	}
}

func TestTaint_RejectsUnknownEffect(t *testing.T) {
	at := metav1.NewTime(then)
	for _, c := range []struct {
		taint corev1.Taint
		want  model.Taint
		ok    bool
	}{
		{corev1.Taint{Key: "k", Value: "v", Effect: "NoExecute", TimeAdded: &at}, model.Taint{Key: "k", Value: "v", Effect: model.NoExecute, Added: then.Add(time.Second - 1)}, true},
		{corev1.Taint{Key: "k", Effect: "PreferNoSchedule"}, model.Taint{Key: "k", Effect: model.PreferNoSchedule}, true},
		{corev1.Taint{Key: "k"}, model.Taint{Key: "k"}, false},
		{corev1.Taint{Key: "k", Effect: "NoBreakfast"}, model.Taint{Key: "k"}, false},
	} {
		if got, ok := Taint(&c.taint); got != c.want || ok != c.ok {
			t.Errorf("%+v: got %+v, %v, want %+v, %v", c.taint, got, ok, c.want, c.ok)
		}
	}
}

func TestLatest_ReturnsEndOfSecond(t *testing.T) {
	for _, c := range []struct{ at, want time.Time }{
		{then, then.Add(time.Second - 1)},
		{then.Add(time.Millisecond), then.Add(time.Millisecond)},
		{time.Time{}, time.Time{}},
	} {
		if got := Latest(c.at); !got.Equal(c.want) {
			t.Errorf("%s: got %s, want %s", c.at, got, c.want)
		}
	}
	if got := metav1.NewTime(Latest(then)).Format(time.RFC3339); got != then.Format(time.RFC3339) {
		t.Errorf("formatted as %s, want %s", got, then.Format(time.RFC3339))
	}
}

func TestTolerations_MapsOperators(t *testing.T) {
	minute, never := int64(60), int64(-5)
	got := Tolerations([]corev1.Toleration{
		{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &minute},
		{Key: "l", Value: "v", TolerationSeconds: &never}, {Key: "m", Operator: "Equal"},
		{Key: "n", Operator: "Nearly"}, {Key: "o", Operator: "Gt", Value: "3"}, {Key: "p", Operator: "Lt", Value: "-3"}, {Effect: "NoBreakfast", Operator: corev1.TolerationOpExists},
	})
	want := []model.Toleration{
		{Key: "k", Operator: model.Exists, Effect: model.NoExecute, Seconds: 60, Bounded: true},
		{Key: "l", Value: "v", Seconds: -5, Bounded: true}, {Key: "m"},
		{Key: "n", Operator: model.UnknownOperator},
		{Key: "o", Operator: model.Greater, Value: "3"}, {Key: "p", Operator: model.Less, Value: "-3"}, {Operator: model.InvalidOperator},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
