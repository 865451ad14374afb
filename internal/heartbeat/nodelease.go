package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// ErrKubelet ends the renewal of a node's lease for good.
var ErrKubelet = errors.New("the node has a kubelet, and a heartbeat of the agent would hide its death. " +
	"Remove --report-node-lease. If the kubelet was removed from the node, delete the Node and register it again")

// NodeLeaseParts configures a NodeLease.
type NodeLeaseParts struct {
	Client   api.Interface
	NodeName string
	// Node returns the Node from an informer, or nil while the informer is not synced.
	Node func() *corev1.Node
	// Alive returns an error while the agent does not work, see [Heartbeat.Alive]. On a node
	// without a kubelet the agent's life is the node's.
	Alive func(now time.Time) error
	Log   *slog.Logger
}

// NodeLease renews the lease of a node without a kubelet in kube-node-lease. The node lifecycle
// controller derives the node's health from it.
//
// It requires the rights to get nodes, and to get, create and update leases in that namespace.
type NodeLease struct {
	NodeLeaseParts
	count   counts
	checked bool // the API server itself confirmed that there is no kubelet
}

// NewNodeLease returns a NodeLease; Run starts it.
func NewNodeLease(p NodeLeaseParts) *NodeLease { return &NodeLease{NodeLeaseParts: p} }

// Run renews the lease until ctx ends. Returns ErrKubelet as soon as the Node has a kubelet
// version, otherwise nil.
func (l *NodeLease) Run(ctx context.Context) error {
	const namespace = corev1.NamespaceNodeLease
	beat := &beat{
		renewer: renewer{leases: l.Client.Leases(namespace), what: "the node's heartbeat"},
		log:     l.Log, count: &l.count, permit: l.permit, recheck: l.recheck,
		claim: func() *claim {
			return &claim{namespace: namespace, name: l.NodeName, holder: l.NodeName, owner: l.Node()}
		},
	}
	return beat.run(ctx)
}

// permit returns an error if a kubelet exists or may exist. It reads the Node from the API server
// until that read confirmed that there is none.
func (l *NodeLease) permit(ctx context.Context) error {
	if err := l.Alive(time.Now()); err != nil {
		return err
	}
	n := l.Node()
	if n == nil || !l.checked {
		var err error
		if n, err = l.readNode(ctx); err != nil {
			return err
		}
	}
	if version := n.Status.NodeInfo.KubeletVersion; version != "" {
		return fmt.Errorf("renew the lease of node %s with kubelet %s: %w", l.NodeName, version, ErrKubelet)
	}
	l.checked = true
	return nil
}

// recheck repeats the read of the Node: another program wrote to the lease, as a starting kubelet
// does.
func (l *NodeLease) recheck(ctx context.Context) error {
	l.checked = false
	return l.permit(ctx)
}

func (l *NodeLease) readNode(ctx context.Context) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, api.RequestTimeout)
	defer cancel()
	n, err := l.Client.Nodes().Get(ctx, l.NodeName, metav1.GetOptions{})
	return n, api.Explain(err, "read the node "+l.NodeName+" to see whether it has a kubelet", "get nodes")
}
