package agentpods

import (
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Annotations by which a pod chooses whether and when it is evicted.
const (
	PolicyAnnotation   = "plimsoll.dev/eviction-policy"
	PriorityAnnotation = "plimsoll.dev/eviction-priority"
)

// maxEvictionPriority bounds the absolute value of PriorityAnnotation.
const maxEvictionPriority = 1000

// Choices contain the namespaces that the operator protects, and those with effective annotations. A
// pod that could protect itself anywhere would shift evictions onto other pods. Choices are safe
// for concurrent use; nil ones choose nothing.
type Choices struct {
	protected, trusted map[string]bool
	report             func(problem error)
	own                string // UID of the agent's pod; empty: not known

	mu       sync.Mutex
	reported map[string]bool
}

// NewChoices returns choices that protect the pods of the protected namespaces, and apply the
// annotations of pods in the trusted ones; * means all. An invalid value is ignored and reported to
// report once.
func NewChoices(protected, trusted []string, report func(problem error)) *Choices {
	return &Choices{protected: setOf(protected), trusted: setOf(trusted), report: report, reported: map[string]bool{}}
}

// Exclude protects the agent's own pod, by UID, whatever its priority and namespace. It must be
// called before the conversion of any pod.
func (c *Choices) Exclude(own string) { c.own = own }

func setOf(names []string) map[string]bool {
	set := map[string]bool{}
	for _, n := range names {
		set[n] = true
	}
	return set
}

// Apply sets the protection and priority of a newly converted pod. A protection by the pod's kind
// or priority class remains.
func (c *Choices) Apply(pod *signals.Pod, annotations map[string]string) {
	switch {
	case c == nil || pod.Protection != signals.Unprotected:
		return
	case c.own != "" && pod.UID == c.own:
		pod.Protection = signals.Own
		return
	case c.protected[pod.Namespace]:
		pod.Protection = signals.Namespaced
		return
	case !c.trusts(pod.Namespace):
		return
	}
	if text, given := annotations[PolicyAnnotation]; given {
		switch text {
		case "never":
			pod.Protection = signals.OptedOut
		case "last":
			pod.Last = true
		case "default":
		default:
			c.problem(pod, PolicyAnnotation, text, "use never, last or default")
		}
	}
	if text, given := annotations[PriorityAnnotation]; given {
		n, err := strconv.ParseInt(text, 10, 16)
		if err != nil || n < -maxEvictionPriority || n > maxEvictionPriority {
			c.problem(pod, PriorityAnnotation, text, "use a whole number from -1000 to 1000")
			return
		}
		pod.EvictionPriority = int16(n)
	}
}

// Renew applies the current choices to pods that were stored under earlier ones, as far as possible
// without their annotations. The pods are copies.
func (c *Choices) Renew(known []signals.Pod) []signals.Pod {
	renewed := make([]signals.Pod, len(known))
	for i, pod := range known {
		if pod.Protection == signals.Namespaced || pod.Protection == signals.Own || pod.Protection == signals.OptedOut && !c.trusts(pod.Namespace) {
			pod.Protection = signals.Unprotected
		}
		if !c.trusts(pod.Namespace) {
			pod.Last, pod.EvictionPriority = false, 0
		}
		c.Apply(&pod, nil)
		renewed[i] = pod
	}
	return renewed
}

func (c *Choices) trusts(namespace string) bool {
	return c != nil && (c.trusted[signals.EveryNamespace] || c.trusted[namespace])
}

// maxReported bounds the stored number of reported problems.
const maxReported = 1000

func (c *Choices) problem(pod *signals.Pod, annotation, text, remedy string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprintf("%.130s %s %.100s", pod.UID, annotation, text)
	if c.reported[key] {
		return
	}
	if len(c.reported) >= maxReported {
		clear(c.reported)
	}
	c.reported[key] = true
	c.report(fmt.Errorf("pod %.320q (UID %.130q): the annotation %s: %.100q can not be read and does not count: %s", pod.Key(), pod.UID, annotation, text, remedy))
}

// maxOwner is the maximum length of an owner's UID, in bytes; an API server's have 36.
const maxOwner = 128

// ownerOf identifies the creator of a replacement for this pod: its controller. If that is the
// node, or there is none, the result is the pod's own name.
func ownerOf(pod *corev1.Pod, namespace string) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind != "Node" && owner.UID != "" && len(owner.UID) <= maxOwner {
		return string(owner.UID)
	}
	return namespace + "/" + pod.Name
}
