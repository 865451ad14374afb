package client

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/internal/kube/reflector"
)

// Node is the latest known version of the own Node object. Its methods are safe for concurrent use;
// they neither block nor copy.
type Node struct {
	name    string
	changed func()
	health  reflector.Health
	latest  atomic.Pointer[corev1.Node]
	synced  atomic.Bool
}

// WatchNode watches the Node of the connection's name until ctx ends. changed is called after each
// update from the server, and must not block; it may be nil. Without a server the Node stays
// unknown.
func WatchNode(ctx context.Context, c *Connection, changed func()) *Node {
	n := &Node{name: c.node, changed: changed, health: reflector.Health{What: "the node " + c.node}}
	if c.Configured() {
		run(ctx, c, &n.health, reflector.Kind[*corev1.NodeList]{
			From:     c.watching.Nodes(),
			Selector: fields.OneTermEqualSelector("metadata.name", c.node),
			Example:  &corev1.Node{}, Into: nodeStore{n},
		})
	}
	return n
}

// Object returns the Node without its managed fields and its list of images; nil if it is not known
// or does not exist, see [Node.Synced]. The caller must not change it.
func (n *Node) Object() *corev1.Node { return n.latest.Load() }

// Synced reports whether the first list has been received.
func (n *Node) Synced() bool { return n.synced.Load() }

// UID returns the UID of the Node object; empty if it is not known.
func (n *Node) UID() types.UID {
	if node := n.Object(); node != nil {
		return node.UID
	}
	return ""
}

// KubeletVersion returns the version of the kubelet that last wrote the Node's status; empty if it
// is not known or there never was one.
func (n *Node) KubeletVersion() string {
	if node := n.Object(); node != nil {
		return node.Status.NodeInfo.KubeletVersion
	}
	return ""
}

// Err returns the error of the watch and the time of its beginning; nil while the watch works, or
// without a server.
func (n *Node) Err() error { return n.health.Err() }

// ShuttingDown reports whether the kubelet terminates the node's pods for a shutdown of the
// machine, with the evidence.
func (n *Node) ShuttingDown() (shutting bool, why string) {
	return shuttingDown(n.Object(), time.Now())
}

// shutdownMessage is the kubelet's message (1.20 to 1.36), alone or among others, in the condition
// Ready while systemd waits for it.
const shutdownMessage = "node is shutting down"

// heartbeatAge is the maximum age of a condition that is trusted. A kubelet writes each at least
// every 5 minutes. A killed one, or a machine that restarted without its kubelet, leaves the last
// message in place.
const heartbeatAge = 10 * time.Minute

func shuttingDown(node *corev1.Node, now time.Time) (shutting bool, why string) {
	if node == nil {
		return false, ""
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse &&
			strings.Contains(c.Message, shutdownMessage) && now.Sub(c.LastHeartbeatTime.Time) <= heartbeatAge {
			return true, fmt.Sprintf("the kubelet reported at %s: %s", c.LastHeartbeatTime.Format(time.RFC3339), c.Message)
		}
	}
	return false, ""
}

// nodeStore is the store of a reflector for the Node.
type nodeStore struct{ *Node }

// Add implements cache.ReflectorStore.
func (s nodeStore) Add(object any) error { return s.apply(object, s.set) }

// Update implements cache.ReflectorStore.
func (s nodeStore) Update(object any) error { return s.apply(object, s.set) }

// Delete implements cache.ReflectorStore.
func (s nodeStore) Delete(object any) error {
	return s.apply(object, func(*corev1.Node) { s.latest.Store(nil) })
}

// Resync implements cache.ReflectorStore. It is a no-op: the store drops nothing.
func (s nodeStore) Resync() error { return nil }

// Replace implements cache.ReflectorStore for a complete list of the Nodes of that name.
func (s nodeStore) Replace(list []any, _ string) error {
	var own *corev1.Node
	for _, object := range list {
		node, ok := object.(*corev1.Node)
		if !ok {
			return fmt.Errorf("store a list of nodes: unexpected %T", object)
		}
		if node.Name == s.name {
			own = node
		}
	}
	if own == nil {
		s.latest.Store(nil)
	} else {
		s.set(own)
	}
	s.synced.Store(true)
	s.notify()
	return nil
}

func (s nodeStore) apply(object any, change func(*corev1.Node)) error {
	node, ok := object.(*corev1.Node)
	if !ok {
		return fmt.Errorf("take in a node: it is a %T", object)
	}
	if node.Name == s.name { // other nodes in the response are ignored
		change(node)
		s.notify()
	}
	return nil
}

func (n *Node) set(node *corev1.Node) {
	stored := *node
	stored.ObjectMeta = metadata(node.ObjectMeta)
	stored.Status.Images = nil
	n.latest.Store(&stored)
}

func (n *Node) notify() {
	if n.changed != nil {
		n.changed()
	}
}
