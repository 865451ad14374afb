package agentexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Selector are the labels of the agents' pods, and container is their container. Charts and manifests set both.
const (
	Selector  = "app.kubernetes.io/name=plimsoll,app.kubernetes.io/component=agent"
	container = "agent"
	// program is the path in the image.
	program = "/plimsoll"
)

// ErrNone is in the error for a node without an agent.
var ErrNone = errors.New("it has no agent")

const (
	// maxAgents bounds the pods of a node that are read.
	maxAgents = 50
	// findTime bounds the search for the agent's pod.
	findTime = 30 * time.Second
)

// Executor runs a command in a container of a pod, and writes its output. Returns an error with a method ExitStatus if the
// command failed.
type Executor interface {
	Exec(ctx context.Context, namespace, pod, container string, command []string, stdout, stderr io.Writer) error
}

// Agent is the agent of a node.
type Agent struct {
	Client    api.Interface
	Executor  Executor
	Cluster   string // for messages
	Namespace string // of the agents
	Node      string
	// Silence is the maximum time without a part of an answer; 0: the default.
	Silence time.Duration
}

// CheckNode returns an error if a text can not be the name of a node.
func CheckNode(name string) error {
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
		return fmt.Errorf("%q is no name of a node: %s", name, faults[0])
	}
	return nil
}

// find returns the name of the agent's running pod. Returns an error if there is none, or the pods can not be read.
func (a *Agent) find(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	list, err := a.Client.Pods(a.Namespace).List(ctx, metav1.ListOptions{LabelSelector: Selector, Limit: maxAgents,
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", a.Node).String()})
	switch {
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("find the agent of node %s: %w: your account needs the right to list pods in the namespace %s", a.Node, err, a.Namespace)
	case err != nil:
		return "", fmt.Errorf("find the agent of node %s in the namespace %s: %w", a.Node, a.Namespace, err)
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.Spec.NodeName != a.Node })
	if len(pods) == 0 {
		return "", fmt.Errorf("find the agent of node %s: %w: no pod there in the namespace %s of %s has the labels %s. "+
			"Check the name with kubectl plimsoll status. For agents in another namespace, give --heartbeat-namespace", a.Node, ErrNone, a.Namespace, a.Cluster, Selector)
	}
	// During an update, the old pod may still be there.
	slices.SortStableFunc(pods, func(x, y corev1.Pod) int {
		return cmp.Or(cmp.Compare(readiness(&x), readiness(&y)), -x.CreationTimestamp.Compare(y.CreationTimestamp.Time))
	})
	p := &pods[0]
	if readiness(p) == notRunning {
		return "", fmt.Errorf("use the agent of node %s: its container in the pod %s/%s does not run: %s. See kubectl -n %s describe pod %s",
			a.Node, a.Namespace, p.Name, whyNotRunning(p), a.Namespace, p.Name)
	}
	return p.Name, nil
}

// States of a pod, the best first.
const (
	ready = iota
	running
	notRunning
)

func readiness(p *corev1.Pod) int {
	for i := range p.Status.ContainerStatuses {
		switch c := &p.Status.ContainerStatuses[i]; {
		case c.Name != container || c.State.Running == nil:
		case c.Ready && p.DeletionTimestamp == nil:
			return ready
		default:
			return running
		}
	}
	return notRunning
}

// whyNotRunning returns why the container of a pod does not run.
func whyNotRunning(p *corev1.Pod) string {
	for i := range p.Status.ContainerStatuses {
		switch c := &p.Status.ContainerStatuses[i]; {
		case c.Name != container:
		case c.State.Waiting != nil:
			return "waiting, " + signals.PrintableText(cmp.Or(c.State.Waiting.Reason, "without a reason"), maxReason)
		case c.State.Terminated != nil:
			return fmt.Sprintf("it ended with exit status %d, %s", c.State.Terminated.ExitCode, signals.PrintableText(cmp.Or(c.State.Terminated.Reason, "without a reason"), maxReason))
		}
	}
	return "the pod is " + signals.PrintableText(cmp.Or(string(p.Status.Phase), "in no phase"), maxReason)
}

// maxReason bounds a reason in a pod's status.
const maxReason = 128
