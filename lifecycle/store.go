package lifecycle

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// converted is a converted API object. Its name is for consumers of a list.
type converted[F any] struct {
	namespace, name string
	key             string // identifies the object
	value           F
	faulty          bool // it was not understood: the earlier facts remain
}

// GetObjectMeta implements metav1.ObjectMetaAccessor.
func (k *converted[F]) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: k.namespace, Name: k.name}
}

// store receives objects of one kind from a reflector. It stores only converted facts, and
// reports changes. All methods belong to the reflector's goroutine.
type store[F any] struct {
	convert func(object any) (*converted[F], error)
	same    func(a, b F) bool           // reports whether all relevant facts are equal
	changed func(key string, was, is F) // was is the zero value for a new object
	gone    func(key string, f F)
	synced  func() // after each complete list

	known map[string]F
}

// Add implements cache.ReflectorStore.
func (s *store[F]) Add(object any) error { return s.Update(object) }

// Update implements cache.ReflectorStore.
func (s *store[F]) Update(object any) error {
	k, err := s.convert(object)
	if err != nil {
		return err
	}
	if !k.faulty {
		s.put(s.known, k)
	}
	return nil
}

// put stores k, and reports the change unless was has the same facts.
func (s *store[F]) put(was map[string]F, k *converted[F]) {
	before, is := was[k.key]
	if s.known == nil {
		s.known = map[string]F{}
	}
	s.known[k.key] = k.value
	if !is || !s.same(before, k.value) {
		s.changed(k.key, before, k.value)
	}
}

// Delete implements cache.ReflectorStore.
func (s *store[F]) Delete(object any) error {
	k, err := s.convert(object)
	if err != nil {
		return err
	}
	if f, is := s.known[k.key]; is {
		delete(s.known, k.key)
		s.gone(k.key, f)
	}
	return nil
}

// Replace implements cache.ReflectorStore for a complete list. Objects not in it are deleted.
func (s *store[F]) Replace(list []any, _ string) error {
	all := make([]*converted[F], len(list))
	for i, object := range list { // all of it, or nothing
		var err error
		if all[i], err = s.convertOnce(object); err != nil {
			return err
		}
	}
	was := s.known
	s.known = make(map[string]F, len(all))
	for _, k := range all {
		if before, is := was[k.key]; k.faulty && is {
			s.put(was, &converted[F]{key: k.key, value: before})
		} else if !k.faulty {
			s.put(was, k)
		}
	}
	for key, f := range was {
		if _, is := s.known[key]; !is {
			s.gone(key, f)
		}
	}
	s.synced()
	return nil
}

// Resync implements cache.ReflectorStore. The store needs no resync.
func (s *store[F]) Resync() error { return nil }

// Transformer implements cache.TransformingStore. Objects of a list are converted one by one on
// arrival, so that none is stored in full.
func (s *store[F]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return s.convertOnce(object) }
}

func (s *store[F]) convertOnce(object any) (*converted[F], error) {
	if k, is := object.(*converted[F]); is {
		return k, nil
	}
	k, err := s.convert(object)
	if err != nil {
		return nil, fmt.Errorf("store a list: %w", err)
	}
	return k, nil
}
