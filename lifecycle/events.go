package lifecycle

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Sources of events: those of Kubernetes' own controllers, so that filters for them match.
const (
	ofNodes  = "node-controller"
	ofTaints = "taint-eviction-controller"
)

// eventTemplate is the form of an event. In the message, {node}, {pod} and {name} stand for the
// node, the pod with its namespace, and without it.
type eventTemplate struct {
	source, kind, reason, message string
}

// Events about pods.
var (
	eventPodNotReady = eventTemplate{ofNodes, corev1.EventTypeWarning, reasonNotReady, messageNotReady}
	eventLost        = eventTemplate{ofNodes, corev1.EventTypeNormal, "NodeControllerEviction", "Marking for deletion Pod {name} from Node {node}"}
	eventMarking     = eventTemplate{ofTaints, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod {pod}"}
	eventCancelled   = eventTemplate{ofTaints, corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod {pod}"}
)

// nodeEvents are those about nodes and the cluster. The first four have the messages
// of Kubernetes' own controllers, which tools match.
var nodeEvents = map[core.Event]eventTemplate{
	core.RegisteredNode:  {ofNodes, corev1.EventTypeNormal, "RegisteredNode", "Node {node} event: Registered Node {node} in Controller"},
	core.RemovingNode:    {ofNodes, corev1.EventTypeNormal, "RemovingNode", "Node {node} event: Removing Node {node} from Controller"},
	core.NodeNotReady:    {ofNodes, corev1.EventTypeNormal, "NodeNotReady", "Node {node} status is now: NodeNotReady"},
	core.DeletingAllPods: {ofNodes, corev1.EventTypeNormal, "DeletingAllPods", "Node {node} event: Deleting all Pods from Node {node}."},
	core.SecondOpinion:   {ofNodes, corev1.EventTypeWarning, "SecondOpinion", "The kubelet of Node {node} is silent, its Plimsoll agent is not: its pods stay for the time being"},
	core.BreakerOpened:   {ofNodes, corev1.EventTypeWarning, "BreakerOpened", "Many nodes missed their heartbeats at once: no node is declared lost before live reads confirm it"},
	core.BreakerClosed:   {ofNodes, corev1.EventTypeNormal, "BreakerClosed", "Nodes with missed heartbeats are declared lost again"},
	core.BudgetExceeded:  {ofNodes, corev1.EventTypeWarning, "BudgetExceeded", "More nodes are unready than allowed"},
	core.BudgetRestored:  {ofNodes, corev1.EventTypeNormal, "BudgetRestored", "Unready nodes are tainted NoExecute again, and evictions begin"},
}

// maxEvents is the maximum number of events in the queue.
const maxEvents = 2000

// events sends events in the order of their occurrence, with a bounded queue. Further ones are
// dropped and counted. No caller waits for them.
type events struct {
	settings *Settings
	parts    *Parts
	log      *slog.Logger
	budget   *budget
	queue    chan *corev1.Event
	count    atomic.Uint64 // makes names unique
}

func newEvents(s *Settings, p *Parts, log *slog.Logger) *events {
	e := &events{settings: s, parts: p, log: log, queue: make(chan *corev1.Event, maxEvents)}
	if s.EventQPS > 0 {
		e.budget = newBudget(s.EventQPS, max(1, int(s.EventQPS)))
	}
	return e
}

// run sends events until ctx ends, and returns a function that waits for its end.
func (e *events) run(ctx context.Context) func() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case one := <-e.queue:
				e.send(ctx, one)
			}
		}
	}()
	return func() { <-done }
}

func (e *events) send(ctx context.Context, one *corev1.Event) {
	if e.budget.acquire(ctx, rankOf(tidy, false)) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, e.settings.RequestTimeout)
	defer cancel()
	err := e.parts.Writing.Core().Post().
		Namespace(one.Namespace).Resource("events").VersionedParams(&metav1.CreateOptions{}, api.ParameterCodec).
		MaxRetries(0).Body(one).Do(ctx).Error()
	if err != nil {
		e.parts.Meters.eventDropped()
		e.log.Debug("Failed to create an event", "event", one.Reason, "object", one.InvolvedObject.Name, "error", err)
	}
}

// pod queues an event about a pod.
func (e *events) pod(p *model.Pod, w eventTemplate) {
	message := strings.NewReplacer("{pod}", p.Key(), "{name}", p.Name, "{node}", p.Node).Replace(w.message)
	e.enqueue(w, message, corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID),
	})
}

// node queues an event about an action's node.
func (e *events) node(a *core.Action, w eventTemplate) {
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: a.Node}
	if a.Object != nil {
		about.UID = types.UID(a.Object.UID)
	}
	e.enqueue(w, strings.ReplaceAll(w.message, "{node}", a.Node), about)
}

// cluster queues an event about the cluster. Its object is the lease of the leader, since there
// is none for a cluster.
func (e *events) cluster(w eventTemplate, more string) {
	message := w.message
	if more != "" {
		message += " (" + more + ")"
	}
	e.enqueue(w, message, corev1.ObjectReference{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease",
		Namespace: e.settings.Election.Namespace, Name: e.settings.Election.Name,
	})
}

func (e *events) enqueue(w eventTemplate, message string, about corev1.ObjectReference) {
	if e.budget == nil || about.Name == "" {
		return
	}
	now := time.Now()
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // the namespace of events about nodes
	}
	one := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: api.EventName(about.Name, now, e.count.Add(1))},
		InvolvedObject: about, Type: w.kind, Reason: w.reason, Message: message,
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now), Count: 1,
		Source: corev1.EventSource{Component: w.source}, ReportingController: w.source, ReportingInstance: e.settings.Election.Identity,
	}
	select {
	case e.queue <- one:
	default:
		e.parts.Meters.eventDropped()
	}
}
