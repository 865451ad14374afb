package nodestatus

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Events records events of the node with the kubelet's reasons. It never blocks: events are queued,
// aggregated and rate limited. Those that the API server does not accept are dropped.
//
// It requires the rights to create and patch events in the namespace default, where events of nodes
// belong.
type Events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	nodeName    string
	transition  time.Duration

	attempted [signals.Count]time.Time // of the goroutine that calls Attempting
}

// NewEvents starts to send events until Close.
func NewEvents(client api.Interface, nodeName string, transition time.Duration) *Events {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(sink{client})
	source := corev1.EventSource{Component: "plimsoll", Host: nodeName}
	return &Events{broadcaster: b, recorder: b.NewRecorder(api.Scheme, source), nodeName: nodeName, transition: transition}
}

// sink sends events to the API server, each within the timeout of the client.
type sink struct{ client api.Interface }

// Create implements record.EventSink.
func (s sink) Create(e *corev1.Event) (*corev1.Event, error) {
	return s.client.Events(e.Namespace).Create(context.Background(), e, metav1.CreateOptions{})
}

// Update implements record.EventSink.
func (s sink) Update(e *corev1.Event) (*corev1.Event, error) {
	return s.client.Events(e.Namespace).Update(context.Background(), e, metav1.UpdateOptions{})
}

// Patch implements record.EventSink.
func (s sink) Patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	return s.client.Events(e.Namespace).Patch(context.Background(), e.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}

// Close stops sending; queued events are lost.
func (e *Events) Close() { e.broadcaster.Shutdown() }

// node returns the object of the events. Its UID is the node's name, as in older kubelets: that
// needs no Node object, and kubectl describe finds the events.
func (e *Events) node() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.nodeName, UID: types.UID(e.nodeName)}
}

func (e *Events) changed(c change) {
	name := wordings[c.condition].no.event
	if c.pressed {
		name = wordings[c.condition].yes.event
	}
	e.recorder.Eventf(e.node(), corev1.EventTypeNormal, name, "Node %s status is now: %s", e.nodeName, name)
}

// Attempting records that the node acts for a signal: once per series of actions for the same
// signal, and again after the transition period. It does not block. All calls must come from one
// goroutine.
func (e *Events) Attempting(s signals.Signal, now time.Time) {
	told := e.attempted[s]
	if !told.IsZero() && now.Sub(told) < e.transition {
		return
	}
	e.attempted[s] = now
	e.recorder.Eventf(e.node(), corev1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim %s", s.Definition().Resource)
}

// Futile records that evictions are ineffective, with the reason. It does not block.
func (e *Events) Futile(message string) {
	e.recorder.Event(e.node(), corev1.EventTypeWarning, "EvictionsFutile", message)
}
