package nodestatus

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Events tells of the node in events, in the kubelet's words. Nobody waits for
// them: they are queued, aggregated, limited in their rate and, when the API
// server does not take them, dropped.
//
// It needs the rights to create and patch events in the namespace default, where
// those of nodes belong.
type Events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	nodeName    string
	transition  time.Duration

	attempted [signals.Count]time.Time // of the caller of Attempting
}

// NewEvents starts to send. Close ends it.
func NewEvents(client kubernetes.Interface, nodeName string, transition time.Duration) *Events {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	source := corev1.EventSource{Component: "plimsoll", Host: nodeName}
	return &Events{broadcaster: b, recorder: b.NewRecorder(scheme.Scheme, source), nodeName: nodeName, transition: transition}
}

// Close ends the sending of events; those that are queued are lost.
func (e *Events) Close() { e.broadcaster.Shutdown() }

// node is what the events are about. Its UID is the node's name, as older
// kubelets have it: it is known without the Node, and kubectl describe finds it.
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

// Attempting tells that the node acts for a signal. It is said once for a row
// of actions for the same signal, and again after the transition period. It
// does not wait. It must be called by one goroutine.
func (e *Events) Attempting(s signals.Signal, now time.Time) {
	told := e.attempted[s]
	if !told.IsZero() && now.Sub(told) < e.transition {
		return
	}
	e.attempted[s] = now
	e.recorder.Eventf(e.node(), corev1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim %s", s.Definition().Resource)
}

// Futile tells that evictions have stopped to help, and why. It does not wait.
func (e *Events) Futile(message string) {
	e.recorder.Event(e.node(), corev1.EventTypeWarning, "EvictionsFutile", message)
}
