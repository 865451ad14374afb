package slimpods

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Pod is a core/v1 Pod with the fields in fields.go, decoded from protobuf. It must not be sent
// back to a server.
type Pod struct{ corev1.Pod }

var errMalformed = errors.New("decode a pod: the protobuf is malformed")

// typicalSize is the typical size of the retained fields, in bytes: it avoids a second allocation.
const typicalSize = 2 << 10

// Unmarshal decodes a pod from protobuf. It neither changes nor retains in. Returns an error if in
// is not a valid pod.
func (p *Pod) Unmarshal(in []byte) error {
	trimmed, ok := pod.trim(make([]byte, 0, min(len(in), typicalSize)), in)
	if !ok {
		return errMalformed
	}
	if err := p.Pod.Unmarshal(trimmed); err != nil {
		return err
	}
	if len(p.Spec.Tolerations) > maxTolerations {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	return nil
}

// DeepCopyObject implements runtime.Object.
func (p *Pod) DeepCopyObject() runtime.Object { return &Pod{*p.DeepCopy()} }

// Of returns the pod of an object in a list or a watch, decoded by this package or whole.
func Of(object any) (p *corev1.Pod, is bool) {
	switch object := object.(type) {
	case *Pod:
		return &object.Pod, true
	case *corev1.Pod:
		return object, true
	}
	return nil, false
}
