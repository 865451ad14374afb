package api

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLossField_FindsReadyAndTaints(t *testing.T) {
	for _, tc := range []struct{ fields, want string }{
		{`{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:status":{}}}}}`, "status.conditions[Ready]"},
		{`{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:status":{}}}},"f:spec":{"f:taints":{}}}`, "status.conditions[Ready]"},
		{`{"f:spec":{"f:taints":{}}}`, "spec.taints"},
		{`{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:lastHeartbeatTime":{}}}}}`, ""},
		{`{"f:status":{"f:conditions":{"k:{\"type\":\"MemoryPressure\"}":{"f:status":{}}}}}`, ""},
		{`[]`, ""},
		{``, ""},
	} {
		if got := LossField(&metav1.ManagedFieldsEntry{FieldsV1: metav1.NewFieldsV1(tc.fields)}); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.fields, got, tc.want)
		}
	}
	if got := LossField(&metav1.ManagedFieldsEntry{}); got != "" {
		t.Errorf("no fields: got %q", got)
	}
}
