package agentpods

import (
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Annotations by which a pod says of its own eviction whether and when.
const (
	PolicyAnnotation   = "plimsoll.dev/eviction-policy"
	PriorityAnnotation = "plimsoll.dev/eviction-priority"
)

// maxEvictionPriority bounds what PriorityAnnotation may say, either way.
const maxEvictionPriority = 1000

// Choices are who is spared by the operator's will, and whose own will counts: a
// pod that could protect itself anywhere would have others die for it. Any
// goroutine may use them; nil ones choose nothing.
type Choices struct {
	protected, heard map[string]bool
	tell             func(problem error)
	own              string // UID of the agent's pod; empty: not known

	mu   sync.Mutex
	told map[string]bool
}

// NewChoices spares the pods of the protected namespaces, and lets the
// annotations of pods in the heard ones count; * is all. A value that can not be
// read counts as none, and tell is told of it once.
func NewChoices(protected, heard []string, tell func(problem error)) *Choices {
	return &Choices{protected: setOf(protected), heard: setOf(heard), tell: tell, told: map[string]bool{}}
}

// Exclude protects the pod of that UID, in which the agent runs, whatever its
// priority and its namespace. To be called before any pod is converted.
func (c *Choices) Exclude(own string) { c.own = own }

func setOf(names []string) map[string]bool {
	set := map[string]bool{}
	for _, n := range names {
		set[n] = true
	}
	return set
}

// Apply gives a pod, which has none yet, what it is entitled to. What protects it
// without anybody's choice stays.
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
	case !c.hears(pod.Namespace):
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

// Renew gives pods that were known before, under choices that may have been
// others, what is left without their annotations. The pods are copies.
func (c *Choices) Renew(known []signals.Pod) []signals.Pod {
	renewed := make([]signals.Pod, len(known))
	for i, pod := range known {
		if pod.Protection == signals.Namespaced || pod.Protection == signals.Own || pod.Protection == signals.OptedOut && !c.hears(pod.Namespace) {
			pod.Protection = signals.Unprotected
		}
		if !c.hears(pod.Namespace) {
			pod.Last, pod.EvictionPriority = false, 0
		}
		c.Apply(&pod, nil)
		renewed[i] = pod
	}
	return renewed
}

func (c *Choices) hears(namespace string) bool {
	return c != nil && (c.heard[signals.EveryNamespace] || c.heard[namespace])
}

// maxTold bounds what is remembered of problems that were told.
const maxTold = 1000

func (c *Choices) problem(pod *signals.Pod, annotation, text, remedy string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := pod.UID + annotation + text
	if c.told[key] {
		return
	}
	if len(c.told) >= maxTold {
		clear(c.told)
	}
	c.told[key] = true
	c.tell(fmt.Errorf("pod %.320q (UID %.130q): the annotation %s: %.100q can not be read and does not count: %s", pod.Key(), pod.UID, annotation, text, remedy))
}

// maxOwner is the length of the longest UID of an owner that is kept, in bytes; those
// of an API server have 36.
const maxOwner = 128

// ownerOf names who makes a new pod in place of this one: its controller, or who
// wrote its name, where that is the node or nobody.
func ownerOf(pod *corev1.Pod, namespace string) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind != "Node" && owner.UID != "" && len(owner.UID) <= maxOwner {
		return string(owner.UID)
	}
	return namespace + "/" + pod.Name
}
