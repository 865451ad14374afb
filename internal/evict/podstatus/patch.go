package podstatus

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/kube/slimpods"
)

// patch is a strategic merge patch of a pod's status subresource. Conditions are merged by their
// type, so that those not in the patch remain.
type patch struct {
	Metadata precondition `json:"metadata"`
	Status   status       `json:"status"`
}

// precondition binds a patch to the pod that was read. Another UID results in 422, another resource
// version in 409.
type precondition struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

type status struct {
	Phase      corev1.PodPhase `json:"phase,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Message    string          `json:"message,omitempty"`
	Conditions []condition     `json:"conditions,omitempty"`
}

type condition struct {
	Directive          string                  `json:"$patch,omitempty"` // "delete" removes the condition
	Type               corev1.PodConditionType `json:"type"`
	Status             corev1.ConditionStatus  `json:"status,omitempty"`
	Reason             string                  `json:"reason,omitempty"`
	Message            string                  `json:"message,omitempty"`
	LastTransitionTime string                  `json:"lastTransitionTime,omitempty"`
	ObservedGeneration int64                   `json:"observedGeneration,omitempty"`
}

// evicted returns the status that a kubelet sets on a pod it has evicted, and in addition the
// condition [Evicted]. A resource version, if not empty, ensures that the pod has not changed since
// it was read.
func evicted(n *Notice, resourceVersion string) patch {
	conditions := []condition{since(n, Evicted, pressure(n.Cause))}
	if n.DisruptionTarget {
		conditions = append(conditions, since(n, corev1.DisruptionTarget, corev1.PodReasonTerminationByKubelet))
	}
	return patch{
		Metadata: precondition{n.UID, resourceVersion},
		Status:   status{Phase: corev1.PodFailed, Reason: ReasonEvicted, Message: n.Message, Conditions: conditions},
	}
}

// since returns a condition that is True from the decision on.
func since(n *Notice, kind corev1.PodConditionType, reason string) condition {
	return condition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: n.Message,
		LastTransitionTime: stamp(n.Decided), ObservedGeneration: n.ObservedGeneration,
	}
}

// stamp returns a time in the notation of the API: UTC, whole seconds.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// The requests below are made without the client's own retries: it would silently wait minutes for
// a Retry-After, while a pod is to be killed.

// patchPodStatus patches the status subresource of the pod. It needs the verb patch on pods/status, and no
// other. Returns the error of the request.
func patchPodStatus(ctx context.Context, client api.Interface, n *Notice, p patch) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return client.Core().Patch(types.StrategicMergePatchType).
		Namespace(n.Namespace).Resource("pods").Name(n.Name).SubResource("status").
		MaxRetries(0).Body(body).Do(ctx).Error()
}

// reportEvicted patches the status of an evicted pod. A pod may be as large as the server permits. Then Failed alone is stored,
// which is shorter than what was there: without it, the kubelet would start the pod again after each kill.
func (t *Reporter) reportEvicted(ctx context.Context, n *Notice, p patch) error {
	err := patchPodStatus(ctx, t.client, n, p)
	if !tooLarge(err) {
		return err
	}
	t.log.Warn("The pod has no room for a status. Only its phase is set to Failed", "pod", n.Pod(), "uid", n.UID, "message", n.Message, "error", err)
	p.Status = status{Phase: corev1.PodFailed}
	return patchPodStatus(ctx, t.client, n, p)
}

// read gets the current pod, bypassing caches.
func read(ctx context.Context, client api.Interface, n *Notice) (*corev1.Pod, error) {
	pod := &slimpods.Pod{}
	err := client.Core().Get().
		Namespace(n.Namespace).Resource("pods").Name(n.Name).
		MaxRetries(0).Do(ctx).Into(pod)
	return &pod.Pod, err
}

// create creates an event.
func create(ctx context.Context, client api.Interface, e *corev1.Event) error {
	return client.Core().Post().
		Namespace(e.Namespace).Resource("events").VersionedParams(&metav1.CreateOptions{}, api.ParameterCodec).
		MaxRetries(0).Body(e).Do(ctx).Error()
}
