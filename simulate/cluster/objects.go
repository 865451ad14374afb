package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/lifecycle/convert"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// nodeSpec is a node of the file: its object at registration, and its reports.
type nodeSpec struct {
	object    model.Node // without conditions; name and times are set at registration
	labels    map[string]string
	ownStatus [model.ConditionTypes]model.Status
}

// podSpec is a pod of the file.
type podSpec struct {
	object  model.Pod // its creation time is set at creation
	runs    bool      // Ready whenever its node is
	evicted bool      // evicted by its node's agent, at creation
}

// sayings are the default reports of a node.
var sayings = [model.ConditionTypes]model.Status{
	model.Ready:          model.True,
	model.MemoryPressure: model.False,
	model.DiskPressure:   model.False,
	model.PIDPressure:    model.False,
}

func nodeOf(n *corev1.Node) nodeSpec {
	s := nodeSpec{object: convert.Node(n), labels: n.Labels, ownStatus: sayings}
	// An invalid duration is ignored.
	if key, text := convert.Autonomy(n.Annotations); key != "" {
		s.object.Autonomy, _ = convert.ParseAutonomy(text)
	}
	for i := range n.Spec.Taints {
		taint, _ := convert.Taint(&n.Spec.Taints[i]) // faults were reported before
		s.object.Taints = append(s.object.Taints, taint)
	}
	for i := range n.Status.Conditions {
		if t, c, decides := convert.Condition(&n.Status.Conditions[i]); decides {
			s.ownStatus[t] = c.Status
		}
	}
	return s
}

// withLabel returns a copy of the labels with one of them set.
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

// isDaemonSet reports whether the owner is a DaemonSet, unless it is declared as a
// non-controlling owner.
func isDaemonSet(owner metav1.OwnerReference) bool {
	return owner.Kind == "DaemonSet" && (owner.Controller == nil || *owner.Controller)
}
