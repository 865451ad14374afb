package client_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/test/harness/bulk"
)

// watchBulk watches a node's pods and returns them. peak is the maximum of reachable bytes during
// their arrival, and retained the reachable bytes afterwards, both above the level before.
func watchBulk(t *testing.T, b *bulk.Server) (p *client.Pods, peak, retained int64) {
	t.Helper()
	var before int64
	connected := func() { before = bulk.Live() }
	b.Sent = func(n int) {
		if n%5 == 0 {
			peak = max(peak, bulk.Live()-before)
		}
	}
	p, size := arrive(t, b, connected)
	retained = bulk.Live() - before
	t.Logf("%d pods of %d bytes: at most %d KiB while they arrived, %d KiB retained", b.Pods, size, peak>>10, retained>>10)
	return p, peak, retained
}

// arrive watches a node's pods until they are known, after a call of connected.
func arrive(t *testing.T, b *bulk.Server, connected func()) (p *client.Pods, size int) {
	t.Helper()
	b.Node = "n1"
	size, err := b.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Server: httptest.NewUnstartedServer(b)}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	c, _ := s.connect(t, s.URL)
	connected()
	changed := make(chan struct{}, 1)
	p = client.WatchPods(t.Context(), c, nil, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	for !p.Synced() { // decoding is slow on a busy machine
		<-changed
	}
	return p, size
}

// forms runs a test with every form of a list.
func forms(t *testing.T, test func(t *testing.T, b *bulk.Server)) {
	for _, streams := range []bool{false, true} {
		for _, protobuf := range []bool{false, true} {
			t.Run(fmt.Sprintf("streams=%t,protobuf=%t", streams, protobuf), func(t *testing.T) {
				test(t, &bulk.Server{Streams: streams, Protobuf: protobuf})
			})
		}
	}
}

func TestPods_LargePodsCostNoMemory(t *testing.T) {
	forms(t, func(t *testing.T, b *bulk.Server) {
		b.Pods, b.Failed, b.Grow = 40, 30, bulk.Fill
		p, peak, retained := watchBulk(t, b)
		if n := len(p.Active()); n != 10 || p.State("p-000001") != client.Ended {
			t.Errorf("%d pods are active, want 10, and a failed one is %s", n, p.State("p-000001"))
		}
		// Buffers of the connection hold 4 MiB on either side. An object of 1.3 MB has up to four
		// copies while it is decoded.
		if peak > 24<<20 {
			t.Errorf("%d MiB were reachable while 52 MB of pods arrived", peak>>20)
		}
		if retained > 8<<20 {
			t.Errorf("%d MiB are retained for 40 pods", retained>>20)
		}
	})
}

// wide gives a pod the maximum size in fields that the agent reads.
func wide(p *corev1.Pod) {
	for i := range 5000 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "i"})
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%d", i), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	p.Spec.HostNetwork = true
	controls := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "X", Name: "x", UID: types.UID(strings.Repeat("u", 100<<10)), Controller: &controls}}
	p.Annotations, p.Labels, p.Finalizers = map[string]string{}, map[string]string{}, bulk.Texts(100)
	for i, text := range bulk.Texts(100) {
		p.Annotations[fmt.Sprint("a", i)], p.Labels[fmt.Sprint("l", i)] = text, text
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodConditionType(fmt.Sprint("plimsoll.dev/X", i)), Message: strings.Repeat(text, 8), Reason: text})
	}
	p.Status.Message, p.Status.NominatedNodeName = strings.Repeat("m", 100<<10), strings.Repeat("n", 100<<10)
}

func TestPods_ShortensWideActivePods(t *testing.T) {
	forms(t, func(t *testing.T, b *bulk.Server) {
		b.Pods, b.Grow = 20, wide
		p, _, retained := watchBulk(t, b)
		if len(p.Active()) != 20 {
			t.Fatalf("%d pods are active", len(p.Active()))
		}
		if limit := int64(20 * 256 << 10); retained > limit+4<<20 {
			t.Errorf("%d KiB are retained for each pod", retained/20>>10)
		}
		one := p.Active()[0]
		if len(one.Volumes) != 1 || !one.Volumes[0].Local || one.Volumes[0].Directory != "kubernetes.io~empty-dir" {
			t.Errorf("of 5000 volumes %d are measured, want 1: %.300v", len(one.Volumes), one.Volumes)
		}
		if len(p.HostImages()) != 2 {
			t.Errorf("images of pods in the host's network: %.300v", p.HostImages())
		}
	})
}

