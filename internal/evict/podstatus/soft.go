package podstatus

import (
	"context"
	"fmt"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Soft is a way of soft evictions: a request, subject to budgets.
type Soft interface {
	// Request requests the eviction of the pod with a grace period in seconds, at least 1. It may
	// be repeated after a refusal, with the same notice. Returns an error if the request was not
	// delivered.
	Request(ctx context.Context, n Notice, grace int64) (Answer, error)
	// Withdraw withdraws the request, because the threshold is not met any more or a hard one has
	// ended the pod. A deletion in progress continues. Returns an error if the request could not be
	// withdrawn; a pod that is gone is no error.
	Withdraw(ctx context.Context, n Notice) error
}

// Answer is the result of a request for a soft eviction.
type Answer struct {
	Outcome Outcome
	// Message is the server's reason of a refusal.
	Message string
	// RetryAfter is the pause that the server requests, 0 if it requests none.
	RetryAfter time.Duration
}

// Outcome is the class of an answer.
type Outcome uint8

const (
	// Asked: the request is stored; the controller carries it out.
	Asked Outcome = iota
	// Evicting: the pod is being deleted, with its grace period.
	Evicting
	// Refused: the server does not accept this request now, mostly for a PodDisruptionBudget.
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

// DefaultWay sets a condition on the agent's own pods: no policy can bind the Eviction subresource
// to a node, but the right to patch a pod's status can be bound.
const DefaultWay = "status"

// way is one line of the table of soft evictions.
type way struct {
	name string
	what string
	make func(client api.Interface) Soft
}

var ways = []way{
	{"status", "a condition on the pod's status; plimsoll controller evicts",
		func(client api.Interface) Soft { return &mark{client} }},
	{"direct", "policy/v1 Eviction by the agent itself; needs create on pods/eviction of the whole cluster",
		func(client api.Interface) Soft { return &direct{client} }},
}

// Ways returns the names of the ways, the default first, and the effect of each.
func Ways() (names, what []string) {
	for _, w := range ways {
		names, what = append(names, w.name), append(what, w.what)
	}
	return names, what
}

// NewSoft returns the way with that name. Returns an error for an unknown name.
func NewSoft(name string, client api.Interface) (Soft, error) {
	for _, w := range ways {
		if w.name == name {
			return w.make(client), nil
		}
	}
	names, _ := Ways()
	return nil, fmt.Errorf("soft evictions by %q: no such way; use one of %s", name, strings.Join(names, ", "))
}
