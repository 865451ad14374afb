package client

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"plimsoll.dev/plimsoll/internal/kube/reflector"
)

// ConfigMap is the latest known version of one ConfigMap. Its methods are safe for concurrent use
// and do not block.
type ConfigMap struct {
	name    string
	changed func()
	health  reflector.Health
	latest  atomic.Pointer[map[string]string]
	synced  atomic.Bool
}

// WatchConfigMap watches one ConfigMap until ctx ends. The watch needs the right to watch only that
// ConfigMap. changed is called after each update from the server, and must not block.
func WatchConfigMap(ctx context.Context, c *Connection, namespace, name string, changed func()) *ConfigMap {
	m := &ConfigMap{name: name, changed: changed, health: reflector.Health{What: "the ConfigMap " + namespace + "/" + name}}
	run(ctx, c, &m.health, reflector.Kind[*corev1.ConfigMapList]{
		From:     c.watching.ConfigMaps(namespace),
		Selector: fields.OneTermEqualSelector("metadata.name", name),
		Example:  &corev1.ConfigMap{}, Into: configMapStore{m},
	})
	return m
}

// Data returns the data of the ConfigMap; nil if it does not exist or is not known, see
// [ConfigMap.Synced]. The caller must not change it.
func (m *ConfigMap) Data() map[string]string {
	if data := m.latest.Load(); data != nil {
		return *data
	}
	return nil
}

// Synced reports whether the first list has been received.
func (m *ConfigMap) Synced() bool { return m.synced.Load() }

// Err returns the error of the watch and the time of its beginning; nil while the watch works.
func (m *ConfigMap) Err() error { return m.health.Err() }

// configMapStore is the store of a reflector for the ConfigMap.
type configMapStore struct{ *ConfigMap }

// Add implements cache.ReflectorStore.
func (s configMapStore) Add(object any) error { return s.apply(object, true) }

// Update implements cache.ReflectorStore.
func (s configMapStore) Update(object any) error { return s.apply(object, true) }

// Delete implements cache.ReflectorStore.
func (s configMapStore) Delete(object any) error { return s.apply(object, false) }

// Resync implements cache.ReflectorStore. It is a no-op: the store drops nothing.
func (s configMapStore) Resync() error { return nil }

// Replace implements cache.ReflectorStore for a complete list of the ConfigMaps of that name.
func (s configMapStore) Replace(list []any, _ string) error {
	var data *map[string]string
	for _, object := range list {
		found, ok := object.(*corev1.ConfigMap)
		if !ok {
			return fmt.Errorf("store a list of ConfigMaps: unexpected %T", object)
		}
		if found.Name == s.name {
			data = &found.Data
		}
	}
	s.latest.Store(data)
	s.synced.Store(true)
	s.changed()
	return nil
}

func (s configMapStore) apply(object any, there bool) error {
	found, ok := object.(*corev1.ConfigMap)
	if !ok {
		return fmt.Errorf("take in a ConfigMap: it is a %T", object)
	}
	if found.Name != s.name { // other objects in the response are ignored
		return nil
	}
	data := &found.Data
	if !there {
		data = nil
	}
	s.latest.Store(data) // atomic: no reader observes an intermediate state
	s.changed()
	return nil
}
