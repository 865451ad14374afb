package hollow

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// beat renews the kubelet's lease.
func (n *Node) beat(ctx context.Context) error {
	return n.renew(ctx, kubelet, corev1.NamespaceNodeLease)
}

// assist renews the lease of the node's agent.
func (n *Node) assist(ctx context.Context) error {
	return n.renew(ctx, agent, n.farm.agentNamespace)
}

// renew renews a sender's lease, and records it.
func (n *Node) renew(ctx context.Context, from sender, namespace string) error {
	begin := time.Now()
	if err := n.write(ctx, from, namespace); err != nil {
		return err
	}
	n.record(from, begin, true)
	return nil
}

// write writes a sender's lease with the node's time.
func (n *Node) write(ctx context.Context, from sender, namespace string) error {
	n.renewing.Lock()
	defer n.renewing.Unlock()
	leases := n.farm.client.CoordinationV1().Leases(namespace)
	n.mu.Lock()
	lease := n.leases[from].DeepCopy()
	n.mu.Unlock()
	now, seconds := metav1.NewMicroTime(n.clock()), int32(40)
	spec := coordinationv1.LeaseSpec{HolderIdentity: &n.Name, LeaseDurationSeconds: &seconds, RenewTime: &now}
	var err error
	if lease == nil {
		lease, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: spec}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // after an error
			if lease, err = leases.Get(ctx, n.Name, metav1.GetOptions{}); err == nil {
				lease.Spec = spec
				lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
			}
		}
	} else {
		lease.Spec = spec
		lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		n.leases[from] = nil // its state in the API server is unknown
		return fmt.Errorf("renew lease %s/%s: %w", namespace, n.Name, err)
	}
	n.leases[from] = lease
	return nil
}

// Report writes a Ready condition with the given status, and uses it for all later reports.
// Returns the error of the API server if the write fails.
func (n *Node) Report(ctx context.Context, ready corev1.ConditionStatus) error {
	n.mu.Lock()
	n.ready, n.turned = ready, metav1.NewTime(time.Now().Add(n.skew))
	n.mu.Unlock()
	return n.post(ctx)
}

// read records the node's Ready status as the API server has it.
func (n *Node) read(object *corev1.Node) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reported = ""
	for _, c := range object.Status.Conditions {
		if c.Type == corev1.NodeReady {
			n.reported = c.Status
		}
	}
}

// correct reports the node's status again after another client has overwritten it.
func (n *Node) correct(ctx context.Context) error {
	n.mu.Lock()
	wrong := n.reported != n.ready
	n.mu.Unlock()
	if !wrong {
		return nil
	}
	return n.post(ctx)
}

// post writes the node's status.
func (n *Node) post(ctx context.Context) error {
	begin, now := time.Now(), metav1.NewTime(n.clock())
	n.mu.Lock()
	ready, turned := n.ready, n.turned
	n.mu.Unlock()
	conditions := []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: ready, Reason: "Hollow", Message: "set by the test",
		LastHeartbeatTime: now, LastTransitionTime: turned,
	}}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		conditions = append(conditions, corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: "Hollow", LastHeartbeatTime: now, LastTransitionTime: turned,
		})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return err
	}
	_, err = n.farm.client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("report the status of node %s: %w", n.Name, err)
	}
	n.record(kubelet, begin, false)
	return nil
}
