package lifecycle

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/convert"
	"plimsoll.dev/plimsoll/lifecycle/core"
)

// What is written to pods, in the words of Kubernetes' own controllers.
const (
	reasonNotReady  = "NodeNotReady"
	messageNotReady = "Node is not ready"

	reasonByTaint  = "DeletionByTaintManager"
	messageByTaint = "Taint manager: deleting due to NoExecute taint"

	reasonLost  = "NodeLost"
	messageLost = "Node %v which was running pod %v is unresponsive"
)

// markNotReady takes the pod out of the endpoints of its services. Only the status of
// its condition Ready changes: reason and message stay those of its kubelet.
func (x *errand) markNotReady() error {
	x.tell(eventPodNotReady)
	_, err := x.patchPodStatus(podStatus{Conditions: []condition{{
		Type: string(corev1.PodReady), Status: string(corev1.ConditionFalse),
		LastTransitionTime: stamp(time.Now()),
	}}})
	return err
}

// evict ends the pod: it is told why, then it is deleted.
func (x *errand) evict() error {
	ways := map[core.Why]func(*errand) error{core.ByTaint: (*errand).evictByTaint, core.NodeLost: (*errand).evictLost}
	err := ways[x.Why](x)
	if err == nil {
		x.parts.Meters.podDeleted(time.Since(x.taken))
	}
	return err
}

func (x *errand) evictByTaint() error {
	if x.settings.EvictionMethod == EvictThenDelete {
		return x.evictThenDelete()
	}
	if gone, err := x.disrupt(); gone || err != nil {
		return err
	}
	return x.deletePod()
}

// tell tells of the pod in an event, once however often it is tried.
func (x *errand) tell(w wording) {
	if !x.Again() {
		x.events.pod(x.Pod, w)
	}
}

// disrupt says why the pod will end: in an event, and in its status.
func (x *errand) disrupt() (gone bool, err error) {
	x.tell(eventMarking)
	return x.patchPodStatus(podStatus{Conditions: []condition{{
		Type: string(corev1.DisruptionTarget), Status: string(corev1.ConditionTrue),
		Reason: reasonByTaint, Message: messageByTaint, LastTransitionTime: stamp(time.Now()),
	}}})
}

// evictThenDelete asks first, and deletes when budgets have refused for as long as
// is borne. Since when they do is written down in the pod for a successor, unless
// that is of an eviction that was called off; but kube-controller-manager takes it
// back after two minutes.
func (x *errand) evictThenDelete() error {
	live, err := x.readPod()
	if live == nil {
		return err
	}
	since := x.First
	if told, is := disruptedSince(live); is && !told.Before(x.Due.Truncate(time.Second)) {
		since = told
	} else if gone, err := x.disrupt(); gone || err != nil {
		return err
	}
	err = x.askToEvict(nil)
	if overdue := time.Since(since) >= x.settings.EvictionWait; err == nil || errors.Is(err, core.ErrOvertaken) || !overdue {
		return err
	}
	return x.deletePod()
}

// disruptedSince is when the pod was first told that it has to go for a taint.
func disruptedSince(p *corev1.Pod) (since time.Time, told bool) {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == reasonByTaint {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// evictLost ends a pod with its node, in the mode without taints.
func (x *errand) evictLost() error {
	x.tell(eventLost)
	gone, err := x.patchPodStatus(podStatus{Reason: reasonLost, Message: fmt.Sprintf(messageLost, x.Node, x.Pod.Name)})
	if gone || err != nil {
		return err
	}
	return x.deletePod()
}

// softEvict asks for what the node's agent has asked for.
func (x *errand) softEvict() error {
	if x.Pod.Asked == nil {
		return nil // withdrawn
	}
	return x.askToEvict(&x.Pod.Asked.GraceSeconds)
}

// clearPod deletes what is left of a pod that its node's agent evicted, if it bears
// the mark still: it is read before, since nothing of it is urgent, and deleted as
// it was read.
func (x *errand) clearPod() error {
	live, err := x.readPod()
	if live == nil {
		return err
	}
	since, marked := convert.Evicted(live)
	if !marked || !since.Equal(*x.Pod.Evicted) || live.DeletionTimestamp != nil {
		return core.ErrOvertaken
	}
	return x.deletePodAt(&live.ResourceVersion)
}
