package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// ErrKubelet is why a node's lease is not renewed for good.
var ErrKubelet = errors.New("the node has a kubelet, whose heartbeat nobody else may send: a dead kubelet would look alive. " +
	"Take --report-node-lease away; for a node whose kubelet was removed, delete the Node and register it anew")

// NodeLeaseParts are what the renewal of a node's lease is made of.
type NodeLeaseParts struct {
	Client   kubernetes.Interface
	NodeName string
	// Node is the Node as an informer knows it, nil while it does not.
	Node func() *corev1.Node
	// Alive says what is wrong with the agent, whose life is the node's here; see
	// [Heartbeat.Alive].
	Alive func(now time.Time) error
	Log   *slog.Logger
}

// A NodeLease renews the lease of a node without a kubelet in kube-node-lease,
// by which the node lifecycle controller knows that the node is alive.
//
// It needs the rights to get nodes, and to get, create and update leases in that
// namespace.
type NodeLease struct {
	NodeLeaseParts
	count   counts
	checked bool // the API server itself has said that there is no kubelet
}

// NewNodeLease prepares a renewal; Run renews.
func NewNodeLease(p NodeLeaseParts) *NodeLease { return &NodeLease{NodeLeaseParts: p} }

// Counts are how often the lease was renewed, how often a try failed, and how
// often it was held back.
func (l *NodeLease) Counts() (renewed, failed, heldBack int64) { return l.count.load() }

// Run renews the lease until ctx ends. It returns an error of [ErrKubelet] as
// soon as the Node names a kubelet version, and else nil.
func (l *NodeLease) Run(ctx context.Context) error {
	const namespace = corev1.NamespaceNodeLease
	beat := &beat{
		renewer: renewer{leases: l.Client.CoordinationV1().Leases(namespace), what: "the node's heartbeat"},
		log:     l.Log, count: &l.count, permit: l.permit, doubt: l.doubt,
		claim: func() *claim {
			return &claim{namespace: namespace, name: l.NodeName, holder: l.NodeName, owner: l.Node()}
		},
	}
	return beat.run(ctx)
}

// permit refuses where a kubelet is or may be. Until the API server itself has
// said that there is none, it is asked.
func (l *NodeLease) permit(ctx context.Context) error {
	if err := l.Alive(time.Now()); err != nil {
		return err
	}
	n := l.Node()
	if n == nil || !l.checked {
		var err error
		if n, err = l.ask(ctx); err != nil {
			return err
		}
	}
	if version := n.Status.NodeInfo.KubeletVersion; version != "" {
		return fmt.Errorf("refuse to renew the lease of node %s, whose kubelet is %s: %w", l.NodeName, version, ErrKubelet)
	}
	l.checked = true
	return nil
}

// doubt asks the API server again: somebody else has written to the lease,
// which is what a kubelet does as soon as it starts.
func (l *NodeLease) doubt(ctx context.Context) error {
	l.checked = false
	return l.permit(ctx)
}

func (l *NodeLease) ask(ctx context.Context) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	n, err := l.Client.CoreV1().Nodes().Get(ctx, l.NodeName, metav1.GetOptions{})
	return n, explain(err, "read the node "+l.NodeName+" to see whether it has a kubelet", "get nodes")
}
