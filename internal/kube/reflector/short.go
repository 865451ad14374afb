package reflector

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// short is the result of a store's transformer for one object of a list. A reflector passes lists
// of runtime.Object only.
type short struct{ of any }

// GetObjectKind implements runtime.Object.
func (*short) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (s *short) DeepCopyObject() runtime.Object { return &short{s.of} }

// store is the caller's store. It unwraps the short objects of a list.
type store struct{ cache.ReflectorStore }

// Replace implements cache.ReflectorStore.
func (s store) Replace(list []any, version string) error {
	for i, object := range list {
		if made, is := object.(*short); is {
			list[i] = made.of
		}
	}
	return s.ReflectorStore.Replace(list, version)
}

// Transformer implements cache.TransformingStore; nil if the caller's store has none.
func (s store) Transformer() cache.TransformFunc {
	if t, is := s.ReflectorStore.(cache.TransformingStore); is {
		return t.Transformer()
	}
	return nil
}

// shorten returns the transformed object of a list.
func (s store) shorten(o runtime.Object) (*short, error) {
	transform := s.Transformer()
	if transform == nil {
		return &short{o}, nil
	}
	made, err := transform(o)
	return &short{made}, err
}
