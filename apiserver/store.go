package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A podStore is where a reflector puts pods.
type podStore struct{ *Pods }

// Add implements cache.ReflectorStore.
func (s podStore) Add(object any) error { return s.apply(object, s.put) }

// Update implements cache.ReflectorStore.
func (s podStore) Update(object any) error { return s.apply(object, s.put) }

// Delete implements cache.ReflectorStore.
func (s podStore) Delete(object any) error { return s.apply(object, s.forget) }

// Resync implements cache.ReflectorStore: nothing here forgets.
func (s podStore) Resync() error { return nil }

// Replace implements cache.ReflectorStore: a complete list, published at once.
func (s podStore) Replace(list []any, _ string) error {
	for _, object := range list { // all of it, or nothing
		if _, ok := object.(*corev1.Pod); !ok {
			return fmt.Errorf("take in a list of pods: it holds a %T", object)
		}
	}
	s.mu.Lock()
	before, refused := s.entries, s.refused
	s.entries, s.refused = make(map[types.UID]*entry, len(list)), map[types.UID]bool{}
	for _, object := range list {
		pod := object.(*corev1.Pod)
		s.refused[pod.UID] = refused[pod.UID] // what was said is not said again
		if e := s.accept(pod); e != nil {
			s.entries[pod.UID] = e
		}
		s.stale = s.stale || !sameToDecisions(before[pod.UID], s.entries[pod.UID])
	}
	for uid := range before {
		s.stale = s.stale || s.entries[uid] == nil
	}
	tell := s.publish(true)
	s.mu.Unlock()
	s.tell(tell)
	return nil
}

func (s podStore) apply(object any, change func(*corev1.Pod)) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("take in a pod: it is a %T", object)
	}
	s.mu.Lock()
	change(pod)
	s.mu.Unlock()
	select {
	case s.dirty <- struct{}{}:
	default: // what is there already tells about this change too
	}
	return nil
}

// forget removes a pod. The caller holds mu.
func (p *Pods) forget(object *corev1.Pod) {
	p.stale = p.stale || p.entries[object.UID] != nil
	delete(p.entries, object.UID)
	delete(p.refused, object.UID)
}

// kept is a pod with what somebody looks at: a tenth of the memory.
func kept(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metadata(pod.ObjectMeta),
		Spec: corev1.PodSpec{
			NodeName:                      pod.Spec.NodeName,
			Priority:                      pod.Spec.Priority,
			RestartPolicy:                 pod.Spec.RestartPolicy,
			TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
			Overhead:                      pod.Spec.Overhead,
			Resources:                     pod.Spec.Resources,
			Volumes:                       pod.Spec.Volumes,
			Containers:                    keptContainers(pod.Spec.Containers),
			InitContainers:                keptContainers(pod.Spec.InitContainers),
		},
		Status: pod.Status,
	}
}

func keptContainers(containers []corev1.Container) []corev1.Container {
	kept := make([]corev1.Container, len(containers))
	for i := range containers {
		c := &containers[i]
		kept[i] = corev1.Container{Name: c.Name, Image: c.Image, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
	}
	return kept
}

// metadata leaves out who has written which field, and the copy of the object
// that kubectl keeps.
func metadata(m metav1.ObjectMeta) metav1.ObjectMeta {
	m.ManagedFields = nil
	if _, there := m.Annotations[corev1.LastAppliedConfigAnnotation]; there {
		annotations := make(map[string]string, len(m.Annotations))
		for key, value := range m.Annotations {
			if key != corev1.LastAppliedConfigAnnotation {
				annotations[key] = value
			}
		}
		m.Annotations = annotations
	}
	return m
}
