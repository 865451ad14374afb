package anypods

import (
	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/internal/kube/slimpods"
)

// TB is the part of testing.TB that Decoded uses.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Decoded decodes a pod from its protobuf, once completely and once without unused fields.
func Decoded(t TB, p *corev1.Pod) (full, slim *corev1.Pod) {
	t.Helper()
	encoded, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	full = &corev1.Pod{}
	if err := full.Unmarshal(encoded); err != nil {
		t.Fatal(err)
	}
	decoded := &slimpods.Pod{}
	if err := decoded.Unmarshal(encoded); err != nil {
		t.Fatal(err)
	}
	return full, &decoded.Pod
}
