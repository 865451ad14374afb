package recorder

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Node is a state of a node. The methods accept a nil receiver, a missing node.
type Node struct {
	*corev1.Node
	At   time.Time // of its arrival here
	Gone bool      // deleted in this state
}

// Is returns the status of a condition, "" if the node does not have it.
func (n *Node) Is(kind corev1.NodeConditionType) corev1.ConditionStatus {
	return n.Condition(kind).Status
}

// Condition returns a condition of the node, empty if the node does not have it.
func (n *Node) Condition(kind corev1.NodeConditionType) corev1.NodeCondition {
	if n != nil {
		for _, c := range n.Status.Conditions {
			if c.Type == kind {
				return c
			}
		}
	}
	return corev1.NodeCondition{}
}

// Taint returns a taint by key and effect, nil if the node does not have it.
func (n *Node) Taint(key string, effect corev1.TaintEffect) *corev1.Taint {
	if n == nil {
		return nil
	}
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; t.Key == key && t.Effect == effect {
			return t
		}
	}
	return nil
}

// Tainted returns the keys of the taints with an effect, separated by commas.
func (n *Node) Tainted(effect corev1.TaintEffect) string {
	var keys []string
	if n != nil {
		for _, t := range n.Spec.Taints {
			if t.Effect == effect {
				keys = append(keys, t.Key)
			}
		}
	}
	return strings.Join(keys, ",")
}

// Pod is a state of a pod. The methods accept a nil receiver.
type Pod struct {
	*corev1.Pod
	At   time.Time
	Gone bool
}

// Leaving reports whether the pod was deleted, even if it still exists.
func (p *Pod) Leaving() bool { return p != nil && (p.Gone || p.DeletionTimestamp != nil) }

// Condition returns a condition of the pod, empty if the pod does not have it.
func (p *Pod) Condition(kind corev1.PodConditionType) corev1.PodCondition {
	if p != nil {
		for _, c := range p.Status.Conditions {
			if c.Type == kind {
				return c
			}
		}
	}
	return corev1.PodCondition{}
}
