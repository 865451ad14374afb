package podstatus

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
)

// Soft is a way of a soft eviction: pods are asked to go, and budgets count.
type Soft interface {
	// Request asks that the pod be evicted with a grace period in seconds, at
	// least 1. It may be repeated, to ask again after a refusal; the notice must
	// stay the same. An error means that nobody was asked.
	Request(ctx context.Context, n Notice, grace int64) (Answer, error)
	// Withdraw takes the request back, because the threshold is not met any more
	// or a hard one has ended the pod. What is under way goes on. That the pod is
	// gone is no error.
	Withdraw(ctx context.Context, n Notice) error
}

// An Answer is what a request for a soft eviction came to.
type Answer struct {
	Outcome Outcome
	// Message says why it was refused, in the server's words.
	Message string
	// RetryAfter is when the server wants to be asked again, 0 if it did not say.
	RetryAfter time.Duration
}

// An Outcome is one of the following.
type Outcome uint8

const (
	// Asked: the request stands; somebody else will act on it.
	Asked Outcome = iota
	// Evicting: the pod is being deleted, with its grace period.
	Evicting
	// Refused: a PodDisruptionBudget does not allow it now.
	Refused
	// Gone: the pod does not exist any more.
	Gone
)

var outcomes = [...]string{Asked: "asked", Evicting: "evicting", Refused: "refused", Gone: "gone"}

func (o Outcome) String() string {
	if int(o) < len(outcomes) {
		return outcomes[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// DefaultWay marks the agent's own pod: no policy can bind the Eviction
// subresource to a node, but rights on a pod's status can be.
const DefaultWay = "status"

// A way is one line of the table of soft evictions.
type way struct {
	name string
	what string
	make func(client kubernetes.Interface, publish func([]Request)) Soft
}

var ways = []way{
	{"status", "a condition on the pod's status; plimsoll controller evicts",
		func(client kubernetes.Interface, _ func([]Request)) Soft { return &mark{client} }},
	{"direct", "policy/v1 Eviction by the agent itself; needs create on pods/eviction of the whole cluster",
		func(client kubernetes.Interface, _ func([]Request)) Soft { return &direct{client} }},
	{"controller", "a request in the agent's own Lease, nothing on the pod; plimsoll controller evicts",
		func(_ kubernetes.Interface, publish func([]Request)) Soft { return &petition{publish: publish} }},
}

// Ways are the names of the ways, the default first, and what each does.
func Ways() (names, what []string) {
	for _, w := range ways {
		names, what = append(names, w.name), append(what, w.what)
	}
	return names, what
}

// NewSoft makes the way of that name. publish, which must not wait, is handed
// all requests that stand whenever they change; only "controller" calls it.
func NewSoft(name string, client kubernetes.Interface, publish func([]Request)) (Soft, error) {
	for _, w := range ways {
		if w.name == name {
			return w.make(client, publish), nil
		}
	}
	names, _ := Ways()
	return nil, fmt.Errorf("soft evictions by %q: no such way; use one of %s", name, strings.Join(names, ", "))
}
