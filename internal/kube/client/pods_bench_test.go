package client

import (
	"fmt"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// manyPods returns the pods of a full node.
func manyPods(b testing.TB) (*Pods, []*corev1.Pod) {
	b.Helper()
	c := &Connection{node: "n1", log: slog.New(slog.DiscardHandler)}
	p := WatchPods(b.Context(), c, nil, nil)
	var list []any
	var all []*corev1.Pod
	for i := range 250 {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%03d", i), Namespace: "ns", UID: types.UID(fmt.Sprintf("u%03d", i))},
			Spec:       corev1.PodSpec{NodeName: "n1"},
		}
		for k := range 3 {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", k),
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}}})
		}
		all, list = append(all, pod), append(list, pod)
	}
	if err := (podStore{p}).Replace(list, "1"); err != nil {
		b.Fatal(err)
	}
	return p, all
}

// BenchmarkEvent measures one event without publishing.
func BenchmarkEvent(b *testing.B) {
	p, all := manyPods(b)
	for b.Loop() {
		if err := (podStore{p}).Update(all[0]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPublish measures a view of 250 pods, with and without changes that matter to
// decisions.
func BenchmarkPublish(b *testing.B) {
	for name, stale := range map[string]bool{"changed": true, "unchanged": false} {
		b.Run(name, func(b *testing.B) {
			p, _ := manyPods(b)
			for b.Loop() {
				p.mu.Lock()
				p.stale = stale
				p.publish(true)
				p.mu.Unlock()
			}
		})
	}
}

// readLosses performs the reads that follow each change of the pods.
func readLosses(p *Pods) {
	for object := range p.Unexplained() {
		lost = object
	}
	p.Has("u007") // a pod with a repaired status
}

var lost *corev1.Pod

func BenchmarkUnexplained(b *testing.B) {
	p, _ := manyPods(b)
	for b.Loop() {
		readLosses(p)
	}
}

func TestUnexplained_CostsNothingWithoutLosses(t *testing.T) {
	p, _ := manyPods(t)
	if n := testing.AllocsPerRun(10, func() { readLosses(p) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A loss that recurs while the watch is interrupted is reported.
func TestReplace_ReportsLossAgain(t *testing.T) {
	reports := 0
	p := WatchPods(t.Context(), &Connection{node: "n1", log: slog.New(slog.DiscardHandler)}, nil, func() { reports++ })
	lost := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status:     corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{{Type: ours + "Evicted"}}},
	}
	for i, version := range []string{"1", "2"} {
		lost.ResourceVersion = version
		if err := (podStore{p}).Replace([]any{lost.DeepCopy()}, version); err != nil || reports != i+1 {
			t.Errorf("%d reports, %v", reports, err)
		}
	}
}

// BenchmarkActive measures the read of every check of the node.
func BenchmarkActive(b *testing.B) {
	p, _ := manyPods(b)
	for b.Loop() {
		if len(p.Active()) != 250 {
			b.Fatal("pods are missing")
		}
	}
}
