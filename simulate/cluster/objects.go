package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/lifecycle/convert"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A nodeSpec is a node as the file has it: what it is registered with, and what
// it says of itself.
type nodeSpec struct {
	object model.Node // without conditions; its name and its times are those of when it is registered
	labels map[string]string
	says   [model.ConditionTypes]model.Status
}

// A podSpec is a pod as the file has it.
type podSpec struct {
	object  model.Pod // its time of creation is when it is created
	runs    bool      // it is Ready whenever its node is
	evicted bool      // its node's agent evicted it, as soon as it is created
}

// sayings are what a node reports unless the file says otherwise.
var sayings = [model.ConditionTypes]model.Status{
	model.Ready:          model.True,
	model.MemoryPressure: model.False,
	model.DiskPressure:   model.False,
	model.PIDPressure:    model.False,
}

func nodeOf(n *corev1.Node) nodeSpec {
	s := nodeSpec{object: convert.Node(n), labels: n.Labels, says: sayings}
	// What is no duration counts for nothing.
	if key, text := convert.Autonomy(n.Annotations); key != "" {
		s.object.Autonomy, _ = convert.ParseAutonomy(text)
	}
	for i := range n.Spec.Taints {
		taint, _ := convert.Taint(&n.Spec.Taints[i]) // faults are told before
		s.object.Taints = append(s.object.Taints, taint)
	}
	for i := range n.Status.Conditions {
		if t, c, decides := convert.Condition(&n.Status.Conditions[i]); decides {
			s.says[t] = c.Status
		}
	}
	return s
}

// withLabel is the labels with one of them set.
func withLabel(labels map[string]string, key, value string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}

func podOf(p *corev1.Pod) podSpec {
	s := podSpec{object: convert.Pod(p)}
	s.object.Tolerations = convert.Tolerations(p.Spec.Tolerations)
	s.object.Daemon = slices.ContainsFunc(p.OwnerReferences, isDaemonSet)
	s.runs = !s.object.Finished && p.Status.Phase != corev1.PodPending
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
			s.runs = false
		}
	}
	s.object.Ready = s.runs
	_, s.evicted = convert.Evicted(p)
	return s
}

// isDaemonSet reports whether the owner is a DaemonSet that has not been written
// down as a mere owner.
func isDaemonSet(owner metav1.OwnerReference) bool {
	return owner.Kind == "DaemonSet" && (owner.Controller == nil || *owner.Controller)
}
