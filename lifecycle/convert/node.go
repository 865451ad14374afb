package convert

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// The older names of the labels that say what runs on a node.
const (
	LabelOldOS   = "beta.kubernetes.io/os"
	LabelOldArch = "beta.kubernetes.io/arch"
)

const labelExclude = "node.kubernetes.io/exclude-disruption"

// autonomies are the annotations that say how long an unreachable node keeps its
// pods; the first one that is there counts.
var autonomies = [...]string{"plimsoll.dev/autonomy-duration", "node.openyurt.io/autonomy-duration"}

// Node is what a node is registered with. Its taints, its conditions and its
// autonomy, each of which may be ill formed, are not in it.
func Node(n *corev1.Node) model.Node {
	return model.Node{
		Name: n.Name, UID: string(n.UID), Created: n.CreationTimestamp.Time,
		Labels: Labels(n.Labels), Unschedulable: n.Spec.Unschedulable,
	}
}

// Labels picks the labels of a node that decide something. Where a node has the
// older one of those that say where it is, that one counts, as in Kubernetes.
func Labels(l map[string]string) model.Labels {
	label := func(key string) model.Label {
		value, is := l[key]
		return model.Label{Value: value, Is: is}
	}
	return model.Labels{
		Region:   either(l, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion),
		Zone:     either(l, corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone),
		OS:       label(corev1.LabelOSStable),
		Arch:     label(corev1.LabelArchStable),
		OldOS:    label(LabelOldOS),
		OldArch:  label(LabelOldArch),
		Excluded: label(labelExclude).Is,
	}
}

func either(l map[string]string, first, second string) string {
	if value, is := l[first]; is {
		return value
	}
	return l[second]
}

// Condition is a condition of a node and its type; decides is false for one by
// which nothing is decided. A status that is empty or not known is Unknown: the
// condition is there, so it is not absent.
func Condition(c *corev1.NodeCondition) (t model.ConditionType, condition model.Condition, decides bool) {
	if t, decides = model.ParseConditionType(string(c.Type)); !decides {
		return t, model.Condition{}, false
	}
	condition = model.Condition{
		Status: model.Unknown, Reason: c.Reason,
		Heartbeat: c.LastHeartbeatTime.Time, Transition: Latest(c.LastTransitionTime.Time),
	}
	if c.Status != "" {
		condition.Status = model.ParseStatus(string(c.Status))
	}
	return t, condition, true
}

// Autonomy is the annotation that says how long an unreachable node keeps its
// pods, and what it says; both are empty if there is none.
func Autonomy(annotations map[string]string) (key, text string) {
	for _, key := range autonomies {
		if text, is := annotations[key]; is {
			return key, text
		}
	}
	return "", ""
}

// ParseAutonomy reads what such an annotation says: a duration as Go writes it.
// Zero and less is [model.Forever]; with an error it is 0, no longer than others.
func ParseAutonomy(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, err
	case d <= 0:
		return model.Forever, nil
	}
	return d, nil
}
