package nodestatus

import corev1 "k8s.io/api/core/v1"

// Collection records an event about a failed garbage collection: a reason of the kubelet's and one
// line. It does not block.
func (e *Events) Collection(reason, message string) {
	e.recorder.Event(e.node(), corev1.EventTypeWarning, reason, message)
}
