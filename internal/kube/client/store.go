package client

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"plimsoll.dev/plimsoll/internal/kube/slimpods"
)

// podStore is the store of a reflector for pods.
type podStore struct{ *Pods }

// Add implements cache.ReflectorStore.
func (s podStore) Add(object any) error { return s.apply(object, s.put) }

// Update implements cache.ReflectorStore.
func (s podStore) Update(object any) error { return s.apply(object, s.put) }

// Delete implements cache.ReflectorStore.
func (s podStore) Delete(object any) error { return s.apply(object, s.forget) }

// Resync implements cache.ReflectorStore. It is a no-op: the store drops nothing.
func (s podStore) Resync() error { return nil }

// Transformer implements cache.TransformingStore: no complete object of a list is stored.
func (s podStore) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return s.entry(object) }
}

// entry returns the stored part of an object, which may have been transformed already. It uses some
// of the budget until the pod is removed, or a list without it replaces all.
func (s podStore) entry(object any) (*entry, error) {
	if e, is := object.(*entry); is {
		return e, nil
	}
	if pod, is := slimpods.Of(object); is {
		e := s.entryOf(pod)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.budget.fit(e.uid, &e.pod, kindOf(pod)) && !s.short {
			s.short = true
			s.log.Warn("Pods of this node have too many containers and volumes together: further ones are measured as a whole",
				"first", e.pod.Key(), "effect", "the kubelet alone enforces local storage limits of their containers and volumes")
		}
		return e, nil
	}
	return nil, fmt.Errorf("take in a pod: it is a %T", object)
}

// Replace implements cache.ReflectorStore for a complete list, which is published at once.
func (s podStore) Replace(list []any, _ string) error {
	all := make([]*entry, len(list))
	for i, object := range list { // the complete list, or nothing
		var err error
		if all[i], err = s.entry(object); err != nil {
			return err
		}
	}
	s.mu.Lock()
	before, refused := s.entries, s.refused
	s.entries, s.refused = make(map[types.UID]*entry, len(list)), map[types.UID]bool{}
	for _, listed := range all {
		if refused[listed.uid] {
			s.refused[listed.uid] = true // what was logged is not logged again
		}
		if e := s.accept(listed); e != nil {
			s.entries[e.uid] = e
		}
		s.stale = s.stale || !sameToDecisions(before[listed.uid], s.entries[listed.uid])
	}
	s.budget.retain(s.entries)
	for uid := range before {
		s.stale = s.stale || s.entries[uid] == nil
	}
	changed := s.publish(true)
	s.mu.Unlock()
	s.notify(changed)
	return nil
}

func (s podStore) apply(object any, change func(*entry)) error {
	e, err := s.entry(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	change(e)
	s.mu.Unlock()
	select {
	case s.dirty <- struct{}{}:
	default: // the queued signal covers this change too
	}
	return nil
}

// forget removes a pod. The caller holds mu.
func (p *Pods) forget(e *entry) {
	p.stale = p.stale || p.entries[e.uid] != nil
	delete(p.entries, e.uid)
	delete(p.refused, e.uid)
	p.budget.release(e.uid)
}

// metadata returns m without the managed fields and without kubectl's copy of the object.
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
