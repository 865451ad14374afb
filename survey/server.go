package survey

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/cri"
	"plimsoll.dev/plimsoll/doctor"
)

// runtime asks the container runtime who it is.
func (o *NodeOptions) runtime(ctx context.Context) doctor.Fact[doctor.Runtime] {
	if o.Runtime == nil {
		return doctor.Known(doctor.Runtime{Fault: o.RuntimeFault})
	}
	if _, err := o.Runtime.Version(ctx); err != nil {
		return doctor.Known(doctor.Runtime{Fault: err.Error(), Old: errors.Is(err, cri.ErrUnimplemented)})
	}
	return doctor.Known(doctor.Runtime{})
}

// server asks the API server, all questions at once.
func (o *NodeOptions) server(ctx context.Context, s *doctor.Server, crew *sync.WaitGroup) {
	crew.Go(func() { s.Ahead = ahead(ctx, o.Client, o.Now) })
	crew.Go(func() { s.Denied = o.denied(ctx) })
	crew.Go(func() {
		node, err := o.Client.CoreV1().Nodes().Get(ctx, o.NodeName, metav1.GetOptions{})
		if err != nil {
			s.KubeletVersion = doctor.Unknown[string](err.Error())
			return
		}
		s.KubeletVersion = doctor.Known(node.Status.NodeInfo.KubeletVersion)
	})
	crew.Go(func() { s.Images = o.images(ctx) })
}

// ahead compares the clock here with that of the server by the header of an answer,
// which has whole seconds: half of one is the best guess of what is cut off.
func ahead(ctx context.Context, client kubernetes.Interface, now func() time.Time) doctor.Fact[time.Duration] {
	fail := func(err error) doctor.Fact[time.Duration] { return doctor.Unknown[time.Duration](err.Error()) }
	asking, is := client.CoreV1().RESTClient().(*rest.RESTClient)
	if !is {
		return fail(errors.New("the client has no connection of its own"))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, asking.Get().AbsPath("/version").URL().String(), nil)
	if err != nil {
		return fail(err)
	}
	begun := now()
	answer, err := asking.Client.Do(request)
	if err != nil {
		return fail(err)
	}
	ended := now()
	_ = answer.Body.Close()
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return fail(fmt.Errorf("the server's answer has no time in its header Date: %w", err))
	}
	middle := begun.Add(ended.Sub(begun) / 2)
	return doctor.Known(middle.Sub(date.Add(time.Second / 2)))
}

// atOnce bounds how many questions about rights are under way.
const atOnce = 8

// denied asks for each right whether it is there.
func (o *NodeOptions) denied(ctx context.Context) doctor.Fact[[]doctor.Right] {
	answers, errs := make([]bool, len(o.Rights)), make([]error, len(o.Rights))
	turn := make(chan struct{}, atOnce)
	var crew sync.WaitGroup
	for i, r := range o.Rights {
		turn <- struct{}{}
		crew.Go(func() {
			defer func() { <-turn }()
			answers[i], errs[i] = may(ctx, o.Client, r)
		})
	}
	crew.Wait()
	if err := errors.Join(errs...); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return doctor.Unknown[[]doctor.Right](first)
	}
	denied := []doctor.Right{}
	for i, r := range o.Rights {
		if !answers[i] {
			denied = append(denied, r)
		}
	}
	return doctor.Known(denied)
}

func may(ctx context.Context, client kubernetes.Interface, r doctor.Right) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name},
	}}
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask for the right to %s: %w", r, err)
	}
	return answer.Status.Allowed, nil
}

// images are those of the node's pods that reach beyond themselves. What another
// one's image is called, who made it could choose.
func (o *NodeOptions) images(ctx context.Context) doctor.Fact[[]string] {
	pods, err := o.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + o.NodeName, ResourceVersion: "0"})
	if err != nil {
		return doctor.Unknown[[]string](err.Error())
	}
	found := []string{}
	for i := range pods.Items {
		spec := &pods.Items[i].Spec
		if !reachesTheHost(spec) {
			continue
		}
		for _, c := range spec.Containers {
			if !slices.Contains(found, c.Image) {
				found = append(found, c.Image)
			}
		}
	}
	return doctor.Known(found)
}

// reachesTheHost reports whether a pod has what pod security standards keep from
// those that are not trusted: every program that looks after a node has.
func reachesTheHost(spec *corev1.PodSpec) bool {
	return spec.HostPID || spec.HostNetwork || spec.HostIPC ||
		slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }) ||
		slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
			return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
		})
}