// A stopped kubelet rejects no pod, however many are bound to its node.
func TestPods_BoundsManyWideActivePods(t *testing.T) {
	const bound = 1200 // 68 MiB without a budget
	forms(t, func(t *testing.T, b *bulk.Server) {
		b.Pods, b.Grow = bound, func(p *corev1.Pod) {
			for i := range 250 {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprintf("container-%d", i), Image: "i"})
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%d", i), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
			}
		}
		var before, peak int64
		b.Sent = func(n int) {
			if n%200 == 0 {
				peak = max(peak, bulk.Live()-before)
			}
		}
		p, _ := arrive(t, b, func() { before = bulk.Live() })
		retained := bulk.Live() - before
		t.Logf("at most %d MiB while %d pods arrived, %d MiB retained", peak>>20, bound, retained>>20)
		if peak > 48<<20 || retained > 16<<20 {
			t.Errorf("at most %d MiB while %d pods arrived, %d MiB retained", peak>>20, bound, retained>>20)
		}
		if n := len(p.Active()); n != bound {
			t.Errorf("%d pods are active", n)
		}
	})
}

// many are pods near the size limit of an object, with very many small parts.
var many = map[string]func(*corev1.Pod){
	"volumes": func(p *corev1.Pod) {
		for i := range 90000 {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("vol", i)})
		}
	},
	"environment": func(p *corev1.Pod) {
		for i := range 90000 {
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprint("ENV", i)})
		}
	},
	"annotations": func(p *corev1.Pod) {
		p.Annotations = map[string]string{}
		for i := range 90000 {
			p.Annotations[fmt.Sprint("a", i)] = ""
		}
	},
	"none": func(*corev1.Pod) {},
}

// The cost of a pod during its arrival, on either side of the connection.
func TestPods_ManySmallPartsCostNoMemory(t *testing.T) {
	total := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	for name, grow := range many {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,streams=%t", name, streams), func(t *testing.T) {
				const first, last = 10, 30 // buffers grow before the first one
				var before, after uint64
				b := &bulk.Server{Streams: streams, Protobuf: true, Pods: last + 5, Grow: grow, Sent: func(n int) {
					switch n {
					case first:
						before = total()
					case last:
						after = total()
					}
				}}
				_, size := arrive(t, b, func() {})
				each := (after - before) / (last - first)
				t.Logf("%d KiB are allocated for each pod of %d KiB", each>>10, size>>10)
				if each > uint64(8*size+1<<20) {
					t.Errorf("%d KiB are allocated for each pod of %d KiB", each>>10, size>>10)
				}
			})
		}
	}
}

func TestPods_StoresOnlyFieldsInUse(t *testing.T) {
	s := newServer(t, true)
	deleted := metav1.Now().Rfc3339Copy()
	s.set(pod("a", func(p *corev1.Pod) {
		p.Generation, p.DeletionTimestamp = 3, &deleted
		p.Annotations = map[string]string{"mine": "yes"}
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "SECRET", Value: "x"}}
		p.Status.Reason, p.Status.Message = "r", "m"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}, {Type: "plimsoll.dev/EvictionRequested", Message: "m"}, {Type: corev1.DisruptionTarget}}
	}))
	c, _ := s.connect(t, s.URL)
	p := client.WatchPods(t.Context(), c, nil, nil)
	eventually(t, "the pods are known", p.Synced)
	got, _ := p.Get("uid-a")
	if got.Annotations != nil || got.Spec.Containers != nil || len(got.Status.Conditions) != 2 {
		t.Errorf("unused fields are stored: %+v", got)
	}
	if got.UID != "uid-a" || got.Namespace != "ns" || got.Name != "a" || got.Generation != 3 || !got.DeletionTimestamp.Equal(&deleted) ||
		got.Status.Phase != corev1.PodRunning || got.Status.Reason != "r" || got.Status.Message != "m" || got.Status.Conditions[0].Message != "m" {
		t.Errorf("fields in use are missing: %+v", got)
	}
}
