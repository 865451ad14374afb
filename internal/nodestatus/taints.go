package nodestatus

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// writeTaints sets the taints of our own. If taints are disabled, it removes those of an earlier
// configuration. A failure is logged and retried in the next round; it does not delay conditions.
func (c *Conditions) writeTaints(ctx context.Context, d *draft, n *corev1.Node) {
	pressed := d.pressed
	if !c.Taint {
		pressed = 0
	}
	if _, changed := taints(n.Spec.Taints, pressed); !changed {
		c.tainted = nil
		return
	}
	err := c.patchTaints(ctx, pressed)
	if err != nil && ctx.Err() == nil {
		c.failed.Add(1)
		if c.tainted == nil {
			c.Log.Error("Failed to write the node's taints, retrying", "node", c.NodeName, "error", err)
		}
	}
	c.tainted = err
}

func (c *Conditions) patchTaints(ctx context.Context, pressed signals.ConditionSet) error {
	for range api.MaxConflicts {
		n, err := c.read(ctx) // the patch names a version: it needs the newest
		if err != nil {
			return err
		}
		all, changed := taints(n.Spec.Taints, pressed)
		if !changed {
			return nil
		}
		patch, err := taintPatch(n, all)
		if err != nil {
			return err
		}
		if err = c.patch(ctx, types.MergePatchType, patch); !apierrors.IsConflict(err) {
			return api.Explain(err, "write the taints of the node "+c.NodeName, "patch nodes")
		}
	}
	return fmt.Errorf("write the taints of the node %s: others wrote to it %d times meanwhile", c.NodeName, api.MaxConflicts)
}

// taints returns a Node's taints with our own corrected: exactly one for each condition in the set.
// changed is false if they are correct already.
func taints(present []corev1.Taint, pressed signals.ConditionSet) (all []corev1.Taint, changed bool) {
	var there signals.ConditionSet
	all = []corev1.Taint{}
	for _, t := range present {
		c, ours := taintOf(&t)
		if ours && (!pressed.Has(c) || there.Has(c)) {
			changed = true
			continue
		}
		if ours {
			there.Add(c)
		}
		all = append(all, t)
	}
	for c := range signals.Condition(signals.ConditionCount) {
		if pressed.Has(c) && !there.Has(c) {
			all = append(all, corev1.Taint{Key: wordings[c].taint, Effect: corev1.TaintEffectNoSchedule})
			changed = true
		}
	}
	return all, changed
}

// taintOf returns the condition of a taint of our own. A taint with our key and another effect
// belongs to its author.
func taintOf(t *corev1.Taint) (c signals.Condition, ours bool) {
	if t.Effect != corev1.TaintEffectNoSchedule {
		return 0, false
	}
	for c := range signals.Condition(signals.ConditionCount) {
		if wordings[c].taint == t.Key {
			return c, true
		}
	}
	return 0, false
}

// taintPatch returns a merge patch of a Node's taints. The API server refuses it if the Node
// changed since n was read: the list can only be written as a whole.
func taintPatch(n *corev1.Node, all []corev1.Taint) ([]byte, error) {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": n.UID, "resourceVersion": n.ResourceVersion},
		"spec":     map[string]any{"taints": all},
	})
	if err != nil {
		return nil, fmt.Errorf("encode taints: %w", err)
	}
	return data, nil
}
