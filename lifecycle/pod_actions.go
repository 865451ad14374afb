package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/convert"
	"plimsoll.dev/plimsoll/lifecycle/core"
)

// Reasons and messages in pods, as in Kubernetes' own controllers.
const (
	reasonNotReady  = "NodeNotReady"
	messageNotReady = "Node is not ready"

	reasonByTaint  = "DeletionByTaintManager"
	messageByTaint = "Taint manager: deleting due to NoExecute taint"

	reasonLost  = "NodeLost"
	messageLost = "Node %v which was running pod %v is unresponsive"
)

// markNotReady removes the pod from the endpoints of its services. Only the status of
// its condition Ready changes: reason and message stay those of its kubelet.
func (t *task) markNotReady(ctx context.Context) error {
	t.recordEvent(eventPodNotReady)
	_, err := t.patchPodStatus(ctx, podStatus{Conditions: []condition{{
		Type: string(corev1.PodReady), Status: string(corev1.ConditionFalse),
		LastTransitionTime: stamp(time.Now()),
	}}})
	return err
}

// evict writes the reason into the pod's status and deletes the pod.
func (t *task) evict(ctx context.Context) error {
	ways := map[core.Why]func(*task, context.Context) error{core.ByTaint: (*task).evictByTaint, core.NodeLost: (*task).evictLost}
	err := ways[t.Why](t, ctx)
	if err == nil {
		t.parts.Meters.podDeleted(time.Since(t.added))
	}
	return err
}

func (t *task) evictByTaint(ctx context.Context) error {
	if t.settings.EvictionMethod == EvictThenDelete {
		return t.evictThenDelete(ctx)
	}
	if gone, err := t.disrupt(ctx); gone || err != nil {
		return err
	}
	return t.deletePod(ctx)
}

// recordEvent sends an event about the pod, once for all attempts.
func (t *task) recordEvent(w eventTemplate) {
	if !t.Repeated() {
		t.events.pod(t.Pod, w)
	}
}

// disrupt reports the reason of the pod's end in an event and in its status.
func (t *task) disrupt(ctx context.Context) (gone bool, err error) {
	t.recordEvent(eventMarking)
	return t.patchPodStatus(ctx, podStatus{Conditions: []condition{{
		Type: string(corev1.DisruptionTarget), Status: string(corev1.ConditionTrue),
		Reason: reasonByTaint, Message: messageByTaint, LastTransitionTime: stamp(time.Now()),
	}}})
}

// evictThenDelete requests an eviction, and deletes the pod when budgets have refused that for
// EvictionWait. A condition of the pod stores the start, for the next leader. That of a cancelled
// eviction does not count; kube-controller-manager removes it after two minutes.
func (t *task) evictThenDelete(ctx context.Context) error {
	live, err := t.readPod(ctx)
	if live == nil {
		return err
	}
	since := t.First
	if marked, is := disruptedSince(live); is && !marked.Before(t.Due.Truncate(time.Second)) {
		since = marked
	} else if gone, err := t.disrupt(ctx); gone || err != nil {
		return err
	}
	err = t.requestEviction(ctx, nil)
	if overdue := time.Since(since) >= t.settings.EvictionWait; err == nil || errors.Is(err, core.ErrObsolete) || !overdue {
		return err
	}
	return t.deletePod(ctx)
}

// disruptedSince returns when the pod got the condition of an eviction for a taint.
func disruptedSince(p *corev1.Pod) (since time.Time, ok bool) {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == reasonByTaint {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// evictLost deletes a pod with its node, in the mode without taints.
func (t *task) evictLost(ctx context.Context) error {
	t.recordEvent(eventLost)
	gone, err := t.patchPodStatus(ctx, podStatus{Reason: reasonLost, Message: fmt.Sprintf(messageLost, t.Node, t.Pod.Name)})
	if gone || err != nil {
		return err
	}
	return t.deletePod(ctx)
}

// softEvict requests the eviction requested by the node's agent.
func (t *task) softEvict(ctx context.Context) error {
	if t.Pod.Requested == nil {
		return nil // withdrawn
	}
	return t.requestEviction(ctx, &t.Pod.Requested.GraceSeconds)
}

// deleteEvictedPod deletes the object of a pod that its node's agent evicted, if it
// still has the mark. Since this is not urgent, the pod is read first, and deleted as
// it was read.
func (t *task) deleteEvictedPod(ctx context.Context) error {
	live, err := t.readPod(ctx)
	if live == nil {
		return err
	}
	since, marked := convert.Evicted(live)
	if !marked || !since.Equal(*t.Pod.Evicted) || live.DeletionTimestamp != nil {
		return core.ErrObsolete
	}
	return t.deletePodAt(ctx, &live.ResourceVersion)
}
