package recorder

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A Node is a state of a node. Methods may be called on nil, a node that there
// is not.
type Node struct {
	*corev1.Node
	At   time.Time // of its arrival here
	Gone bool      // it was deleted in this state
}

// Is is a condition's status, "" where the node does not have it.
func (n *Node) Is(kind corev1.NodeConditionType) corev1.ConditionStatus {
	return n.Condition(kind).Status
}

// Condition is one of the node, empty where it does not have it.
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

// Taint is one by key and effect, nil where the node does not have it.
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

// Tainted are the keys of an effect's taints, with a comma between two.
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

// A Pod is a state of a pod. Methods may be called on nil.
type Pod struct {
	*corev1.Pod
	At   time.Time
	Gone bool
}

// Leaving reports that the pod was deleted, whether it is still there or not.
func (p *Pod) Leaving() bool { return p != nil && (p.Gone || p.DeletionTimestamp != nil) }

// Condition is one of the pod, empty where it does not have it.
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
