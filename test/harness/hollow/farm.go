package hollow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Options configures the nodes of a farm.
type Options struct {
	Client kubernetes.Interface
	Renew  time.Duration // interval of lease renewals; > 0
	// AgentNamespace is the namespace of the agents' leases. The default is plimsoll-system. It
	// must exist before Assist.
	AgentNamespace string
}

// Farm is a set of nodes. Its methods are safe for concurrent use.
type Farm struct {
	client         kubernetes.Interface
	renew          time.Duration
	agentNamespace string

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	pods    cache.Indexer // by node

	mu    sync.Mutex
	nodes map[string]*Node
}

const byNode = "node"

// patience bounds each request of a node.
const patience = 5 * time.Second

// Start returns a farm without nodes. The caller closes it. Returns an error if ctx ends before
// its informers have synced.
func Start(ctx context.Context, o Options) (*Farm, error) {
	ctx, cancel := context.WithCancel(ctx)
	f := &Farm{client: o.Client, renew: o.Renew, agentNamespace: o.AgentNamespace, ctx: ctx, cancel: cancel, nodes: map[string]*Node{}}
	if f.agentNamespace == "" {
		f.agentNamespace = "plimsoll-system"
	}
	watching := informers.NewSharedInformerFactory(f.client, 0)
	pods, nodes := watching.Core().V1().Pods().Informer(), watching.Core().V1().Nodes().Informer()
	f.pods = pods.GetIndexer()
	err := pods.AddIndexers(cache.Indexers{byNode: func(o any) ([]string, error) { return []string{o.(*corev1.Pod).Spec.NodeName}, nil }})
	_, err2 := pods.AddEventHandler(seen(func(p *corev1.Pod) { f.node(p.Spec.NodeName).end(p) }))
	_, err3 := nodes.AddEventHandler(seen(func(n *corev1.Node) { f.node(n.Name).read(n) }))
	if err := errors.Join(err, err2, err3); err != nil {
		cancel()
		return nil, fmt.Errorf("start a farm: %w", err)
	}
	watching.StartWithContext(ctx)
	f.running.Go(func() { <-ctx.Done(); watching.Shutdown() })
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, nodes.HasSynced) {
		return nil, fmt.Errorf("start a farm: %w", ctx.Err())
	}
	return f, nil
}

// seen returns a handler that calls see for added and updated objects.
func seen[T any](see func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { see(o.(T)) },
		UpdateFunc: func(_, o any) { see(o.(T)) },
	}
}

// Close stops all nodes. Their objects stay.
func (f *Farm) Close() {
	f.cancel()
	f.running.Wait()
}

// node returns a node of the farm by name, or nil if there is none.
func (f *Farm) node(name string) *Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[name]
}

// Add creates a ready live node. Returns the error of the API server if it rejects a request.
func (f *Farm) Add(ctx context.Context, name string, labels map[string]string) (*Node, error) {
	n := &Node{Name: name, farm: f, alive: [senders]bool{kubelet: true}}
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	made, err := f.client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make node %s: %w", name, err)
	}
	n.UID = made.UID
	// Before the first report, because its event may arrive before its response. A node that misses
	// the event repeats its report.
	f.set(name, n)
	if err := errors.Join(n.Report(ctx, corev1.ConditionTrue), n.beat(ctx)); err != nil {
		f.set(name, nil)
		return nil, err
	}
	f.running.Go(n.live)
	return n, nil
}

// set adds a node of a name to the farm, or removes it if n is nil.
func (f *Farm) set(name string, n *Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n == nil {
		delete(f.nodes, name)
		return
	}
	f.nodes[name] = n
}

// Clear stops all nodes of the farm, removes their objects, and waits until they are gone.
// Returns the errors of all nodes.
func (f *Farm) Clear(ctx context.Context) error {
	f.mu.Lock()
	nodes := f.nodes
	f.nodes = map[string]*Node{}
	f.mu.Unlock()
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.remove(ctx))
	}
	return errors.Join(errs...)
}

// remove removes the node, its leases and its pods.
func (n *Node) remove(ctx context.Context) error {
	n.Stop()
	f := n.farm
	err := gone(f.client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{}))
	pods, err2 := f.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.Name})
	errs := []error{err, err2}
	if err2 == nil {
		for i := range pods.Items {
			errs = append(errs, f.remove(ctx, &pods.Items[i]))
		}
	}
	for _, namespace := range []string{corev1.NamespaceNodeLease, f.agentNamespace} {
		errs = append(errs, gone(f.client.CoordinationV1().Leases(namespace).Delete(ctx, n.Name, metav1.DeleteOptions{})))
	}
	return errors.Join(errs...)
}

// remove deletes a pod with a grace period of 0, as its kubelet does after the exit of its
// containers.
func (f *Farm) remove(ctx context.Context, p *corev1.Pod) error {
	at := metav1.NewDeleteOptions(0)
	at.Preconditions = &metav1.Preconditions{UID: &p.UID}
	return gone(f.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, *at))
}

// gone ignores the error that the object does not exist.
func gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // there is another pod of that name
		return nil
	}
	return err
}
