package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/apiserver"
	"plimsoll.dev/plimsoll/arming"
)

// speaker is who the API server says wrote a word.
const speaker = "plimsoll-arming"

// say writes the word down: one request for all nodes, one for each that is
// named. A node that does not exist does not keep the others from hearing it.
func (o *order) say(ctx context.Context, clients *apiserver.Clients) error {
	if o.all {
		return o.sayToAll(ctx, clients)
	}
	entries := o.entries(arming.Annotation, arming.AnnotationAccept)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": entries}})
	if err != nil {
		return err
	}
	var faults []error
	for _, node := range o.nodes {
		if _, err := clients.Writing.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: speaker}); err != nil {
			faults = append(faults, fmt.Errorf("say %q to the node %s: %w", o.word, node, err))
		}
	}
	return errors.Join(faults...)
}

// sayToAll writes the ConfigMap, which is made if there is none.
func (o *order) sayToAll(ctx context.Context, clients *apiserver.Clients) error {
	entries := o.entries(arming.KeyAll, arming.KeyAccept)
	patch, err := json.Marshal(map[string]any{"data": entries})
	if err != nil {
		return err
	}
	maps := clients.Writing.CoreV1().ConfigMaps(o.namespace)
	write := func() error {
		_, err := maps.Patch(ctx, arming.ConfigMap, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: speaker})
		return err
	}
	if err = write(); apierrors.IsNotFound(err) {
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: arming.ConfigMap}, Data: entries}
		_, err = maps.Create(ctx, made, metav1.CreateOptions{FieldManager: speaker})
		if apierrors.IsAlreadyExists(err) {
			err = write()
		}
	}
	if err != nil {
		return fmt.Errorf("say %q to all nodes in the ConfigMap %s/%s: %w", o.word, o.namespace, arming.ConfigMap, err)
	}
	return nil
}

func (o *order) entries(word, accept string) map[string]string {
	entries := map[string]string{word: o.word.String()}
	if o.accepted != nil {
		entries[accept] = *o.accepted
	}
	return entries
}
