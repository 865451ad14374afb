package nodestatus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Limits of events of the node, as in kubelets. client-go's recorder has them too, and links OpenAPI.
const (
	maxQueuedEvents  = 1000
	maxSeries        = 100              // events that are counted on when they recur
	seriesWindow     = 10 * time.Minute // a recurrence later than that is a new event
	eventBurst       = 25
	eventsPerSecond  = 1.0 / 300
	maxEventAttempts = 12
	eventRetryPeriod = 10 * time.Second
	// noPodHelpsPace is the minimum time between two events NoPodHelps of a signal. All signals
	// together leave most of the rate to other events, however often the consumers of a pod change.
	noPodHelpsPace = 30 * time.Minute
)

// Events records events of the node with the kubelet's reasons, and events of its pods. It never blocks:
// events are queued and counted if they recur. Those of the node are rate limited. Those that the API
// server does not accept are dropped.
//
// It requires the rights to create and patch events in the namespace default, where events of nodes
// belong, and in those of the pods.
type Events struct {
	client     api.Interface
	nodeName   string
	transition atomic.Int64 // nanoseconds
	queue      chan event
	end        context.CancelFunc
	done       chan struct{}

	attempted  [signals.Count]time.Time    // of the goroutine that calls Attempting
	noPodHelps [2][signals.Count]time.Time // of the one that calls NoPodHelps

	// Of the goroutine that sends.
	limit  flowcontrol.PassiveRateLimiter
	series map[seriesKey]*corev1.Event
	count  uint64
}

// Pod is the pod of an event.
type Pod struct{ Namespace, Name, UID string }

// event is what an event states about some occurrences, the last one at a time.
type event struct {
	seriesKey
	at    time.Time
	times int32
}

// seriesKey identifies events that recur.
type seriesKey struct {
	kind, reason, message string
	pod                   Pod // zero for an event of the node
}

// NewEvents starts to send events until Close.
func NewEvents(client api.Interface, nodeName string, transition time.Duration) *Events {
	ctx, end := context.WithCancel(context.Background())
	e := &Events{
		client: client, nodeName: nodeName, end: end, done: make(chan struct{}),
		queue: make(chan event, maxQueuedEvents), series: map[seriesKey]*corev1.Event{},
		limit: flowcontrol.NewTokenBucketPassiveRateLimiter(eventsPerSecond, eventBurst),
	}
	e.SetTransition(transition)
	go func() {
		defer close(e.done)
		for {
			select {
			case <-ctx.Done():
				return
			case one := <-e.queue:
				e.send(ctx, one)
			}
		}
	}()
	return e
}

// SetTransition replaces the transition period. It is safe for concurrent use.
func (e *Events) SetTransition(d time.Duration) { e.transition.Store(int64(d)) }

// Close stops sending; queued events are lost.
func (e *Events) Close() {
	e.end()
	<-e.done
}

func (e *Events) record(kind, reason, message string) {
	e.enqueue(event{seriesKey{kind: kind, reason: reason, message: message}, time.Now(), 1})
}

func (e *Events) enqueue(one event) {
	select {
	case e.queue <- one:
	default: // the API server is unreachable for long
	}
}

// send creates an event, or counts a recurrence, and retries while the API server is unreachable.
func (e *Events) send(ctx context.Context, one event) {
	if one.pod == (Pod{}) && !e.limit.TryAccept() {
		return
	}
	for range maxEventAttempts {
		err := e.write(ctx, one)
		var answer apierrors.APIStatus
		if err == nil || errors.As(err, &answer) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(eventRetryPeriod):
		}
	}
}

func (e *Events) write(ctx context.Context, one event) error {
	if known := e.series[one.seriesKey]; known != nil && one.at.Sub(known.LastTimestamp.Time) < seriesWindow {
		err := e.recur(ctx, known, &one)
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	e.count++
	at, source, object := metav1.NewTime(one.at), corev1.EventSource{Component: "plimsoll", Host: e.nodeName}, e.object(one.pod)
	namespace := cmp.Or(object.Namespace, metav1.NamespaceDefault)
	created, err := e.client.Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: api.EventName(object.Name, one.at, e.count)},
		InvolvedObject: object, Type: one.kind, Reason: one.reason, Message: one.message,
		FirstTimestamp: at, LastTimestamp: at, Count: one.times,
		Source: source, ReportingController: source.Component, ReportingInstance: source.Host,
	}, metav1.CreateOptions{})
	if err == nil {
		e.remember(one.seriesKey, created)
	}
	return err
}

