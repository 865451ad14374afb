package rehearse

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/lifecycle/facts"
)

// A nodeSpec is a node as the file has it: what it is registered with, and what
// it says of itself.
type nodeSpec struct {
	object facts.Node // without name, times and conditions
	labels map[string]string
	says   [facts.ConditionTypes]facts.Status
}

// A podSpec is a pod as the file has it.
type podSpec struct {
	object facts.Pod // without time of creation
	runs   bool      // it is Ready whenever its node is
}

// sayings are what a node reports unless the file says otherwise.
var sayings = [facts.ConditionTypes]facts.Status{
	facts.Ready:          facts.True,
	facts.MemoryPressure: facts.False,
	facts.DiskPressure:   facts.False,
	facts.PIDPressure:    facts.False,
}

func nodeOf(n *corev1.Node) nodeSpec {
	s := nodeSpec{
		object: facts.Node{
			UID:           string(n.UID),
			Labels:        labelsOf(n.Labels),
			Unschedulable: n.Spec.Unschedulable,
			Autonomy:      autonomyOf(n.Annotations),
		},
		labels: n.Labels,
		says:   sayings,
	}
	for _, t := range n.Spec.Taints {
		effect, _ := facts.ParseEffect(string(t.Effect)) // faults are told before
		s.object.Taints = append(s.object.Taints, facts.Taint{Key: t.Key, Value: t.Value, Effect: effect})
	}
	for _, c := range n.Status.Conditions {
		if t, decides := facts.ParseConditionType(string(c.Type)); decides {
			s.says[t] = facts.ParseStatus(string(c.Status))
		}
	}
	return s
}

// labelsOf picks the labels that decide something. The older ones say where a
// node is, if it has both.
func labelsOf(labels map[string]string) facts.Labels {
	label := func(key string) facts.Label {
		value, is := labels[key]
		return facts.Label{Value: value, Is: is}
	}
	first := func(keys ...string) string {
		for _, key := range keys {
			if l := label(key); l.Is {
				return l.Value
			}
		}
		return ""
	}
	return facts.Labels{
		Region:   first(corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion),
		Zone:     first(corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone),
		OS:       label(corev1.LabelOSStable),
		Arch:     label(corev1.LabelArchStable),
		OldOS:    label("beta.kubernetes.io/os"),
		OldArch:  label("beta.kubernetes.io/arch"),
		Excluded: label("node.kubernetes.io/exclude-disruption").Is,
	}
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

// Annotations that say how long the pods of an unreachable node stay.
const (
	annotationAutonomy    = "plimsoll.dev/autonomy-duration"
	annotationOldAutonomy = "node.openyurt.io/autonomy-duration"
)

// autonomyOf reads the first of the annotations that is there. Zero and less is
// for ever; what is no duration counts for nothing.
func autonomyOf(annotations map[string]string) time.Duration {
	for _, key := range []string{annotationAutonomy, annotationOldAutonomy} {
		text, is := annotations[key]
		if !is {
			continue
		}
		switch d, err := time.ParseDuration(text); {
		case err != nil:
			return 0
		case d <= 0:
			return facts.Forever
		default:
			return d
		}
	}
	return 0
}

func podOf(p *corev1.Pod) podSpec {
	s := podSpec{
		object: facts.Pod{
			Namespace:   p.Namespace,
			Name:        p.Name,
			UID:         string(p.UID),
			Node:        p.Spec.NodeName,
			Tolerations: tolerationsOf(p.Spec.Tolerations),
			Daemon:      slices.ContainsFunc(p.OwnerReferences, isDaemonSet),
			Finished:    slices.Contains([]corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}, p.Status.Phase),
			Deleting:    p.DeletionTimestamp != nil,
		},
	}
	s.runs = !s.object.Finished && p.Status.Phase != corev1.PodPending
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
			s.runs = false
		}
	}
	s.object.Ready = s.runs
	return s
}

// isDaemonSet reports whether the owner is a DaemonSet that has not been written
// down as a mere owner.
func isDaemonSet(owner metav1.OwnerReference) bool {
	return owner.Kind == "DaemonSet" && (owner.Controller == nil || *owner.Controller)
}

// operators are those of tolerations, by their name in the API.
var operators = map[corev1.TolerationOperator]facts.Operator{
	"": facts.Equal, corev1.TolerationOpEqual: facts.Equal, corev1.TolerationOpExists: facts.Exists,
}

// tolerationsOf takes tolerations as written. One with an operator or an effect
// that Kubernetes does not know tolerates nothing.
func tolerationsOf(written []corev1.Toleration) []facts.Toleration {
	tolerations := make([]facts.Toleration, len(written))
	for i, t := range written {
		operator, is := operators[t.Operator]
		effect, known := facts.ParseEffect(string(t.Effect))
		if !is || !known {
			operator = facts.InvalidOperator
		}
		tolerations[i] = facts.Toleration{Key: t.Key, Value: t.Value, Operator: operator, Effect: effect}
		if t.TolerationSeconds != nil {
			tolerations[i].Seconds, tolerations[i].Bounded = *t.TolerationSeconds, true
		}
	}
	return tolerations
}
