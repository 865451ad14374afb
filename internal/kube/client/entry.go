package client

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
)

// entry is the stored part of one pod: a few kilobytes, and less for a pod that has ended, whatever
// the size of the object. It is immutable once it is in the budget.
type entry struct {
	pod   signals.Pod
	state PodState
	fault error // reason for which the pod is unusable

	uid        types.UID // in the API
	mirror     bool
	version    string // resource version
	generation int64
	created    metav1.Time
	deleted    *metav1.Time
	phase      corev1.PodPhase
	reason     string
	message    string
	conditions []corev1.PodCondition
	images     []string // of a pod with access to the host
}

// Bounds of the stored part of one pod.
const (
	maxText       = 4 << 10 // bytes of a message
	maxReason     = 256     // bytes of a reason or a name
	maxConditions = 16
	maxHostImages = 32
)

// GetObjectMeta implements metav1.ObjectMetaAccessor. A reflector identifies the pods of a streamed
// list by it.
func (e *entry) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: e.pod.Namespace, Name: e.pod.Name, UID: e.uid}
}

// entryOf converts a pod and retains nothing else of it.
func (p *Pods) entryOf(object *corev1.Pod) *entry {
	e := &entry{
		state: stateOf(object), uid: object.UID, mirror: agentpods.IsMirror(object), version: object.ResourceVersion, generation: object.Generation,
		created: object.CreationTimestamp, deleted: object.DeletionTimestamp.DeepCopy(),
		phase: object.Status.Phase, reason: cut(object.Status.Reason, maxReason), message: cut(object.Status.Message, maxText),
		conditions: storedConditions(object.Status.Conditions),
	}
	if e.state != Active { // nothing runs, and no request of it is read
		ended := *object
		ended.Spec = corev1.PodSpec{NodeName: object.Spec.NodeName, Priority: object.Spec.Priority}
		ended.Status = corev1.PodStatus{}
		object = &ended
	}
	e.pod, e.fault = agentpods.FromAPI(object)
	if e.fault == nil && object.Spec.NodeName != p.node {
		e.fault = fmt.Errorf("pod %.320q is bound to the node %.260q, not to this one, %q", e.pod.Key(), object.Spec.NodeName, p.node)
	}
	if e.fault != nil { // its names may have any length
		e.pod = signals.Pod{Namespace: cut(e.pod.Namespace, maxReason), Name: cut(e.pod.Name, maxReason)}
		return e
	}
	p.choices.Apply(&e.pod, object.Annotations)
	if agentpods.ReachesHost(&object.Spec) {
		e.images = keptImages(object.Spec.Containers)
	}
	return e
}

// unexplained reports whether the pod failed, has a condition of an eviction, and lacks a reason or
// a message. Such a loss may need repair, so each of the few changes of such a pod is reported.
func (e *entry) unexplained() bool {
	return e.phase == corev1.PodFailed && len(e.conditions) > 0 && (e.reason == "" || e.message == "")
}

// object returns the entry in the form of [Pods.Get].
func (e *entry) object() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.pod.Namespace, Name: e.pod.Name, UID: e.uid, ResourceVersion: e.version, Generation: e.generation,
			CreationTimestamp: e.created, DeletionTimestamp: e.deleted},
		Status: corev1.PodStatus{Phase: e.phase, Reason: e.reason, Message: e.message, Conditions: e.conditions},
	}
}

// ours is the prefix of the condition types that Plimsoll writes.
const ours = "plimsoll.dev/"

// keptConditions returns the conditions that report an eviction. A long message is cut at its
// beginning, because programs parse its end.
func storedConditions(all []corev1.PodCondition) (stored []corev1.PodCondition) {
	for i := range all {
		c := all[i]
		if c.Type != corev1.DisruptionTarget && !strings.HasPrefix(string(c.Type), ours) || len(stored) == maxConditions {
			continue
		}
		c.Type, c.Reason = corev1.PodConditionType(cut(string(c.Type), maxReason)), cut(c.Reason, maxReason)
		if len(c.Message) > maxText {
			c.Message = strings.Clone(c.Message[len(c.Message)-maxText:])
		}
		stored = append(stored, c)
	}
	return stored
}

// keptImages returns the images of the containers. Names longer than any registry accepts are left
// out.
func keptImages(containers []corev1.Container) (images []string) {
	for i := range containers {
		image := containers[i].Image
		if len(image) <= 2*maxReason && len(images) < maxHostImages && !slices.Contains(images, image) {
			images = append(images, image)
		}
	}
	return images
}

// cut returns the text, or a copy of its beginning.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:most]), "")
}

func stateOf(pod *corev1.Pod) PodState {
	switch {
	case pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "Evicted":
		return Evicted
	case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return Ended
	}
	return Active
}
