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

// Options say how nodes live.
type Options struct {
	Client kubernetes.Interface
	Renew  time.Duration // how often a lease is renewed; > 0
	// AgentNamespace is where a node's agent has its lease; empty:
	// plimsoll-system, which must be there before Assist.
	AgentNamespace string
}

// A Farm is a set of nodes. Its methods may be called from any goroutine.
type Farm struct {
	client         kubernetes.Interface
	renew          time.Duration
	agentNamespace string

	ctx    context.Context
	cancel context.CancelFunc
	lives  sync.WaitGroup
	pods   cache.Indexer // by node

	mu    sync.Mutex
	nodes map[string]*Node
}

const byNode = "node"

// patience bounds each request of a node.
const patience = 5 * time.Second

// Start makes a farm without nodes. The caller closes it.
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
	f.lives.Go(func() { <-ctx.Done(); watching.Shutdown() })
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, nodes.HasSynced) {
		return nil, fmt.Errorf("start a farm: %w", ctx.Err())
	}
	return f, nil
}

// seen calls for what is new and what has changed.
func seen[T any](see func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { see(o.(T)) },
		UpdateFunc: func(_, o any) { see(o.(T)) },
	}
}

// Close stops all nodes. Their objects stay.
func (f *Farm) Close() {
	f.cancel()
	f.lives.Wait()
}

// node is one of the farm by its name, nil if it is none.
func (f *Farm) node(name string) *Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[name]
}

// Add makes a node that is ready and runs.
func (f *Farm) Add(ctx context.Context, name string, labels map[string]string) (*Node, error) {
	n := &Node{Name: name, farm: f, lives: [voices]bool{kubelet: true}}
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	made, err := f.client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make node %s: %w", name, err)
	}
	n.UID = made.UID
	if err := errors.Join(n.Report(ctx, corev1.ConditionTrue), n.beat(ctx)); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.nodes[name] = n
	f.mu.Unlock()
	f.lives.Go(n.live)
	return n, nil
}

// Clear ends all nodes of the farm and removes all that is theirs, and waits
// until it is gone.
func (f *Farm) Clear(ctx context.Context) error {
	f.mu.Lock()
	nodes := f.nodes
	f.nodes = map[string]*Node{}
	f.mu.Unlock()
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.leave(ctx))
	}
	return errors.Join(errs...)
}

// leave removes the node, its leases and its pods.
func (n *Node) leave(ctx context.Context) error {
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

// remove has a pod leave the API, as its kubelet does when it has ended.
func (f *Farm) remove(ctx context.Context, p *corev1.Pod) error {
	at := metav1.NewDeleteOptions(0)
	at.Preconditions = &metav1.Preconditions{UID: &p.UID}
	return gone(f.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, *at))
}

// gone takes it that what is not there need not be removed.
func gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // another pod of the name is there
		return nil
	}
	return err
}
