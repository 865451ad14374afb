package podstatus

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

const (
	// EvictionRequested is the pod condition that requests an eviction from the controller.
	EvictionRequested corev1.PodConditionType = "plimsoll.dev/EvictionRequested"
	// Evicted is the pod condition that identifies the Failed pods of an agent. The controller
	// deletes them after a while. Its reason is the node's condition, or ReasonEvicted for a limit
	// of the pod itself.
	Evicted corev1.PodConditionType = "plimsoll.dev/Evicted"
)

// The message of the condition is that of the eviction, followed by a machine-readable suffix: a
// condition has no fields for it.
const (
	suffixBegins = "[plimsoll.dev "
	maxSuffix    = 200 // bytes
	suffixCause  = "cause="
	suffixGrace  = " gracePeriodSeconds="
	suffixEnds   = "]"
)

// mark requests evictions by a condition on the pod.
type mark struct{ client api.Interface }

func (m *mark) Request(ctx context.Context, n Notice, grace int64) (Answer, error) {
	answer, err := m.patch(ctx, &n, "mark pod %s for eviction: %w", condition{
		Type:               EvictionRequested,
		Status:             corev1.ConditionTrue,
		Reason:             pressure(n.Cause),
		Message:            markMessage(&n, max(grace, 1)),
		LastTransitionTime: stamp(n.Decided),
		ObservedGeneration: n.ObservedGeneration,
	})
	if ofThisRequest(err) { // such as an object beyond the server's limit
		return refusal(err), nil
	}
	return answer, err
}

func (m *mark) Withdraw(ctx context.Context, n Notice) error {
	_, err := m.patch(ctx, &n, "take the mark for eviction from pod %s: %w", condition{
		Directive: "delete", Type: EvictionRequested,
	})
	return err
}

func (m *mark) patch(ctx context.Context, n *Notice, doing string, c condition) (Answer, error) {
	err := patchPodStatus(ctx, m.client, n, patch{Metadata: precondition{UID: n.UID}, Status: status{Conditions: []condition{c}}})
	switch answerTo(err) {
	case done:
		return Answer{Outcome: Asked}, nil
	case gone:
		return Answer{Outcome: Gone}, nil
	}
	return Answer{}, fmt.Errorf(doing, n.Pod(), err)
}

// pressure returns the condition's reason: the node condition that the cause belongs to, in one
// word.
func pressure(cause string) string {
	if s, err := signals.Parse(cause); err == nil {
		return s.Definition().Condition.String()
	}
	return ReasonEvicted
}

func markMessage(n *Notice, grace int64) string {
	return strings.TrimSuffix(n.Message, " ") + " " +
		suffixBegins + suffixCause + n.Cause + suffixGrace + strconv.FormatInt(grace, 10) + suffixEnds
}

// Marked returns the request in a pod's condition; false without the condition. Returns an error if
// the condition is not one of an agent: it must have no effect.
func Marked(pod *corev1.Pod) (r Request, marked bool, err error) {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == EvictionRequested && c.Status == corev1.ConditionTrue {
			r, err = readMark(pod, c)
			return r, true, err
		}
	}
	return Request{}, false, nil
}

func readMark(pod *corev1.Pod, c *corev1.PodCondition) (Request, error) {
	i := strings.LastIndex(c.Message, suffixBegins)
	if i < 0 {
		return Request{}, fmt.Errorf("pod %s/%s is marked for eviction without %q in the message", pod.Namespace, pod.Name, suffixBegins+"…"+suffixEnds)
	}
	rest, closed := strings.CutSuffix(c.Message[i+len(suffixBegins):], suffixEnds)
	cause, grace, both := strings.Cut(strings.TrimPrefix(rest, suffixCause), suffixGrace)
	if !closed || !both || len(rest) > maxSuffix || !strings.HasPrefix(rest, suffixCause) {
		return Request{}, fmt.Errorf("pod %s/%s is marked for eviction with %.100q: not of the form %q",
			pod.Namespace, pod.Name, c.Message[i:], suffixBegins+suffixCause+"…"+suffixGrace+"…"+suffixEnds)
	}
	r := Request{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Cause: cause, Since: c.LastTransitionTime.UTC()}
	var err error
	if r.GracePeriodSeconds, err = parseGrace(grace); err == nil {
		err = r.check()
	}
	if err != nil {
		return Request{}, fmt.Errorf("the mark for eviction of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return r, nil
}
