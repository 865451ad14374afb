package convert

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// The older names of the labels for a node's operating system and architecture.
const (
	LabelOldOS   = "beta.kubernetes.io/os"
	LabelOldArch = "beta.kubernetes.io/arch"
)

const labelExclude = "node.kubernetes.io/exclude-disruption"

// autonomies are the annotations for how long the pods of an unreachable node stay. The first one
// present counts.
var autonomies = [...]string{"plimsoll.dev/autonomy-duration", "node.openyurt.io/autonomy-duration"}

// Node returns the facts at a node's registration. Its taints, conditions and autonomy are not
// included, since each of them may be malformed.
func Node(n *corev1.Node) model.Node {
	return model.Node{
		Name: n.Name, UID: string(n.UID), Created: n.CreationTimestamp.Time,
		Labels: Labels(n.Labels), Unschedulable: n.Spec.Unschedulable,
	}
}

// Labels returns the labels of a node that decisions depend on. The older labels for region and
// zone take precedence, as in Kubernetes.
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

// Condition returns a condition of a node and its type. If no decision depends on the type,
// decides is false. An empty or unknown status is Unknown: the condition is present, so it is not
// absent.
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

// Autonomy returns the annotation for how long the pods of an unreachable node stay, with its
// value. Both are empty if there is none.
func Autonomy(annotations map[string]string) (key, text string) {
	for _, key := range autonomies {
		if text, is := annotations[key]; is {
			return key, text
		}
	}
	return "", ""
}

// ParseAutonomy parses the value of such an annotation, a duration in Go syntax. Zero or less is
// [model.Forever]. It returns 0, which means no longer than other nodes, and an error for invalid
// syntax.
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
