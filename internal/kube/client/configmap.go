package client

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"plimsoll.dev/plimsoll/internal/kube/reflector"
)

// A ConfigMap is one ConfigMap, as the API server had it last. All methods may be
// called by any goroutine; they do not wait.
type ConfigMap struct {
	name    string
	changed func()
	link    link
	latest  atomic.Pointer[map[string]string]
	synced  atomic.Bool
}

// WatchConfigMap watches the ConfigMap of that name until ctx ends: a watch of
// its own, for which the right to watch that one is enough. changed is called,
// and must not wait, each time after the server has told something new.
func WatchConfigMap(ctx context.Context, c *Connection, namespace, name string, changed func()) *ConfigMap {
	m := &ConfigMap{name: name, changed: changed, link: link{what: "the ConfigMap " + namespace + "/" + name, log: c.log}}
	run(ctx, c, &m.link, reflector.Kind[*corev1.ConfigMapList]{
		From:     c.watching.CoreV1().ConfigMaps(namespace),
		Selector: fields.OneTermEqualSelector("metadata.name", name),
		Example:  &corev1.ConfigMap{}, Into: configMapStore{m},
	})
	return m
}

// Data is what the ConfigMap says; nil if it does not exist or is not known, see
// [ConfigMap.Synced]. It must not be changed.
func (m *ConfigMap) Data() map[string]string {
	if data := m.latest.Load(); data != nil {
		return *data
	}
	return nil
}

// Synced reports whether the server has told once whether there is such a
// ConfigMap.
func (m *ConfigMap) Synced() bool { return m.synced.Load() }

// Err says since when and why the server does not tell about the ConfigMap; nil
// while all is well.
func (m *ConfigMap) Err() error { return m.link.err() }

// A configMapStore is where a reflector puts the ConfigMap.
type configMapStore struct{ *ConfigMap }

// Add implements cache.ReflectorStore.
func (s configMapStore) Add(object any) error { return s.apply(object, true) }

// Update implements cache.ReflectorStore.
func (s configMapStore) Update(object any) error { return s.apply(object, true) }

// Delete implements cache.ReflectorStore.
func (s configMapStore) Delete(object any) error { return s.apply(object, false) }

// Resync implements cache.ReflectorStore: nothing here forgets.
func (s configMapStore) Resync() error { return nil }

// Replace implements cache.ReflectorStore: a complete list of the ConfigMaps of
// that name.
func (s configMapStore) Replace(list []any, _ string) error {
	var data *map[string]string
	for _, object := range list {
		found, ok := object.(*corev1.ConfigMap)
		if !ok {
			return fmt.Errorf("take in a list of ConfigMaps: it holds a %T", object)
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
	if found.Name != s.name { // whatever is answered: no other one is meant
		return nil
	}
	data := &found.Data
	if !there {
		data = nil
	}
	s.latest.Store(data) // in one step: nobody sees a word that is gone for a moment
	s.changed()
	return nil
}
