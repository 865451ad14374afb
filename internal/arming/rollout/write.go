package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/internal/arming"
)

// fieldManager owns the fields that a request writes.
const fieldManager = "plimsoll-arming"

const (
	// writesAtOnce bounds the concurrent writes. A server has to serve thousands of Nodes in the time of a command.
	writesAtOnce = 8
	// maxFaults bounds the errors of Nodes in a message.
	maxFaults = 10
)

// write writes the setting: by one request for all nodes, or by one for each named node. A node
// that does not exist does not affect the others. Returns the errors of all, and the first ones of many.
func (r *Request) write(ctx context.Context) error {
	if r.All {
		return r.writeForAll(ctx)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": r.entries(arming.Annotation, arming.AnnotationAccept)}})
	if err != nil {
		return err
	}
	faults := make([]error, len(r.Nodes))
	places := make(chan struct{}, writesAtOnce)
	var group sync.WaitGroup
	for i, node := range r.Nodes {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			if _, err := r.Client.Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
				faults[i] = fmt.Errorf("write the setting %q to the node %s: %w", r.Setting, node, err)
			}
		})
	}
	group.Wait()
	faults = slices.DeleteFunc(faults, func(err error) bool { return err == nil })
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults], fmt.Errorf("and the errors of %d more nodes", more))
	}
	return errors.Join(faults...)
}

// writeForAll writes the ConfigMap, and creates it if there is none. Without an agent it is created
// for [arming.Disarm] only: any other setting would bind a later installation.
func (r *Request) writeForAll(ctx context.Context) error {
	entries := r.entries(arming.KeyAll, arming.KeyAccept)
	patch, err := json.Marshal(map[string]any{"data": entries})
	if err != nil {
		return err
	}
	maps := r.Client.ConfigMaps(r.Namespace)
	write := func() error {
		_, err := maps.Patch(ctx, arming.ConfigMap, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		return err
	}
	if err = write(); apierrors.IsNotFound(err) {
		if r.Setting != arming.Disarm {
			if found, err := r.countAgents(ctx, r.Namespace); err == nil && len(found) == 0 {
				return noAgentsError{written: false}
			}
		}
		_, err = maps.Create(ctx, r.configMap(entries), metav1.CreateOptions{FieldManager: fieldManager})
		switch {
		case apierrors.IsAlreadyExists(err):
			err = write()
		case apierrors.IsNotFound(err): // the namespace
			return noAgentsError{written: false}
		}
	}
	if err != nil {
		return fmt.Errorf("write the setting %q to the ConfigMap %s/%s: %w", r.Setting, r.Namespace, arming.ConfigMap, err)
	}
	return nil
}

// configMap returns a ConfigMap that a chart installed later adopts: with the ownership that Helm
// requires, in the name of the documented release. A chart with another release name does not
// change it, and an upgrade does not delete it.
func (r *Request) configMap(entries map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{Data: entries, ObjectMeta: metav1.ObjectMeta{
		Name:   arming.ConfigMap,
		Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"},
		Annotations: map[string]string{
			"meta.helm.sh/release-name":      "plimsoll",
			"meta.helm.sh/release-namespace": r.Namespace,
			"helm.sh/resource-policy":        "keep",
		},
	}}
}

func (r *Request) entries(key, acceptKey string) map[string]string {
	entries := map[string]string{key: r.Setting.String()}
	if r.Accepted != nil {
		entries[acceptKey] = *r.Accepted
	}
	return entries
}
