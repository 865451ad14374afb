package lifecycle

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// A kept object is what is left of one of the API's. It has a name for those who
// collect a list of them.
type kept[F any] struct {
	namespace, name string
	key             string // by which it is known
	fact            F
	faulty          bool // it could not be understood: what was known of it stays
}

// GetObjectMeta implements metav1.ObjectMetaAccessor.
func (k *kept[F]) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: k.namespace, Name: k.name}
}

// A store is where a reflector puts objects of one kind. It keeps facts alone, and
// tells what changed. All but get belongs to the reflector's goroutine.
type store[F any] struct {
	convert func(object any) (*kept[F], error)
	same    func(a, b F) bool           // nothing that matters differs
	changed func(key string, was, is F) // was: the zero value of what is new
	gone    func(key string, f F)
	synced  func() // after each complete list

	mu    sync.Mutex // for who gets, while the reflector puts
	known map[string]F
}

// get is what is known by the key.
func (s *store[F]) get(key string) (f F, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, is = s.known[key]
	return f, is
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

// put tells of k unless was holds the same, and knows it.
func (s *store[F]) put(was map[string]F, k *kept[F]) {
	before, is := was[k.key]
	s.mu.Lock()
	if s.known == nil {
		s.known = map[string]F{}
	}
	s.known[k.key] = k.fact
	s.mu.Unlock()
	if !is || !s.same(before, k.fact) {
		s.changed(k.key, before, k.fact)
	}
}

// Delete implements cache.ReflectorStore.
func (s *store[F]) Delete(object any) error {
	k, err := s.convert(object)
	if err != nil {
		return err
	}
	if f, is := s.known[k.key]; is {
		s.mu.Lock()
		delete(s.known, k.key)
		s.mu.Unlock()
		s.gone(k.key, f)
	}
	return nil
}

// Replace implements cache.ReflectorStore: a complete list. What it does not name
// is gone.
func (s *store[F]) Replace(list []any, _ string) error {
	all := make([]*kept[F], len(list))
	for i, object := range list { // all of it, or nothing
		var err error
		if all[i], err = s.kept(object); err != nil {
			return err
		}
	}
	was := s.known
	s.mu.Lock()
	s.known = make(map[string]F, len(all))
	s.mu.Unlock()
	for _, k := range all {
		if before, is := was[k.key]; k.faulty && is {
			s.put(was, &kept[F]{key: k.key, fact: before})
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

// Resync implements cache.ReflectorStore: nothing here forgets.
func (s *store[F]) Resync() error { return nil }

// Transformer implements cache.TransformingStore: of a list that arrives object by
// object, none is kept in full.
func (s *store[F]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return s.kept(object) }
}

func (s *store[F]) kept(object any) (*kept[F], error) {
	if k, is := object.(*kept[F]); is {
		return k, nil
	}
	k, err := s.convert(object)
	if err != nil {
		return nil, fmt.Errorf("take in a list: %w", err)
	}
	return k, nil
}
