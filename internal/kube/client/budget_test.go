package client

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// wide returns a pod with n containers and n volumes.
func wide(name string, n int, change ...func(*corev1.Pod)) *corev1.Pod {
	priority := int32(len(name))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: "n1", Priority: &priority},
	}
	for i := range n {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i), Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("10Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("1Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("2Mi")},
		}})
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%d", i), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// runs sets the state of a pod with containers started by a kubelet.
func runs(p *corev1.Pod) {
	for i := range p.Spec.Containers {
		name := p.Spec.Containers[i].Name
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, ContainerID: "containerd://" + p.Name + "-" + name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
}

// crashes sets the state of a pod in the kubelet's back-off before a restart.
func crashes(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c0", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
}

func critical(p *corev1.Pod) { *p.Spec.Priority = signals.CriticalPriority }

// full returns the pods of a node above its budget, the small ones last.
func full() (all []*corev1.Pod) {
	for i := range 200 {
		all = append(all, wide(fmt.Sprintf("bound-%04d", i), 250))
	}
	for i := range 120 {
		all = append(all, wide(fmt.Sprintf("large-%04d", i), 250, runs))
	}
	for i := range 100 {
		all = append(all, wide(fmt.Sprintf("small-%04d", i), 5, runs), wide(fmt.Sprintf("crashing-%04d", i), 5, crashes), wide(fmt.Sprintf("new-%04d", i), 5))
	}
	return append(all, wide("critical-bound", 250, critical), wide("critical-large", 250, critical, runs))
}

func listed(all []*corev1.Pod) (list []any) {
	for _, p := range all {
		list = append(list, p)
	}
	return list
}

func watchAll(t *testing.T, all []*corev1.Pod) (*Pods, *logcapture.Book) {
	t.Helper()
	lines := &logcapture.Book{}
	p := WatchPods(t.Context(), &Connection{node: "n1", log: lines.Logger()}, nil, nil)
	if err := (podStore{p}).Replace(listed(all), "1"); err != nil {
		t.Fatal(err)
	}
	return p, lines
}

// stored returns the stored part of a pod.
func stored(t *testing.T, p *Pods, name string) signals.Pod {
	t.Helper()
	for _, pod := range p.Active() {
		if pod.Name == name {
			return pod
		}
	}
	t.Fatalf("%s is missing", name)
	return signals.Pod{}
}

func TestBudget_BoundsAllPodsTogether(t *testing.T) {
	all := full()
	p, lines := watchAll(t, all)
	if len(p.Active()) != len(all) {
		t.Fatalf("%d pods are active, want %d", len(p.Active()), len(all))
	}
	total, shortened := 0, map[string]int{}
	for _, object := range all {
		want, err := agentpods.FromAPI(object)
		if err != nil {
			t.Fatal(err)
		}
		got := stored(t, p, object.Name)
		total += parts(&got)
		if parts(&got) < parts(&want) {
			shortened[object.Name[:5]]++
			agentpods.Shorten(&want)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("stored of %s:\n%+v\nwant\n%+v", object.Name, got, want)
		}
	}
	if limit := maxParts[bound] + maxParts[reported] + 2*len(all); total > limit {
		t.Errorf("%d parts are stored, want at most %d", total, limit)
	}
	for kind, want := range map[string][2]int{"bound": {150, 200}, "large": {40, 70}, "small": {}, "crash": {}, "new-0": {}} {
		if n := shortened[kind]; n < want[0] || n > want[1] {
			t.Errorf("%d pods of the kind %s are shortened, want %v", n, kind, want)
		}
	}
	if n := lines.Count("too many containers and volumes"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
}

// Long paths of hostPaths use the budget too: otherwise a few pods could store many times as much.
func TestBudget_CountsHostPaths(t *testing.T) {
	var all []*corev1.Pod
	for i := range 200 {
		all = append(all, wide(fmt.Sprintf("paths-%04d", i), 100, func(p *corev1.Pod) {
			for k := range p.Spec.Volumes {
				p.Spec.Volumes[k].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/" + strings.Repeat("x", 1000)}}
			}
		}))
	}
	p, _ := watchAll(t, all)
	bytes := 0
	for _, pod := range p.Active() {
		for _, path := range pod.HostPaths {
			bytes += len(path)
		}
	}
	if most := (maxParts[bound] + 5*len(all)) * partBytes; bytes > most || bytes < 1<<20 {
		t.Errorf("%d bytes of paths are stored, want at most %d", bytes, most)
	}
}

func TestBudget_StableAcrossLists(t *testing.T) {
	all := full()
	p, _ := watchAll(t, all)
	before, used := p.Active(), p.budget.used
	for i := range 3 {
		var list []any
		for j := range all { // in another order, as in a streamed list
			e, err := (podStore{p}).entry(all[(j+i*100)%len(all)])
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, e)
		}
		if i == 0 {
			continue // the connection broke
		}
		if err := (podStore{p}).Replace(list, "2"); err != nil {
			t.Fatal(err)
		}
	}
	if p.budget.used != used || !reflect.DeepEqual(p.Active(), before) {
		t.Errorf("the stored parts changed: %v used, before %v", p.budget.used, used)
	}
}

func TestBudget_ReleasesSharesOfGonePods(t *testing.T) {
	all := full()
	p, _ := watchAll(t, all)
	last := all[199]
	if got := stored(t, p, last.Name); parts(&got) > minParts {
		t.Fatalf("%d parts are stored", parts(&got))
	}
	for _, object := range all[:150] {
		if err := (podStore{p}).Delete(object); err != nil {
			t.Fatal(err)
		}
	}
	if err := (podStore{p}).Update(last); err != nil {
		t.Fatal(err)
	}
	p.publish(true)
	if got := stored(t, p, last.Name); parts(&got) != 500 {
		t.Errorf("%d parts are stored once there is room, want 500", parts(&got))
	}
	ends := last.DeepCopy()
	ends.Status.Phase = corev1.PodFailed
	if err := (podStore{p}).Update(ends); err != nil {
		t.Fatal(err)
	}
	if s, there := p.budget.shares[last.UID]; there {
		t.Errorf("an ended pod uses %+v", s)
	}
	if err := (podStore{p}).Replace(nil, "2"); err != nil {
		t.Fatal(err)
	}
	if len(p.budget.shares) != 0 || p.budget.used != [kindsOfPods]int{} {
		t.Errorf("gone pods use %v: %v", p.budget.used, p.budget.shares)
	}
}

func TestBudget_OrdinaryNodeNotShortened(t *testing.T) {
	var all []*corev1.Pod
	for i := range 500 {
		all = append(all, wide(fmt.Sprintf("p%03d", i), 10, runs))
	}
	for i := range 100 {
		all = append(all, wide(fmt.Sprintf("n%03d", i), 10))
	}
	p := WatchPods(t.Context(), &Connection{node: "n1", log: slog.New(slog.DiscardHandler)}, nil, nil)
	if err := (podStore{p}).Replace(listed(all), "1"); err != nil {
		t.Fatal(err)
	}
	for _, pod := range p.Active() {
		if parts(&pod) != 20 {
			t.Fatalf("%d parts are stored of %s, want 20", parts(&pod), pod.Name)
		}
	}
}
