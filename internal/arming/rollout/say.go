package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/kube/client"
)

// speaker is who the API server says wrote a word.
const speaker = "plimsoll-arming"

// say writes the word down: one request for all nodes, one for each that is
// named. A node that does not exist does not keep the others from hearing it.
func (o *Request) say(ctx context.Context, clients *client.Clients) error {
	if o.All {
		return o.sayToAll(ctx, clients)
	}
	entries := o.entries(arming.Annotation, arming.AnnotationAccept)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": entries}})
	if err != nil {
		return err
	}
	var faults []error
	for _, node := range o.Nodes {
		if _, err := clients.Writing.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: speaker}); err != nil {
			faults = append(faults, fmt.Errorf("say %q to the node %s: %w", o.Word, node, err))
		}
	}
	return errors.Join(faults...)
}

// sayToAll writes the ConfigMap, and creates it if there is none. Without an agent
// only the word that stops is worth creating it: any other would bind an
// installation that comes later.
func (o *Request) sayToAll(ctx context.Context, clients *client.Clients) error {
	entries := o.entries(arming.KeyAll, arming.KeyAccept)
	patch, err := json.Marshal(map[string]any{"data": entries})
	if err != nil {
		return err
	}
	maps := clients.Writing.CoreV1().ConfigMaps(o.Namespace)
	write := func() error {
		_, err := maps.Patch(ctx, arming.ConfigMap, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: speaker})
		return err
	}
	if err = write(); apierrors.IsNotFound(err) {
		if o.Word != arming.Disarm {
			if found, err := agentsIn(ctx, clients, o.Namespace); err == nil && len(found) == 0 {
				return noAgentsError{written: false}
			}
		}
		_, err = maps.Create(ctx, o.configMap(entries), metav1.CreateOptions{FieldManager: speaker})
		switch {
		case apierrors.IsAlreadyExists(err):
			err = write()
		case apierrors.IsNotFound(err): // the namespace
			return noAgentsError{written: false}
		}
	}
	if err != nil {
		return fmt.Errorf("say %q to all nodes in the ConfigMap %s/%s: %w", o.Word, o.Namespace, arming.ConfigMap, err)
	}
	return nil
}

// configMap returns the ConfigMap as a chart that is installed later adopts it:
// with the ownership that Helm asks for, in the name of the documented release. The
// chart leaves it alone if its release has another name, and an upgrade does not
// delete it.
func (o *Request) configMap(entries map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{Data: entries, ObjectMeta: metav1.ObjectMeta{
		Name:   arming.ConfigMap,
		Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"},
		Annotations: map[string]string{
			"meta.helm.sh/release-name":      "plimsoll",
			"meta.helm.sh/release-namespace": o.Namespace,
			"helm.sh/resource-policy":        "keep",
		},
	}}
}

func (o *Request) entries(word, accept string) map[string]string {
	entries := map[string]string{word: o.Word.String()}
	if o.Accepted != nil {
		entries[accept] = *o.Accepted
	}
	return entries
}
