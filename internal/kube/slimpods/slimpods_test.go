package slimpods_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/kube/slimpods"
	"plimsoll.dev/plimsoll/test/harness/anypods"
)

// same compares the conversions of a pod.
func same(t *testing.T, whole, slim *corev1.Pod) {
	t.Helper()
	want, wantErr := agentpods.FromAPI(whole)
	got, gotErr := agentpods.FromAPI(slim)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pod %s: %s", whole.UID, diff)
	}
	if fmt.Sprint(wantErr) != fmt.Sprint(gotErr) || agentpods.ReachesHost(&whole.Spec) != agentpods.ReachesHost(&slim.Spec) {
		t.Errorf("pod %s: %v, %v; reaches the host: %v, %v", whole.UID, wantErr, gotErr, agentpods.ReachesHost(&whole.Spec), agentpods.ReachesHost(&slim.Spec))
	}
}

func TestPod_ConvertsLikeWholePod(t *testing.T) {
	for seed := range int64(1000) {
		whole, slim := anypods.Decoded(t, anypods.Pod(seed, "n1"))
		same(t, whole, slim)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// Of many volumes each kind counts, wherever it is in the list.
func TestPod_ConvertsManyVolumesLikeWholePod(t *testing.T) {
	sources := map[string]corev1.VolumeSource{
		"none":               {},
		"emptyDir":           {EmptyDir: &corev1.EmptyDirVolumeSource{}},
		"emptyDir in memory": {EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
		"configMap":          {ConfigMap: &corev1.ConfigMapVolumeSource{}},
		"gitRepo":            {GitRepo: &corev1.GitRepoVolumeSource{}},
		"hostPath":           {HostPath: &corev1.HostPathVolumeSource{Path: "/"}},
		"secret":             {Secret: &corev1.SecretVolumeSource{SecretName: "s"}},
	}
	for first, a := range sources {
		for last, b := range sources {
			for _, n := range []int{249, 250, 251, 252, 1000} {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
				for i := range n {
					p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: a})
				}
				p.Spec.Volumes[n-1].VolumeSource = b
				whole, slim := anypods.Decoded(t, p)
				same(t, whole, slim)
				if t.Failed() {
					t.Fatalf("%d volumes %s, then %s", n-1, first, last)
				}
				if len(slim.Spec.Volumes) > 260 {
					t.Fatalf("%d volumes are retained", len(slim.Spec.Volumes))
				}
			}
		}
	}
}

// Beyond the bounds a pod retains its identity and its protection.
func TestPod_RetainsIdentityBeyondBounds(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Annotations: map[string]string{}}}
	priority, controls := int32(2000000000), true
	p.Spec.NodeName, p.Spec.Priority = "n1", &priority
	for i := range 4000 {
		name := fmt.Sprint("c", i)
		p.Annotations[name] = name
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Kind: "X", UID: types.UID(name)})
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1")}}})
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists})
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodConditionType("plimsoll.dev/" + name)})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name})
	}
	p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Kind: "X", UID: "owner", Controller: &controls})
	p.Annotations[agentpods.PolicyAnnotation] = "never"
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"memory": resource.MustParse("1Gi")}, Limits: corev1.ResourceList{}}
	for i := range 4000 {
		p.Spec.Resources.Limits[corev1.ResourceName(fmt.Sprint("hugepages-", i))] = resource.MustParse("1")
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})

	whole, slim := anypods.Decoded(t, p)
	want, got := must(agentpods.FromAPI(whole)), must(agentpods.FromAPI(slim))
	if want.Protection != got.Protection || want.Priority != got.Priority || want.Owner != got.Owner || want.UID != got.UID {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if want.MemoryRequest != got.MemoryRequest || *want.PodLevelMemoryRequest != *got.PodLevelMemoryRequest {
		t.Errorf("memory request %+v, want %+v", got.MemoryRequest, want.MemoryRequest)
	}
	if slim.Annotations[agentpods.PolicyAnnotation] != "never" || len(slim.Annotations) != 1 {
		t.Errorf("annotations: %v", slim.Annotations)
	}
	if len(slim.Spec.Tolerations) != 1 || slim.Spec.Tolerations[0] != (corev1.Toleration{Operator: corev1.TolerationOpExists}) {
		t.Errorf("tolerations %.300v", slim.Spec.Tolerations)
	}
	if n := len(slim.Status.Conditions); n != 101 || slim.Status.Conditions[n-1].Type != corev1.PodReady {
		t.Errorf("%d conditions are retained, the last one %+v", n, slim.Status.Conditions[n-1])
	}
	if len(slim.Spec.Containers) != 1000 || len(slim.Status.ContainerStatuses) != 1000 || len(slim.Spec.Resources.Limits) > 1 {
		t.Errorf("%d containers, %d statuses, %d limits are retained", len(slim.Spec.Containers), len(slim.Status.ContainerStatuses), len(slim.Spec.Resources.Limits))
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// many are pods near the size limit of an object, with very many small parts.
var many = map[string]func(*corev1.Pod){
	"volumes": func(p *corev1.Pod) {
		for i := range 90000 {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint(i)})
		}
	},
	"containers": func(p *corev1.Pod) {
		for i := range 15000 {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint(i), Image: "i"})
		}
	},
	"environment": func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Name: "c"}}
		for i := range 90000 {
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprint(i)})
		}
	},
	"annotations": func(p *corev1.Pod) {
		p.Annotations = map[string]string{}
		for i := range 90000 {
			p.Annotations[fmt.Sprint(i)] = "v"
		}
	},
	"tolerations": func(p *corev1.Pod) {
		for i := range 90000 {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprint(i)})
		}
	},
	"statuses": func(p *corev1.Pod) {
		for i := range 30000 {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: fmt.Sprint(i)})
		}
	},
}

