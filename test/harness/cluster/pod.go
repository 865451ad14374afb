package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/test/harness/hog"
)

// ordersPath is the directory of a hog's named pipe inside its container.
const ordersPath = "/orders"

// Hog returns a pod with one container, "main", that runs a hog (package hog) with a script and
// then accepts commands, see [Pod.Do]. It is best effort, in the namespace default, and exits
// at once on SIGTERM. Tests change the fields they need.
func Hog(name string, script ...string) *corev1.Pod {
	one := int64(1)
	no := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{HogContainer("main", script...)},
			TerminationGracePeriodSeconds: &one,
			AutomountServiceAccountToken:  &no,
			EnableServiceLinks:            &no,
		},
	}
}

// HogContainer returns a container that runs a hog.
func HogContainer(name string, script ...string) corev1.Container {
	return corev1.Container{
		Name: name, Image: HogImage,
		Env: []corev1.EnvVar{{Name: hog.Variable, Value: strings.Join(script, ";")}},
	}
}

// Pod is a running pod of the node.
type Pod struct {
	Object *corev1.Pod // state after the start of its containers
	// Cgroup is the pod's directory relative to every controller's mount.
	Cgroup string
	// Logs and Volumes are the pod's directories on the host.
	Logs, Volumes string
	Sandbox       string            // ID in the runtime
	Containers    map[string]string // IDs in the runtime by name, the latest of each

	attempts map[string]uint32 // by container, without a kubelet
	node     *Node
}

// UID returns the UID of the pod.
func (p *Pod) UID() string { return string(p.Object.UID) }

// EmptyDir returns the path of an emptyDir volume on the host.
func (p *Pod) EmptyDir(volume string) string {
	return filepath.Join(p.Volumes, "kubernetes.io~empty-dir", volume)
}

// AddPod runs a pod on the node, see [Node.Prepare], and returns when its containers run. It
// creates the pod in the API server, if there is one. A pod with a UID exists already and is
// not created. Returns an error if a container does not start before ctx ends.
func (n *Node) AddPod(ctx context.Context, pod *corev1.Pod) (*Pod, error) {
	pod = n.Prepare(pod)
	pod.Spec.NodeName = NodeName
	if err := n.create(ctx, pod); err != nil {
		return nil, fmt.Errorf("make pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	p := n.Pod(pod)
	run := p.run
	if n.Kubelet != nil {
		run = p.awaitRunning
	}
	if err := run(ctx); err != nil {
		return nil, fmt.Errorf("run pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return p, nil
}

// Pod derives the paths of a pod's files, cgroup and hog pipes from its object.
func (n *Node) Pod(object *corev1.Pod) *Pod {
	uid := string(object.UID)
	return &Pod{
		Object:     object,
		Cgroup:     n.podCgroup(qos(object), uid),
		Logs:       filepath.Join(n.PodLogs, object.Namespace+"_"+object.Name+"_"+uid),
		Volumes:    filepath.Join(n.KubeletRoot, "pods", uid, "volumes"),
		Containers: map[string]string{},
		attempts:   map[string]uint32{},
		node:       n,
	}
}

// orders is the volume of the hogs' pipes.
const orders = "orders"

// Prepare returns a copy of the pod that can run on this node: on the host's network, without
// image pulls, and with a volume for the pipes of its hogs. The spec can also be the template
// of a workload.
func (n *Node) Prepare(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.HostNetwork = true
	if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == orders }) {
		return pod // already prepared
	}
	kind := corev1.HostPathDirectory
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: orders, VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: n.path("orders"), Type: &kind},
	}})
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			c.ImagePullPolicy = corev1.PullNever
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: orders, MountPath: ordersPath})
			c.Env = append(c.Env,
				corev1.EnvVar{Name: "PLIMSOLL_ORDERS", Value: ordersPath},
				corev1.EnvVar{Name: "PLIMSOLL_CONTAINER", Value: c.Name},
				corev1.EnvVar{Name: "PLIMSOLL_POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}})
		}
	}
	return pod
}

// create creates the pod in the API server; without an API server it sets a UID.
func (n *Node) create(ctx context.Context, pod *corev1.Pod) error {
	if pod.UID != "" {
		return nil
	}
	if n.cluster.APIServer == nil {
		uid := make([]byte, 16)
		_, _ = rand.Read(uid) // crypto/rand never returns an error
		pod.UID = types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", uid[:4], uid[4:6], uid[6:8], uid[8:10], uid[10:]))
		return nil
	}
	clients, err := n.cluster.Clients()
	if err != nil {
		return err
	}
	made, err := clients.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err == nil {
		*pod = *made
	}
	return err
}

// awaitRunning waits until the kubelet has started every container.
func (p *Pod) awaitRunning(ctx context.Context) error {
	clients, err := p.node.cluster.Clients()
	if err != nil {
		return err
	}
	return await(ctx, func(ctx context.Context) error {
		object, err := clients.CoreV1().Pods(p.Object.Namespace).Get(ctx, p.Object.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, s := range object.Status.ContainerStatuses {
			p.Containers[s.Name] = strings.TrimPrefix(s.ContainerID, "containerd://")
		}
		switch object.Status.Phase {
		case corev1.PodRunning:
			p.Object = object
			return nil
		case corev1.PodFailed, corev1.PodSucceeded:
			return final{fmt.Errorf("it ended: %s: %s %s", object.Status.Phase, object.Status.Reason, object.Status.Message)}
		}
		return fmt.Errorf("phase %s: %v", object.Status.Phase, object.Status.ContainerStatuses)
	})
}

// Remove removes the pod. With a kubelet it deletes the object and waits until it is gone.
// Without one it removes containers and sandboxes and then the object. Returns the errors of
// all steps.
func (p *Pod) Remove(ctx context.Context) error {
	var errs []error
	if p.node.Kubelet == nil {
		errs = append(errs, p.removeSandboxes(ctx), os.RemoveAll(p.Logs), os.RemoveAll(filepath.Dir(p.Volumes)))
	}
	if p.node.cluster.APIServer != nil {
		errs = append(errs, p.deleteObject(ctx))
	}
	return errors.Join(errs...)
}
