package convert

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Judged returns the field of a managedFields entry that expresses the loss of a node: the status
// of the condition Ready, or else the taints. It returns an empty string if the entry has
// neither, or has an unknown form.
func Judged(m *metav1.ManagedFieldsEntry) string {
	var held struct {
		Spec struct {
			Taints json.RawMessage `json:"f:taints"`
		} `json:"f:spec"`
		Status struct {
			Conditions map[string]map[string]json.RawMessage `json:"f:conditions"`
		} `json:"f:status"`
	}
	if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &held) != nil {
		return ""
	}
	switch {
	case held.Status.Conditions[`k:{"type":"Ready"}`]["f:status"] != nil:
		return "status.conditions[Ready]"
	case held.Spec.Taints != nil:
		return "spec.taints"
	}
	return ""
}
