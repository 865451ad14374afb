package agentpods_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
)

func TestFromAPI_SetsProtectionAndUID(t *testing.T) {
	for _, tc := range []struct {
		name, pod string
		want      signals.Protection
		uid       string
	}{
		{"plain pod", "metadata: {name: p, namespace: n, uid: u1}", signals.Unprotected, "u1"},
		{"source written by the pod's owner", "metadata: {name: p, namespace: n, uid: u1, annotations: {kubernetes.io/config.source: file}}", signals.Unprotected, "u1"},
		{"mirror pod with the UID of its static pod", "metadata: {name: p, namespace: n, uid: u1, annotations: {kubernetes.io/config.source: file, kubernetes.io/config.mirror: 0a1b}}", signals.Static, "0a1b"},
		{"mirror pod without a source", "metadata: {name: p, namespace: n, uid: u1, annotations: {kubernetes.io/config.mirror: 0a1b}}", signals.Mirror, "0a1b"},
		{"critical priority", "metadata: {name: p, namespace: n, uid: u1, annotations: {kubernetes.io/config.source: api}}\nspec: {priority: 2000001000}", signals.Critical, "u1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod, err := agentpods.FromAPI(fromYAML(t, tc.pod))
			if err != nil {
				t.Fatal(err)
			}
			if pod.Protection != tc.want || pod.UID != tc.uid || !pod.FromAPI {
				t.Errorf("protection %q, UID %s, from the API %v; want %q, %s, true", pod.Protection, pod.UID, pod.FromAPI, tc.want, tc.uid)
			}
		})
	}
}

func TestFromAPI_RejectsUnsafeNames(t *testing.T) {
	for _, tc := range []struct {
		field  string
		change func(*corev1.Pod)
	}{
		{"UID", func(p *corev1.Pod) { p.UID = "../../system.slice" }},
		{"UID", func(p *corev1.Pod) { p.UID = "" }},
		{"UID", func(p *corev1.Pod) { p.UID = types.UID("a\n") }},
		{"UID", func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.mirror": "../x"} }},
		{"namespace", func(p *corev1.Pod) { p.Namespace = "a/b" }},
		{"namespace", func(p *corev1.Pod) { p.Namespace = ".." }},
		{"name", func(p *corev1.Pod) { p.Name = "" }},
		{"name", func(p *corev1.Pod) { p.Name = "a..b" }},
		{"name", func(p *corev1.Pod) { p.Name = "a_b" }},
		{"name", func(p *corev1.Pod) { p.Name = strings.Repeat("a", 254) }},
		{"container's name", func(p *corev1.Pod) { p.Spec.InitContainers[0].Name = "../x" }},
		{"volume's name", func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "a/../.."}} }},
	} {
		object := running()
		if _, err := agentpods.FromAPI(object); err != nil {
			t.Fatal(err)
		}
		tc.change(object)
		_, err := agentpods.FromAPI(object)
		if err == nil || !strings.Contains(err.Error(), "its "+tc.field) || strings.Contains(err.Error(), "\n") {
			t.Errorf("invalid %s: got error %v", tc.field, err)
		}
	}
}

// running returns a pod with one container of each kind.
func running() *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	now := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p.q-1", Namespace: "n-1", UID: "6c1f-A"},
		Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "main"}, {Name: "ended"}, {Name: "odd"}, {Name: "bare"}},
			InitContainers: []corev1.Container{{Name: "side", RestartPolicy: &always}, {Name: "init"}},
		},
		Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "main", ContainerID: "containerd://0a1b", State: now},
				{Name: "ended", ContainerID: "containerd://dead", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
				{Name: "odd", ContainerID: "cri-o://../../x", State: now},
				{Name: "bare", ContainerID: "0a1b", State: now},
			},
			InitContainerStatuses: []corev1.ContainerStatus{
				{Name: "side", ContainerID: "cri-o://5ide", State: now},
				{Name: "init", ContainerID: "cri-o://1n1t", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}},
			},
		},
	}
}

func TestFromAPI_IDsOfRunningContainersOnly(t *testing.T) {
	object := running()
	object.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{
		{Name: "debug", ContainerID: "containerd://deb09", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		{Name: "debugged", ContainerID: "containerd://e4ded", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
	}
	pod, err := agentpods.FromAPI(object)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(pod.Ephemeral, []string{"deb09"}) {
		t.Errorf("ephemeral containers %v", pod.Ephemeral)
	}
	got := ""
	for _, c := range pod.Containers {
		got += c.Name + "=" + c.ID + " "
	}
	if want := "main=0a1b ended= odd= bare= side=5ide init= "; got != want {
		t.Errorf("containers %s, want %s", got, want)
	}
}

func TestFromAPI_EndsByDeletionTimestamp(t *testing.T) {
	object := running()
	if pod, _ := agentpods.FromAPI(object); !pod.EndsBy.IsZero() {
		t.Errorf("a pod without a deletion timestamp ends by %v", pod.EndsBy)
	}
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)))
	object.DeletionTimestamp = &at
	if pod, _ := agentpods.FromAPI(object); !pod.EndsBy.Equal(at.Time) {
		t.Errorf("ends by %v, want %v: the server has added the grace period", pod.EndsBy, at)
	}
}

// The state file contains the last known pods: encoding preserves every field.
func TestPod_SurvivesJSON(t *testing.T) {
	full := reflect.New(reflect.TypeFor[signals.Pod]()).Elem()
	fill(t, full, "Pod")
	object := running()
	object.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", -3600))}
	converted, err := agentpods.FromAPI(object)
	if err != nil {
		t.Fatal(err)
	}
	before := []signals.Pod{full.Interface().(signals.Pod), converted, {}}
	data, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	var after []signals.Pod
	if err := json.Unmarshal(data, &after); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
}

// fill sets every field, also in nested types, to a non-zero value.
func fill(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Field(i).CanSet() {
				t.Fatalf("%s.%s is not exported and would be lost", path, v.Type().Field(i).Name)
			}
			fill(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), path+"[0]")
		fill(t, v.Index(1), path+"[1]")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), path)
	case reflect.String:
		v.SetString(path)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1<<31 - 1)
	case reflect.Uint8:
		v.SetUint(2)
	default:
		t.Fatalf("%s has the unsupported kind %s", path, v.Kind())
	}
}
