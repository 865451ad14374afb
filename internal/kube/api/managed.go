package api

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LossField returns the field of a managedFields entry that expresses the loss of a node: the status
// of the condition Ready, or else the taints. It returns an empty string if the entry has
// neither, or has an unknown form.
func LossField(m *metav1.ManagedFieldsEntry) string {
	var fields struct {
		Spec struct {
			Taints json.RawMessage `json:"f:taints"`
		} `json:"f:spec"`
		Status struct {
			Conditions map[string]map[string]json.RawMessage `json:"f:conditions"`
		} `json:"f:status"`
	}
	if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
		return ""
	}
	switch {
	case fields.Status.Conditions[`k:{"type":"Ready"}`]["f:status"] != nil:
		return "status.conditions[Ready]"
	case fields.Spec.Taints != nil:
		return "spec.taints"
	}
	return ""
}
