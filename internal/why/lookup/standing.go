package lookup

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/internal/evictionlog/store"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/why"
)

// standing returns where a pod stands. It returns nil if there is none, or it has ended.
func (r *Request) standing(ctx context.Context, c *client.Clients, pod *corev1.Pod) *why.Explanation {
	if pod == nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	converted, err := agentpods.FromAPI(pod)
	if err != nil {
		return nil
	}
	o := &why.Observed{Pod: converted, Phase: string(pod.Status.Phase)}
	if pod.DeletionTimestamp != nil {
		o.Phase += ", being deleted"
	}
	if m, marked, err := podstatus.Marked(pod); marked && err == nil {
		o.Requested = fmt.Sprintf("soft eviction for %s, since %s", signals.Printable(m.Cause), m.Since.UTC().Format(time.RFC3339))
	}
	if pod.Spec.NodeName != "" {
		r.observeNode(ctx, c, pod.Spec.NodeName, o)
	}
	return &why.Explanation{Node: pod.Spec.NodeName, Standing: why.Stand(o)}
}

// observeNode reads the node of a pod, the lease of its agent, and the records of its evictions. What cannot be read
// is noted as unknown.
func (r *Request) observeNode(ctx context.Context, c *client.Clients, node string, o *why.Observed) {
	if n, err := c.Writing.Nodes().Get(ctx, node, metav1.GetOptions{}); err != nil {
		o.Unknown = append(o.Unknown, fmt.Sprintf("The pressure of node %s, which needs the right to get nodes: %s", node, errorText(err)))
	} else {
		o.Pressures = pressuresOf(n)
	}
	switch l, err := c.Writing.Leases(r.AgentNamespace).Get(ctx, node, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		o.Agent = fmt.Sprintf("none: there is no lease %s/%s. In another namespace: --heartbeat-namespace", r.AgentNamespace, node)
	case err != nil:
		o.Unknown = append(o.Unknown, fmt.Sprintf("The state of the agent, which needs the right to get leases in the namespace %s: %s", r.AgentNamespace, errorText(err)))
	default:
		o.Agent = agentText(l, time.Now())
	}
	n, _, err := store.Get(ctx, c.Writing, r.Namespace, node)
	if err != nil {
		o.Unknown = append(o.Unknown, "The last recorded places: "+errorText(err))
	}
	o.Records = n.Records
}

// maxErrorText bounds the text of an error of the API server.
const maxErrorText = 300

func errorText(err error) string {
	text := signals.Printable(err.Error())
	return strings.ToValidUTF8(text[:min(len(text), maxErrorText)], "")
}

// pressuresOf returns the pressure conditions of a node, by its kubelet or its agent. One that is True counts first.
func pressuresOf(n *corev1.Node) (all [signals.ConditionCount]why.Pressure) {
	for c := range signals.Condition(signals.ConditionCount) {
		for i := range n.Status.Conditions {
			found := &n.Status.Conditions[i]
			if t := string(found.Type); t != c.String() && t != api.Prefix+c.String() || all[c].Status == string(corev1.ConditionTrue) {
				continue
			}
			if all[c].Status == "" || found.Status == corev1.ConditionTrue {
				all[c] = why.Pressure{Status: signals.Printable(string(found.Status)), Since: found.LastTransitionTime.Time}
			}
		}
	}
	return all
}

// agentText describes the agent of a node by its lease.
func agentText(l *coordinationv1.Lease, now time.Time) string {
	armed := "disarmed: it evicts nothing"
	if l.Annotations[heartbeat.AnnotationArmed] == "true" {
		armed = "armed"
	}
	if reason := l.Annotations[heartbeat.AnnotationArmedReason]; reason != "" {
		armed += ", " + signals.PrintableName(reason)
	}
	if renewed := l.Spec.RenewTime; renewed == nil {
		armed = "without a heartbeat: it may be gone. Before, it was " + armed
	} else if now.Sub(renewed.Time) > heartbeat.LeaseDuration { // or the clock of this machine is ahead
		armed = fmt.Sprintf("without a heartbeat since %s: it may be gone. Before, it was %s", renewed.UTC().Format(time.RFC3339), armed)
	}
	if last := l.Annotations[heartbeat.AnnotationLastCheck]; last != "" {
		armed += ". Last check: " + signals.PrintableName(last)
	}
	return armed
}
