package hollow

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Default selects the API server's default toleration of node failures: 300 s.
const Default = -1

// Pod returns a pod that tolerates an unreachable or not ready node for some seconds.
func Pod(name string, seconds int64) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "plimsoll.test/none:1"}}},
	}
	if seconds == Default {
		return p
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
	return p
}

// Run creates a running and ready pod on the node. Returns the error of the API server if it
// rejects a request.
func (n *Node) Run(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = n.Name
	made, err := n.farm.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("run pod %s on node %s: %w", pod.Name, n.Name, err)
	}
	return made, n.runs(ctx, made)
}

// runs reports that a pod is running and ready.
func (n *Node) runs(ctx context.Context, p *corev1.Pod) error {
	now := metav1.NewTime(n.clock())
	status := corev1.PodStatus{Phase: corev1.PodRunning}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = n.farm.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err = gone(err); err != nil {
		return fmt.Errorf("report that pod %s runs: %w", p.Name, err)
	}
	return nil
}

// End removes a pod from the API, as after its own exit and garbage collection. Returns the
// error of the API server.
func (n *Node) End(ctx context.Context, p *corev1.Pod) error { return n.farm.remove(ctx, p) }

// pods returns the pods of the node in the informer's store.
func (n *Node) pods() (found []*corev1.Pod) {
	objects, _ := n.farm.pods.ByIndex(byNode, n.Name) // the index exists
	for _, o := range objects {
		found = append(found, o.(*corev1.Pod))
	}
	return found
}

// end removes a deleted pod from the API if the node is alive.
func (n *Node) end(p *corev1.Pod) {
	if n == nil || p.DeletionTimestamp == nil {
		return
	}
	n.farm.running.Go(func() {
		_ = n.as(kubelet, func(ctx context.Context) error { return n.farm.remove(ctx, p) }) // Resume retries
	})
}
