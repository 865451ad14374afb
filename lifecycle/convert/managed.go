package convert

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Judged is the field, of those by which a node is said to be lost, that an entry
// of what the API server keeps about who wrote which field holds: the status of the
// condition Ready, else the taints. It is empty if it holds neither, or has a form
// that is not known here.
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