// recur counts the occurrences of an event that is known.
func (e *Events) recur(ctx context.Context, known *corev1.Event, one *event) error {
	last := metav1.NewTime(one.at)
	patch, err := json.Marshal(map[string]any{"count": known.Count + one.times, "lastTimestamp": last})
	if err != nil {
		return err
	}
	_, err = e.client.Events(known.Namespace).Patch(ctx, known.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil {
		known.Count, known.LastTimestamp = known.Count+one.times, last
	}
	return err
}

// remember stores an event for its recurrences, in place of the one that recurred least recently if
// there are too many.
func (e *Events) remember(key seriesKey, created *corev1.Event) {
	if len(e.series) >= maxSeries && e.series[key] == nil {
		var oldest seriesKey
		for k, one := range e.series {
			if first := e.series[oldest]; first == nil || one.LastTimestamp.Before(&first.LastTimestamp) {
				oldest = k
			}
		}
		delete(e.series, oldest)
	}
	e.series[key] = created
}

// object returns the object of an event: a pod, or the node if there is none. The UID of the node is its
// name, as in older kubelets: that needs no Node object, and kubectl describe finds the events.
func (e *Events) object(p Pod) corev1.ObjectReference {
	if p != (Pod{}) {
		return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID)}
	}
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.nodeName, UID: types.UID(e.nodeName)}
}

func (e *Events) changed(c change) {
	name := wordings[c.condition].no.event
	if c.pressed {
		name = wordings[c.condition].yes.event
	}
	e.record(corev1.EventTypeNormal, name, fmt.Sprintf("Node %s status is now: %s", e.nodeName, name))
}

// Attempting records that the node acts for a signal: once per series of actions for the same
// signal, and again after the transition period. It does not block. All calls must come from one
// goroutine.
func (e *Events) Attempting(s signals.Signal, now time.Time) {
	last := e.attempted[s]
	if !last.IsZero() && now.Sub(last) < time.Duration(e.transition.Load()) {
		return
	}
	e.attempted[s] = now
	e.record(corev1.EventTypeWarning, "EvictionThresholdMet", fmt.Sprintf("Attempting to reclaim %s", s.Definition().Resource))
}

// Ineffective records that evictions are ineffective, with the reason. It does not block.
func (e *Events) Ineffective(message string) {
	e.record(corev1.EventTypeWarning, "EvictionsIneffective", message)
}

// NoPodHelps records that a threshold of a signal is met and no pod is evicted, with the reason and the
// consumers: at most every half hour for a signal, and once more when nothing of it is available, or
// exhaustion is imminent. It does not block. All calls must come from one goroutine.
func (e *Events) NoPodHelps(s signals.Signal, exhausted bool, message string, now time.Time) {
	last := &e.noPodHelps[0][s]
	if exhausted {
		last = &e.noPodHelps[1][s]
	}
	if !last.IsZero() && now.Sub(*last) < noPodHelpsPace {
		return
	}
	*last = now
	e.record(corev1.EventTypeWarning, "NoPodHelps", message)
}

// OOMKilled records on a pod that the kernel's OOM killer ended processes of it, by their number and one
// sentence. It does not block. The caller limits the rate.
func (e *Events) OOMKilled(p Pod, message string, processes int) {
	e.enqueue(event{seriesKey{corev1.EventTypeWarning, "OOMKilled", message, p}, time.Now(), int32(min(processes, 1<<20))})
}

// Collection records an event about a failed garbage collection: a reason of the kubelet's and one
// line. It does not block.
func (e *Events) Collection(reason, message string) {
	e.record(corev1.EventTypeWarning, reason, message)
}
