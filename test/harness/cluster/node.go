package cluster

import (
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

// NodeName is the node's: the API server reaches its kubelet by it.
const NodeName = "localhost"

// NodeOptions say what the node is like.
type NodeOptions struct {
	// Memory is the limit of the node's cgroup in bytes, at most
	// [sandbox.MaxLimit], which is also the default.
	Memory int64
	// Pids is the limit of tasks of the node's cgroup; 0 is none.
	Pids int64
	// Filesystem is for the kubelet's root and the pods' logs, and for
	// containerd's root unless ImageFilesystem is given. Without a size
	// they lie on the file system of the temporary directory.
	Filesystem, ImageFilesystem Filesystem
	// KubeletConfig overrides fields of the KubeletConfiguration, by their
	// names in YAML. [Node.Reconfigure] changes them again.
	KubeletConfig map[string]any
	// Tainted leaves the node as the API server makes it, not ready for pods,
	// to a node lifecycle controller of the test's own.
	Tainted bool
}

// A Node is a container runtime, and perhaps a kubelet, with a cgroup, a mount
// namespace and file systems of their own.
type Node struct {
	Containerd, Kubelet *Component

	Socket         string // containerd's CRI socket, a path
	Link           *Link  // passes bytes on to the CRI socket
	Runtime        runtimeapi.RuntimeServiceClient
	Images         runtimeapi.ImageServiceClient
	Cgroup         string // relative to every controller's mount: what --node-cgroup wants
	ContainerdRoot string // images and writable layers
	KubeletRoot    string // volumes, at pods/UID/volumes
	PodLogs        string // NAMESPACE_NAME_UID/CONTAINER/N.log
	KubeletConfig  string // the kubelet's configuration file, "" without a kubelet
	KubeletURL     string // https, see [Node.AskKubelet]; "" without a kubelet

	// Sandbox is the node's cgroup: its usage, its limit, the OOM killer's
	// victims.
	Sandbox *sandbox.Node

	cluster      *Cluster
	dir          string
	namespace    namespace
	searchPath   string
	conn         *grpc.ClientConn
	kubeletPorts []string // its server's and its health's
	// kubeletHealth asks the kubelet itself.
	kubeletHealth func(context.Context) error
}

// startRuntime makes the node and starts containerd with its images.
func (c *Cluster) startRuntime(ctx context.Context) (err error) {
	if !c.options.Components.has(Containerd) {
		return nil
	}
	n := &Node{cluster: c, dir: c.Dir, Socket: c.path("c.sock"), PodLogs: c.path("n", "logs"), KubeletRoot: c.path("n", "kubelet")}
	c.Node = n
	o := c.options.Node
	if o.Memory == 0 {
		o.Memory = sandbox.MaxLimit
	}
	if n.Sandbox, err = sandbox.NewNode(nodeName, o.Memory, sandbox.PidsMax(o.Pids)); err != nil {
		return err
	}
	n.Cgroup = n.Sandbox.Path()
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
	if n.namespace, err = c.system.newNamespace(ctx); err != nil {
		return err
	}
	if err := n.startContainerd(ctx); err != nil {
		return err
	}
	return n.importOwnImages(ctx)
}

// joinNode makes the node known to the API server: through its kubelet, or
// without one as an object.
func (c *Cluster) joinNode(ctx context.Context) error {
	switch {
	case c.Node == nil || c.APIServer == nil:
		return nil
	case c.options.Components.has(Kubelet):
		return c.Node.startKubelet(ctx)
	}
	return c.Node.register(ctx)
}

// register makes the object of a node without a kubelet. It has no kubelet
// version and no conditions: nobody reports any.
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

// untaint takes away what the admission puts on every new node, and what a node
// lifecycle controller would take away.
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
		var kept []corev1.Taint
		for _, t := range node.Spec.Taints {
			if t.Key != corev1.TaintNodeNotReady {
				kept = append(kept, t)
			}
		}
		node.Spec.Taints = kept
		_, err = clients.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// Enter has a command run where the node's components do: it sees their mounts,
// and /run and other places as they do. Its process is the command's own.
func (n *Node) Enter(cmd *exec.Cmd) *exec.Cmd { return n.namespace.enter(cmd) }

// close ends what runs in the pods; the components have ended before.
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
