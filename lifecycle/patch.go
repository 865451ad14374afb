package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A precondition binds a patch to the object that was looked at, and to its
// version where one is given.
type precondition struct {
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// A statusPatch is a strategic merge patch of a node's status: conditions that it
// does not name stay as they are, and so do fields of those that it names.
type statusPatch struct {
	Metadata precondition `json:"metadata"`
	Status   struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// A podPatch is the same of a pod's.
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
	Directive          string `json:"$patch,omitempty"` // "delete" takes it away
	Type               string `json:"type"`
	Status             string `json:"status,omitempty"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
	LastHeartbeatTime  string `json:"lastHeartbeatTime,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
}

// A specPatch is a merge patch of a node: the list of taints is replaced as a
// whole, so it always goes with the version that it was made from.
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

// stamp is a time as the API has it: UTC, whole seconds.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