func TestPod_ManySmallPartsCostNoMemory(t *testing.T) {
	for name, grow := range many {
		p := &corev1.Pod{}
		grow(p)
		encoded := must(p.Marshal())
		whole := allocated(func() { _ = new(corev1.Pod).Unmarshal(encoded) })
		slim := allocated(func() { _ = new(slimpods.Pod).Unmarshal(encoded) })
		t.Logf("%s: %d KiB in protobuf; decoding allocates %d KiB, whole %d KiB", name, len(encoded)>>10, slim>>10, whole>>10)
		if slim > 2<<20 {
			t.Errorf("%s: decoding %d KiB allocates %d KiB", name, len(encoded)>>10, slim>>10)
		}
	}
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzPod: this package decodes every input that the whole pod decodes, to the same pod.
func FuzzPod(f *testing.F) {
	for seed := range int64(20) {
		f.Add(must(anypods.Pod(seed, "n1").Marshal()))
	}
	f.Add([]byte{0x0a, 0x03, 0x0b, 0x0c, 0x08})                                                       // a group in the metadata
	f.Add([]byte{0x0a, 0x0c, 0x0a, 0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7e, 1, 1}) // a length of ten bytes
	f.Add([]byte("\x1a\x0eB\x0cR\x04\x0a\x06ab2\x04gggg"))                                            // the key of an entry that ends after the entry
	f.Fuzz(func(t *testing.T, in []byte) {
		before := string(in)
		var whole corev1.Pod
		var slim slimpods.Pod
		err, slimErr := whole.Unmarshal(in), slim.Unmarshal(in)
		if string(in) != before {
			t.Fatal("the input was changed")
		}
		if err != nil {
			return
		}
		if slimErr != nil {
			t.Fatalf("%v", slimErr)
		}
		if whole.Name != slim.Name || whole.Namespace != slim.Namespace || whole.UID != slim.UID || whole.ResourceVersion != slim.ResourceVersion ||
			whole.Spec.NodeName != slim.Spec.NodeName || whole.Status.Phase != slim.Status.Phase || whole.Status.Reason != slim.Status.Reason ||
			(whole.Spec.Priority == nil) != (slim.Spec.Priority == nil) || whole.Spec.Priority != nil && *whole.Spec.Priority != *slim.Spec.Priority {
			t.Errorf("got pod %v, want %v", slim, whole)
		}
	})
}

// ordinary returns a pod of a Deployment.
func ordinary() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-7d4b9c6f5-x2x9z", UID: "5f0c7a1e-8f53-4d1c-9e4b-0a5a0a2d8f11",
		Labels: map[string]string{"app": "cart", "pod-template-hash": "7d4b9c6f5"}, Annotations: map[string]string{"checksum/config": strings.Repeat("a", 64)}},
		Spec:   corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", FieldsV1: metav1.NewFieldsV1(strings.Repeat(`{"f:spec":{}}`, 100))}}
	for i := range 2 {
		c := corev1.Container{Name: fmt.Sprint("c", i), Image: "registry.example.com/shop/cart:1.2.3",
			Resources:     corev1.ResourceRequirements{Requests: corev1.ResourceList{"memory": resource.MustParse("128Mi"), "cpu": resource.MustParse("100m")}},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz"}}}}
		for k := range 20 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", k), Value: "value"})
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: fmt.Sprint("/data/", k)})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image,
			ContainerID: "containerd://" + strings.Repeat("f", 64), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	for _, kind := range []corev1.PodConditionType{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: "True"})
	}
	for i := range 4 {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}})
	}
	return p
}

// BenchmarkPod measures the decoding of an ordinary pod.
func BenchmarkPod(b *testing.B) {
	encoded := must(ordinary().Marshal())
	for name, decode := range map[string]func() error{
		"whole": func() error { return new(corev1.Pod).Unmarshal(encoded) },
		"slim":  func() error { return new(slimpods.Pod).Unmarshal(encoded) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(encoded)))
			b.ReportAllocs()
			for b.Loop() {
				if err := decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
