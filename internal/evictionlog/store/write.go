package store

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/evictionlog"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Key is the key of the ConfigMap with the record.
const Key = "evictions"

// maxRead bounds what is read of a record that others wrote, in bytes.
const maxRead = 4 * evictionlog.MaxBytes

// put writes records to the ConfigMap. After a conflicting write it reads the ConfigMap again and retries at once,
// up to api.MaxConflicts attempts. Returns an error if they are not written.
func (s *Store) put(ctx context.Context, records *evictionlog.Log) error {
	for range api.MaxConflicts {
		again, err := s.try(ctx, records)
		if !again {
			return err
		}
	}
	return fmt.Errorf("%s: others wrote to it %d times meanwhile: let one agent run on a node", s.attempt(), api.MaxConflicts)
}

// try writes once. It reports whether to try again at once: the ConfigMap has changed since it was read.
func (s *Store) try(ctx context.Context, records *evictionlog.Log) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, api.RequestTimeout)
	defer cancel()
	configMaps := s.Client.ConfigMaps(s.Namespace)
	found, err := configMaps.Get(ctx, s.NodeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if found, err = s.empty(); err != nil {
			return false, err
		}
		if err := s.merge(found, records); err != nil {
			return false, err
		}
		_, err = configMaps.Create(ctx, found, metav1.CreateOptions{FieldManager: api.FieldOwner})
		return apierrors.IsAlreadyExists(err), s.explain(err)
	case err != nil:
		return false, s.explain(err)
	}
	if err := s.merge(found, records); err != nil {
		return false, err
	}
	_, err = configMaps.Update(ctx, found, metav1.UpdateOptions{FieldManager: api.FieldOwner})
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err), s.explain(err)
}

// empty returns a new ConfigMap. The owner is set here alone: where OwnerReferencesPermissionEnforcement is active, a
// later change needs the right to delete the record. Returns an error if the owner is not known.
func (s *Store) empty() (*corev1.ConfigMap, error) {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.NodeName}}
	if s.Node == nil {
		return m, nil
	}
	node := s.Node()
	if node == nil {
		return nil, fmt.Errorf("%s: the Node, its owner, is not known yet", s.attempt())
	}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	return m, nil
}

// merge adds records to the ConfigMap, and drops those beyond the bounds. Those that were too old at the last write
// are dropped: of the present, only the node's clock is known. Returns an error if its content cannot be preserved, or
// is too large to be read.
func (s *Store) merge(m *corev1.ConfigMap, records *evictionlog.Log) error {
	if n := len(m.Data[Key]); n > maxRead {
		return fmt.Errorf("%s: it has %d bytes, and at most %d are read: delete it", s.attempt(), n, maxRead)
	}
	all, now := evictionlog.Parse(m.Data[Key]), time.Now()
	written := writtenAt(m)
	if all.Expire(written); written.After(now) { // the node's clock is behind
		now = written
	}
	all.Add(records)
	if _, err := all.Trim(now); err != nil {
		return fmt.Errorf("%s: %w: delete it, or let a newer agent write it", s.attempt(), err)
	}
	if m.Data == nil {
		m.Data = map[string]string{}
	}
	m.Data[Key] = all.String()
	return nil
}

// writtenAt returns when a ConfigMap was written last, by the clock of the API server; zero if it is new, or the
// server does not report that. The present is later.
func writtenAt(m *corev1.ConfigMap) time.Time {
	last := m.CreationTimestamp.Time
	for i := range m.ManagedFields {
		if t := m.ManagedFields[i].Time; t != nil && t.After(last) {
			last = t.Time
		}
	}
	return last
}

// explain adds the attempt, and the remedy.
func (s *Store) explain(err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s: %w: the namespace %s has to exist: apply deploy/rbac/agent.yaml, or the chart, of this version", s.attempt(), err, s.Namespace)
	}
	return api.Explain(err, s.attempt(), "get, create and update configmaps in the namespace "+s.Namespace)
}
