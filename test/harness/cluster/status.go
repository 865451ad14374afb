package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reportRunning writes the status that a kubelet writes once every container runs.
func (p *Pod) reportRunning(ctx context.Context) error {
	clients, err := p.node.cluster.Clients()
	if err != nil {
		return err
	}
	now, started := metav1.Now(), true
	status := &p.Object.Status
	status.Phase, status.StartTime = corev1.PodRunning, &now
	status.HostIP, status.PodIP = "127.0.0.1", "127.0.0.1"
	status.HostIPs, status.PodIPs = []corev1.HostIP{{IP: status.HostIP}}, []corev1.PodIP{{IP: status.PodIP}}
	status.ContainerStatuses = nil
	for _, c := range p.Object.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: true, Started: &started,
			ContainerID: "containerd://" + p.Containers[c.Name],
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	status.Conditions = nil
	for _, kind := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	p.Object, err = clients.CoreV1().Pods(p.Object.Namespace).UpdateStatus(ctx, p.Object, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("report that the pod runs: %w", err)
	}
	return nil
}

// deleteObject deletes the pod and waits until it is gone. With a kubelet this takes some time;
// without one the deletion is immediate.
func (p *Pod) deleteObject(ctx context.Context) error {
	clients, err := p.node.cluster.Clients()
	if err != nil {
		return err
	}
	pods := clients.CoreV1().Pods(p.Object.Namespace)
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(p.UID())}
	if p.node.Kubelet == nil {
		options.GracePeriodSeconds = new(int64)
	}
	if err := pods.Delete(ctx, p.Object.Name, options); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	return await(ctx, func(ctx context.Context) error {
		there, err := pods.Get(ctx, p.Object.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil && there.UID != p.Object.UID:
			return nil
		case err == nil:
			err = fmt.Errorf("pod %s still exists: %s", p.Object.Name, there.Status.Phase)
		}
		return err
	})
}
