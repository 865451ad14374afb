package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// tries is the number of repetitions of a write after conflicts, before it fails with a backoff.
const tries = 4

// errReported ends a write after the node turned out not to be lost.
var errReported = errors.New("the node has reported meanwhile")

// markUnknown sets conditions of the node to Unknown. It costs one request, unless the
// node was written to since it was observed: then it is read, and not changed if that
// was its kubelet.
func (t *task) markUnknown(ctx context.Context) error {
	version := t.version
	return retry(func(fresh bool) error {
		if fresh || version == "" {
			live, err := t.readNode(ctx)
			if err != nil {
				return err
			}
			if reported(live, t.object()) != "" {
				return fmt.Errorf("set conditions of node %s to Unknown: %w", t.Node, errReported)
			}
			version = live.ResourceVersion
		}
		return t.patchNode(ctx, types.StrategicMergePatchType, "status", t.unknown(version, time.Now()))
	})
}

// retry repeats a write after conflicts; fresh reports that the observation is
// outdated.
func retry(write func(fresh bool) error) error {
	var err error
	for try := range tries {
		if err = write(try > 0); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// unknown returns the patch of markUnknown.
func (t *task) unknown(version string, now time.Time) statusPatch {
	n := t.object()
	p := statusPatch{Metadata: precondition{UID: n.UID, ResourceVersion: version}}
	for i := range t.Conditions {
		s := &t.Conditions[i]
		one := condition{
			Type: s.Type.String(), Status: string(corev1.ConditionUnknown),
			Reason: s.Reason, Message: s.Message, LastTransitionTime: stamp(now),
		}
		if s.Reason == model.ReasonStatusNeverUpdated {
			one.LastHeartbeatTime = stamp(n.Created)
		}
		p.Status.Conditions = append(p.Status.Conditions, one)
	}
	return p
}

// reported returns the Ready that the node itself wrote since it was observed; empty if
// it wrote none.
func reported(live *corev1.Node, seen *model.Node) corev1.ConditionStatus {
	for i := range live.Status.Conditions {
		c := &live.Status.Conditions[i]
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionUnknown && !c.LastHeartbeatTime.Time.Equal(seen.Conditions[model.Ready].Heartbeat) {
			return c.Status
		}
	}
	return ""
}

// taint changes taints and labels in one patch, made from the live object: no change of
// another writer is lost.
func (t *task) taint(ctx context.Context) error {
	err := retry(func(bool) error {
		live, err := t.readNode(ctx)
		if err != nil {
			return err
		}
		if status := reported(live, t.object()); t.evictsPods() && status != "" && !t.reportMatches(status) {
			return fmt.Errorf("taint node %s: %w", t.Node, errReported)
		}
		p := specPatch{}
		p.Metadata.precondition = precondition{UID: string(live.UID), ResourceVersion: live.ResourceVersion}
		p.Metadata.Labels = t.labelsMissing(live)
		if taints := changed(live.Spec.Taints, t.stamped(time.Now()), t.Remove); !slices.EqualFunc(taints, live.Spec.Taints, sameTaint) {
			p.Spec = &taintList{taints}
		}
		if p.Spec == nil && len(p.Metadata.Labels) == 0 {
			return nil // it was done already
		}
		return t.patchNode(ctx, types.MergePatchType, "", p)
	})
	if err == nil && t.evictsPods() && !t.swaps() {
		t.parts.Meters.tainted(t.object().Labels.Place().String())
	}
	return err
}

// stamped returns the taints to add with the time of this write: a fresh one may have
// waited for its turn since the decision.
func (t *task) stamped(now time.Time) []model.Taint {
	add := slices.Clone(t.Add)
	for i := range add {
		if t.Fresh(&add[i]) {
			add[i].Added = now
		}
	}
	return add
}

// evictsPods reports whether one of the taints to add evicts pods of an unready node.
func (t *task) evictsPods() bool { return slices.ContainsFunc(t.Add, evictsUnready) }

// reportMatches reports whether the node's own report is the reason of the taint.
func (t *task) reportMatches(status corev1.ConditionStatus) bool {
	return status == corev1.ConditionFalse && slices.ContainsFunc(t.Add, func(t model.Taint) bool { return t.Key == model.KeyNotReady })
}

// swaps reports whether the taint replaces the one for the other reason.
func (t *task) swaps() bool { return slices.ContainsFunc(t.Remove, evictsUnready) }

func evictsUnready(t model.Taint) bool {
	return t.Is(model.KeyNotReady, model.NoExecute) || t.Is(model.KeyUnreachable, model.NoExecute)
}

func (t *task) labelsMissing(live *corev1.Node) map[string]string {
	missing := map[string]string{}
	for _, l := range t.Labels {
		if value, is := live.Labels[l.Key]; !is || value != l.Value {
			missing[l.Key] = l.Value
		}
	}
	return missing
}

// changed returns the taints without those of remove, and with those of add. One that
// exists already stays as it is, with its time.
func changed(taints []corev1.Taint, add, remove []model.Taint) []corev1.Taint {
	is := func(t *corev1.Taint, one model.Taint) bool {
		return t.Key == one.Key && string(t.Effect) == one.Effect.String()
	}
	left := make([]corev1.Taint, 0, len(taints)+len(add))
	for i := range taints {
		if !slices.ContainsFunc(remove, func(r model.Taint) bool { return is(&taints[i], r) }) {
			left = append(left, taints[i])
		}
	}
	for _, a := range add {
		if !slices.ContainsFunc(left, func(t corev1.Taint) bool { return is(&t, a) }) {
			left = append(left, taintOf(a))
		}
	}
	return left
}

func taintOf(t model.Taint) corev1.Taint {
	out := corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect.String())}
	if !t.Added.IsZero() {
		out.TimeAdded = &metav1.Time{Time: t.Added}
	}
	return out
}

func sameTaint(a, b corev1.Taint) bool { return a.Key == b.Key && a.Effect == b.Effect }

// cleanUpAgent removes the conditions and taints of a dead agent from its node.
func (t *task) cleanUpAgent(ctx context.Context) error {
	return retry(func(bool) error {
		live, err := t.readNode(ctx)
		if err != nil {
			return err
		}
		p := statusPatch{Metadata: precondition{UID: string(live.UID)}}
		for i := range live.Status.Conditions {
			if kind := string(live.Status.Conditions[i].Type); strings.HasPrefix(kind, api.Prefix) {
				p.Status.Conditions = append(p.Status.Conditions, condition{Directive: "delete", Type: kind})
			}
		}
		// Both patches are made from one read: the first must not outdate the second.
		if left := withoutAgentTaints(live.Spec.Taints); len(left) < len(live.Spec.Taints) {
			s := specPatch{Spec: &taintList{left}}
			s.Metadata.precondition = precondition{UID: string(live.UID), ResourceVersion: live.ResourceVersion}
			if err := t.patchNode(ctx, types.MergePatchType, "", s); err != nil {
				return err
			}
		}
		if len(p.Status.Conditions) == 0 {
			return nil
		}
		return t.patchNode(ctx, types.StrategicMergePatchType, "status", p)
	})
}

func withoutAgentTaints(taints []corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, api.Prefix) })
}
