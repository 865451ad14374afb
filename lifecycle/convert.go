package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/lifecycle/facts"
)

// ours is the prefix of condition types and taints that a node's agent writes.
const ours = "plimsoll.dev/"

// The labels by which is decided. Where a node has the older one of a pair, it
// counts, as in Kubernetes.
const (
	labelOldRegion = "failure-domain.beta.kubernetes.io/region"
	labelOldZone   = "failure-domain.beta.kubernetes.io/zone"
	labelOldOS     = "beta.kubernetes.io/os"
	labelOldArch   = "beta.kubernetes.io/arch"
	labelExclude   = "node.kubernetes.io/exclude-disruption"
)

// autonomies are the annotations that say how long an unreachable node keeps its
// pods; the first one that is there counts.
var autonomies = [...]string{ours + "autonomy-duration", "node.openyurt.io/autonomy-duration"}

// A converter makes facts of objects. It belongs to one goroutine: it keeps what
// it has made, to share it.
type converter struct {
	shared    shared
	requested func(*corev1.Pod) (*facts.Request, error)
	doubt     func(object, what string) // told of what can not be understood
}

// node is a Node as facts; nil if it has no name or UID.
func (c *converter) node(n *corev1.Node) *facts.Node {
	if n.Name == "" || n.UID == "" {
		c.doubt("node "+n.Name, "it has no name or no UID: it is passed over")
		return nil
	}
	f := &facts.Node{
		Name: n.Name, UID: string(n.UID), Created: n.CreationTimestamp.Time,
		Labels: c.labels(n.Labels), Unschedulable: n.Spec.Unschedulable,
		Taints: c.taints(n), Autonomy: c.autonomy(n),
	}
	for i := range n.Status.Conditions {
		one := &n.Status.Conditions[i]
		if t, decides := facts.ParseConditionType(string(one.Type)); decides {
			f.Conditions[t] = facts.Condition{
				Status: nodeStatus(one.Status), Reason: c.shared.text(one.Reason),
				Heartbeat: one.LastHeartbeatTime.Time, Transition: one.LastTransitionTime.Time,
			}
		} else if strings.HasPrefix(string(one.Type), ours) && one.Status != corev1.ConditionFalse {
			f.Pressures = append(f.Pressures, c.shared.text(string(one.Type)))
		}
	}
	slices.Sort(f.Pressures)
	return f
}

// nodeStatus is a status that somebody wrote: an empty one is not absent.
func nodeStatus(s corev1.ConditionStatus) facts.Status {
	if s == "" {
		return facts.Unknown
	}
	return facts.ParseStatus(string(s))
}

func (c *converter) labels(l map[string]string) facts.Labels {
	label := func(key string) facts.Label {
		value, is := l[key]
		return facts.Label{Value: c.shared.text(value), Is: is}
	}
	_, excluded := l[labelExclude]
	return facts.Labels{
		Region: c.shared.text(either(l, labelOldRegion, corev1.LabelTopologyRegion)),
		Zone:   c.shared.text(either(l, labelOldZone, corev1.LabelTopologyZone)),
		OS:     label(corev1.LabelOSStable), Arch: label(corev1.LabelArchStable),
		OldOS: label(labelOldOS), OldArch: label(labelOldArch),
		Excluded: excluded,
	}
}

func either(l map[string]string, first, second string) string {
	if value, is := l[first]; is {
		return value
	}
	return l[second]
}

// taints are all of a node's, but those with an effect that there is not.
func (c *converter) taints(n *corev1.Node) []facts.Taint {
	if len(n.Spec.Taints) == 0 {
		return nil
	}
	all := make([]facts.Taint, 0, len(n.Spec.Taints))
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		effect, ok := facts.ParseEffect(string(t.Effect))
		if !ok || effect == facts.AnyEffect {
			c.doubt("node "+n.Name, fmt.Sprintf("its taint %s has the effect %q, which is not known here: it is left as it is, and moves no pod", t.Key, t.Effect))
			continue
		}
		all = append(all, facts.Taint{Key: c.shared.text(t.Key), Value: c.shared.text(t.Value), Effect: effect, Added: moment(t.TimeAdded)})
	}
	return all
}

func moment(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// autonomy reads the annotations: zero and less is for ever.
func (c *converter) autonomy(n *corev1.Node) time.Duration {
	for _, key := range autonomies {
		text, is := n.Annotations[key]
		if !is {
			continue
		}
		d, err := time.ParseDuration(strings.TrimSpace(text))
		switch {
		case err != nil:
			c.doubt("node "+n.Name, fmt.Sprintf("its annotation %s is %.40q, not a duration such as 2h: its pods are moved as others are", key, text))
			return 0
		case d <= 0:
			return facts.Forever
		}
		return d
	}
	return 0
}

// pod is a Pod as facts; nil if it has no UID or no node.
func (c *converter) pod(p *corev1.Pod) *facts.Pod {
	if p.UID == "" || p.Name == "" || p.Spec.NodeName == "" {
		c.doubt("pod "+p.Namespace+"/"+p.Name, "it has no name, no UID or no node: it is passed over")
		return nil
	}
	f := &facts.Pod{
		Namespace: c.shared.text(p.Namespace), Name: p.Name, UID: string(p.UID), Node: c.shared.text(p.Spec.NodeName),
		Created:     p.CreationTimestamp.Time,
		Tolerations: c.shared.tolerations(p.Spec.Tolerations),
		Finished:    p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Deleting:    p.DeletionTimestamp != nil,
		Ready:       ready(p),
	}
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		f.Daemon = owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, "apps/")
	}
	if c.requested != nil {
		asked, err := c.requested(p)
		if err != nil {
			c.doubt("pod "+f.Key(), err.Error()+": nothing follows from it")
			asked = nil
		}
		f.Asked = asked
	}
	return f
}

func ready(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if one := &p.Status.Conditions[i]; one.Type == corev1.PodReady {
			return one.Status == corev1.ConditionTrue
		}
	}
	return false
}
