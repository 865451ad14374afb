package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// precondition binds a patch to the observed object, and to its version if given.
type precondition struct {
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// statusPatch is a strategic merge patch of a node's status. Conditions not in it stay unchanged,
// as do the omitted fields of those in it.
type statusPatch struct {
	Metadata precondition `json:"metadata"`
	Status   struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// podPatch is a strategic merge patch of a pod's status.
type podPatch struct {
	Metadata precondition `json:"metadata"`
	Status   podStatus    `json:"status"`
}

type podStatus struct {
	Reason     string      `json:"reason,omitempty"`
	Message    string      `json:"message,omitempty"`
	Conditions []condition `json:"conditions,omitempty"`
}

type condition struct {
	Directive          string `json:"$patch,omitempty"` // "delete" removes the condition
	Type               string `json:"type"`
	Status             string `json:"status,omitempty"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
	LastHeartbeatTime  string `json:"lastHeartbeatTime,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
}

// specPatch is a merge patch of a node. It replaces the whole list of taints, and therefore
// always includes the version of its base.
type specPatch struct {
	Metadata struct {
		precondition
		Labels map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec *taintList `json:"spec,omitempty"`
}

type taintList struct {
	Taints []corev1.Taint `json:"taints"`
}

// stamp formats a time as the API does: UTC, whole seconds.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
