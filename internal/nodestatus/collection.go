package nodestatus

import corev1 "k8s.io/api/core/v1"

// Collection tells that collecting waste went wrong: a reason of the kubelet's,
// and one line. It does not wait.
func (e *Events) Collection(reason, message string) {
	e.recorder.Event(e.node(), corev1.EventTypeWarning, reason, message)
}
