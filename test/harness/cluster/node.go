package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// NodeName is the name of the node and the address of its kubelet for the API server.
const NodeName = "localhost"

// NodeOptions configures the node.
type NodeOptions struct {
	// Memory is the limit of the node's cgroup in bytes. The maximum and the default are
	// [sandbox.MaxLimit].
	Memory int64
	// Pids is the task limit of the node's cgroup; 0: no limit.
	Pids int64
	// Filesystem contains the kubelet's root and the pods' logs, and containerd's root unless
	// ImageFilesystem is set. With size 0 they are on the file system of the temporary
	// directory.
	Filesystem, ImageFilesystem Filesystem
	// KubeletConfig overrides fields of the KubeletConfiguration by their YAML names.
	// [Node.Reconfigure] changes them at run time.
	KubeletConfig map[string]any
	// KubeletLinked connects the kubelet with the API server through [Cluster.Link], for faults of
	// its connection.
	KubeletLinked bool
	// Tainted leaves the node with the initial taints of the API server, not ready for pods,
	// for a node lifecycle controller of the test.
	Tainted bool
}

// Node is a container runtime and optionally a kubelet, with a separate cgroup, mount namespace
// and file systems.
type Node struct {
	Containerd, Kubelet *Component

	Socket         string // containerd's CRI socket, a path
	Link           *Link  // forwards bytes to the CRI socket
	Runtime        runtimeapi.RuntimeServiceClient
	Images         runtimeapi.ImageServiceClient
	Cgroup         string // relative to every controller's mount, the value of --node-cgroup
	ContainerdRoot string // images and writable layers
	KubeletRoot    string // volumes, at pods/UID/volumes
	PodLogs        string // NAMESPACE_NAME_UID/CONTAINER/N.log
	KubeletConfig  string // the kubelet's configuration file, "" without a kubelet
	KubeletURL     string // https, see [Node.GetFromKubelet]; "" without a kubelet

	// Sandbox is the node's cgroup: usage, limit, OOM kills.
	Sandbox *sandbox.Node

	cluster        *Cluster
	dir            string
	namespace      namespace
	layout         layout
	searchPath     string
	conn           *grpc.ClientConn
	kubeletPorts   []string // of its server and of its health endpoint
	kubeletAddress string   // of its server
	// kubeletHealth checks the kubelet's health endpoint.
	kubeletHealth func(context.Context) error
}

// startRuntime creates the node and starts containerd with its images.
func (c *Cluster) startRuntime(ctx context.Context) (err error) {
	if !c.options.Components.has(Containerd) {
		return nil
	}
	n := &Node{cluster: c, dir: c.Dir, PodLogs: c.path("n", "logs"), KubeletRoot: c.path("n", "kubelet")}
	c.Node = n
	if n.layout, err = readLayout(); err != nil {
		return err
	}
	n.Socket = cmp.Or(n.layout.socket, c.path("c.sock"))
	o := c.options.Node
	if o.Memory == 0 {
		o.Memory = sandbox.MaxLimit
	}
	if err := n.makeCgroup(o); err != nil {
		return err
	}
	if err := addHierarchies(filepath.Base(n.Cgroup)); err != nil {
		return fmt.Errorf("make the node's cgroups: %w", err)
	}
	if err := n.mountFilesystems(ctx, o); err != nil {
		return err
	}
	for _, dir := range []string{n.path("state"), n.path("orders"), n.ContainerdRoot, n.PodLogs, n.KubeletRoot} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := n.move(ctx); err != nil {
		return err
	}
	if n.namespace, err = c.system.newNamespace(ctx, n.Socket); err != nil {
		return err
	}
	if err := n.startContainerd(ctx); err != nil {
		return err
	}
	return n.importOwnImages(ctx)
}

// joinNode registers the node in the API server through its kubelet, or directly without one.
func (c *Cluster) joinNode(ctx context.Context) error {
	switch {
	case c.Node == nil || c.APIServer == nil:
		return nil
	case c.options.Components.has(Kubelet):
		return c.Node.startKubelet(ctx)
	}
	return c.Node.register(ctx)
}

// register creates the Node object without a kubelet. It has no kubelet version and no
// conditions.
func (n *Node) register(ctx context.Context) error {
	clients, err := n.cluster.Clients()
	if err != nil {
		return err
	}
	memory := *resource.NewQuantity(n.Sandbox.Limit(), resource.BinarySI)
	room := corev1.ResourceList{corev1.ResourceMemory: memory, corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("200")}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: NodeName, Labels: map[string]string{corev1.LabelHostname: NodeName}},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
	if _, err := clients.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the object of node %s: %w", NodeName, err)
	}
	return n.untaint(ctx)
}

// untaint removes the taints of the admission on every new node and those that a node lifecycle
// controller would remove.
func (n *Node) untaint(ctx context.Context) error {
	if n.cluster.options.Node.Tainted {
		return nil
	}
	clients, err := n.cluster.Clients()
	if err != nil {
		return err
	}
	return await(ctx, func(ctx context.Context) error {
		node, err := clients.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var remaining []corev1.Taint
		for _, t := range node.Spec.Taints {
			if t.Key != corev1.TaintNodeNotReady {
				remaining = append(remaining, t)
			}
		}
		node.Spec.Taints = remaining
		_, err = clients.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// Enter wraps a command so that it runs in the mount namespace of the node's components, with
// their mounts, /run and other private places. The PID is the command's own.
func (n *Node) Enter(cmd *exec.Cmd) *exec.Cmd { return n.namespace.enter(cmd) }

// close ends the processes of the pods; the components have exited before.
func (n *Node) close() error {
	var errs []error
	if n.Link != nil {
		errs = append(errs, n.Link.close())
	}
	if n.conn != nil {
		errs = append(errs, n.conn.Close())
	}
	if n.Sandbox != nil {
		if err := n.Sandbox.Close(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		errs = append(errs, removeHierarchies(filepath.Base(n.Cgroup)))
	}
	return errors.Join(errs...)
}

func (n *Node) path(below ...string) string { return n.cluster.path(below...) }
