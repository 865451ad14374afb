package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/lifecycle/convert"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// converter converts API objects. It belongs to one goroutine: it stores results to share them.
type converter struct {
	shared    shared
	requested func(*corev1.Pod) (*model.Request, error)
	warn      func(object, what string) // receives the parts of objects that are not understood
}

// node converts a Node. It returns nil without a name or UID.
func (c *converter) node(n *corev1.Node) *model.Node {
	if n.Name == "" || n.UID == "" {
		c.warn("node "+n.Name, "it has no name or no UID: it is ignored")
		return nil
	}
	f := convert.Node(n)
	f.Labels = c.shared.labels(f.Labels)
	f.Taints, f.Autonomy = c.taints(n), c.autonomy(n)
	for i := range n.Status.Conditions {
		one := &n.Status.Conditions[i]
		if t, condition, decides := convert.Condition(one); decides {
			condition.Reason = c.shared.text(condition.Reason)
			f.Conditions[t] = condition
		} else if strings.HasPrefix(string(one.Type), api.Prefix) && one.Status != corev1.ConditionFalse {
			f.Pressures = append(f.Pressures, c.shared.text(string(one.Type)))
		}
	}
	slices.Sort(f.Pressures)
	return &f
}

// taints converts the taints of a node, except those with an unknown effect.
func (c *converter) taints(n *corev1.Node) []model.Taint {
	if len(n.Spec.Taints) == 0 {
		return nil
	}
	all := make([]model.Taint, 0, len(n.Spec.Taints))
	for i := range n.Spec.Taints {
		t, ok := convert.Taint(&n.Spec.Taints[i])
		if !ok {
			c.warn("node "+n.Name, fmt.Sprintf("its taint %s has the effect %q, which is not known here: it is left as it is, and moves no pod", t.Key, n.Spec.Taints[i].Effect))
			continue
		}
		t.Key, t.Value = c.shared.text(t.Key), c.shared.text(t.Value)
		all = append(all, t)
	}
	return all
}

// autonomy parses the annotations. They are written by hand: blanks around a duration are no
// fault.
func (c *converter) autonomy(n *corev1.Node) time.Duration {
	key, text := convert.Autonomy(n.Annotations)
	if key == "" {
		return 0
	}
	d, err := convert.ParseAutonomy(strings.TrimSpace(text))
	if err != nil {
		c.warn("node "+n.Name, fmt.Sprintf("its annotation %s is %.40q, not a duration such as 2h: its pods are moved as others are", key, text))
	}
	return d
}

// pod converts a Pod. It returns nil without a UID or node.
func (c *converter) pod(p *corev1.Pod) *model.Pod {
	if p.UID == "" || p.Name == "" || p.Spec.NodeName == "" {
		c.warn("pod "+p.Namespace+"/"+p.Name, "it has no name, no UID or no node: it is ignored")
		return nil
	}
	f := convert.Pod(p)
	f.Namespace, f.Node = c.shared.text(f.Namespace), c.shared.text(f.Node)
	f.Tolerations, f.Ready = c.shared.tolerations(p.Spec.Tolerations), ready(p)
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		f.Daemon = owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, "apps/")
	}
	c.checkOperators(p, f.Tolerations)
	f.Evicted = c.evicted(p)
	if c.requested != nil {
		request, err := c.requested(p)
		if err != nil {
			c.warn("pod "+f.Key(), err.Error()+": it is ignored")
			request = nil
		}
		f.Requested = request
	}
	return &f
}

// checkOperators reports tolerations of a pod with an operator of a later API.
func (c *converter) checkOperators(p *corev1.Pod, tolerations []model.Toleration) {
	for i := range tolerations {
		if tolerations[i].Operator == model.UnknownOperator {
			c.warn("pod "+p.Namespace+"/"+p.Name, fmt.Sprintf("its toleration of %.40q has the operator %.40q, which this version does not know: it counts as tolerating every value", p.Spec.Tolerations[i].Key, p.Spec.Tolerations[i].Operator))
		}
	}
}

// evicted returns the time of the mark by the agent of the pod's node. It returns nil without a
// mark, or if the time is unknown.
func (c *converter) evicted(p *corev1.Pod) *time.Time {
	since, marked := convert.Evicted(p)
	switch {
	case !marked:
		return nil
	case since.IsZero():
		c.warn("pod "+p.Namespace+"/"+p.Name, "the condition plimsoll.dev/Evicted has no lastTransitionTime: the pod is not deleted")
		return nil
	}
	return &since
}

func ready(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if one := &p.Status.Conditions[i]; one.Type == corev1.PodReady {
			return one.Status == corev1.ConditionTrue
		}
	}
	return false
}
