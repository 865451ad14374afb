// Package anypods generates random pods, with which tests compare two ways of reading a pod.
//
// Duties and invariants:
//
//   - Every field of a pod is set in some pods, and absent in others.
//   - Fields that affect a decision have one of the few relevant values, so that differences
//     become visible.
//   - The same seed gives the same pod.
package anypods

import (
	"fmt"
	"math/rand"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/randfill"
)

// Values that affect a decision, and others that do not.
var (
	annotations      = []string{"kubernetes.io/config.source", "kubernetes.io/config.mirror", "plimsoll.dev/eviction-policy", "plimsoll.dev/eviction-priority", "other"}
	annotationValues = []string{"api", "file", "never", "last", "default", "7", "-1000", "nonsense", "static-uid"}
	resources        = []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU, corev1.ResourceEphemeralStorage, "hugepages-2Mi", "hugepages-1Gi", "example.com/gpu"}
	amounts          = []string{"0", "1", "100m", "64Mi", "1500Mi", "2Gi", "1e9"}
	phases           = []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodFailed, ""}
	reasons          = []string{"", "Evicted", "Evicted", "DeadlineExceeded"}
	conditions       = []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, corev1.DisruptionTarget, "plimsoll.dev/Evicted", "plimsoll.dev/EvictionRequested", "plimsoll.dev/Other", "example.com/plimsoll.dev/"}
	kinds            = []string{"ReplicaSet", "DaemonSet", "Node"}
)

func one[T any](c randfill.Continue, of []T) T { return of[c.Rand.Intn(len(of))] }

// Pod returns the pod of a seed, bound to a node.
func Pod(seed int64, node string) *corev1.Pod {
	f := randfill.NewWithSeed(seed).NilChance(.4).NumElements(0, 4).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) { *q = resource.MustParse(one(c, amounts)) },
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(1700000000+c.Rand.Int63n(100), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) { *t = metav1.NewMicroTime(time.Unix(1700000000, 0)) },
		func(m *metav1.FieldsV1, c randfill.Continue) { *m = *metav1.NewFieldsV1(`{"f:spec":{}}`) },
		func(l *corev1.ResourceList, c randfill.Continue) {
			for range c.Rand.Intn(4) {
				if *l == nil {
					*l = corev1.ResourceList{}
				}
				(*l)[one(c, resources)] = resource.MustParse(one(c, amounts))
			}
		},
		func(x *corev1.PodCondition, c randfill.Continue) {
			c.FillNoCustom(x)
			x.Type, x.Status = one(c, conditions), one(c, []corev1.ConditionStatus{"True", "False", "True"})
		},
		func(o *metav1.OwnerReference, c randfill.Continue) { c.FillNoCustom(o); o.Kind = one(c, kinds) },
	)
	p := &corev1.Pod{}
	f.Fill(p)
	arrange(p, rand.New(rand.NewSource(seed)), node)
	return p
}

// arrange sets names that an API server admits, and values that affect decisions.
func arrange(p *corev1.Pod, r *rand.Rand, node string) {
	c := randfill.Continue{Rand: r}
	p.Namespace, p.Name, p.UID, p.Spec.NodeName = one(c, []string{"ns", "kube-system"}), "pod", types.UID(fmt.Sprint("uid-", r.Int31())), node
	p.Annotations = map[string]string{}
	for range r.Intn(4) {
		p.Annotations[one(c, annotations)] = one(c, annotationValues)
	}
	p.Status.Phase, p.Status.Reason = one(c, phases), one(c, reasons)
	if p.Spec.Priority != nil {
		*p.Spec.Priority = one(c, []int32{-1, 0, 1000, 2000000000, 2000001000})
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		v.Name = fmt.Sprint("v", i)
		if v.EmptyDir != nil {
			v.EmptyDir.Medium = one(c, []corev1.StorageMedium{"", "", corev1.StorageMediumMemory})
		}
	}
	name := func(of string, containers []corev1.Container, statuses []corev1.ContainerStatus) {
		for i := range containers {
			containers[i].Name = fmt.Sprint(of, i)
		}
		for i := range statuses {
			statuses[i].Name, statuses[i].ContainerID = fmt.Sprint(of, i), one(c, []string{"", "containerd://", "cri-o://"})+fmt.Sprint("id", i)
		}
	}
	name("c", p.Spec.Containers, p.Status.ContainerStatuses)
	name("i", p.Spec.InitContainers, p.Status.InitContainerStatuses)
	name("e", nil, p.Status.EphemeralContainerStatuses)
	for i := range p.Spec.InitContainers {
		if policy := p.Spec.InitContainers[i].RestartPolicy; policy != nil {
			*policy = one(c, []corev1.ContainerRestartPolicy{corev1.ContainerRestartPolicyAlways, "Never"})
		}
	}
}
