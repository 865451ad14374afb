package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/kube/reflector"
	"plimsoll.dev/plimsoll/internal/kube/slimpods"
)

// runtime requests the version of the container runtime.
func (o *NodeOptions) runtime(ctx context.Context) doctor.Fact[doctor.Runtime] {
	if o.Runtime == nil {
		return doctor.Known(doctor.Runtime{Fault: o.RuntimeFault})
	}
	if _, err := o.Runtime.Version(ctx); err != nil {
		return doctor.Known(doctor.Runtime{Fault: err.Error(), Old: errors.Is(err, cri.ErrUnimplemented)})
	}
	return doctor.Known(doctor.Runtime{})
}

// server makes all requests to the API server concurrently.
func (o *NodeOptions) server(ctx context.Context, s *doctor.Server, group *sync.WaitGroup) {
	group.Go(func() { s.Ahead = doctor.Read(api.ClockAhead(ctx, o.Client, o.Now)) })
	group.Go(func() { s.Denied = o.denied(ctx) })
	group.Go(func() {
		node, err := o.Client.Nodes().Get(ctx, o.NodeName, metav1.GetOptions{})
		if err != nil {
			s.KubeletVersion = doctor.Unknown[string](err.Error())
			return
		}
		s.KubeletVersion = doctor.Known(node.Status.NodeInfo.KubeletVersion)
	})
	group.Go(func() { s.Images = o.images(ctx) })
}

// atOnce bounds the number of concurrent reviews of rights.
const atOnce = 8

// denied checks each right and returns the missing ones.
func (o *NodeOptions) denied(ctx context.Context) doctor.Fact[[]doctor.Right] {
	answers, errs := make([]bool, len(o.Rights)), make([]error, len(o.Rights))
	slots := make(chan struct{}, atOnce)
	var group sync.WaitGroup
	for i, r := range o.Rights {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			answers[i], errs[i] = may(ctx, o.Client, r)
		})
	}
	group.Wait()
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

func may(ctx context.Context, client api.Interface, r doctor.Right) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name},
	}}
	answer, err := client.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("check the right to %s: %w", r, err)
	}
	return answer.Status.Allowed, nil
}

// maxImages bounds the stored images of a node.
const maxImages = 1000

// images returns the images of the node's pods with access to the node itself. The name of any
// other pod's image can be chosen by anyone. The pods are read one by one.
func (o *NodeOptions) images(ctx context.Context) doctor.Fact[[]string] {
	if o.Images != nil {
		images, err := o.Images(ctx)
		if err != nil {
			return doctor.Unknown[[]string](err.Error())
		}
		return doctor.Known(images)
	}
	found := []string{}
	list := metav1.ListOptions{FieldSelector: "spec.nodeName=" + o.NodeName + ",status.phase!=Succeeded,status.phase!=Failed", ResourceVersion: "0"}
	request := reflector.Requests(o.Client.Core(), "pods", metav1.NamespaceAll)()
	_, err := reflector.Each(ctx, request.VersionedParams(&list, api.ParameterCodec), &slimpods.Pod{}, func(object runtime.Object) error {
		spec := &object.(*slimpods.Pod).Spec
		if !agentpods.ReachesHost(spec) {
			return nil
		}
		for i := range spec.Containers {
			if image := spec.Containers[i].Image; len(found) < maxImages && !slices.Contains(found, image) {
				found = append(found, image)
			}
		}
		return nil
	})
	if err != nil {
		return doctor.Unknown[[]string](err.Error())
	}
	return doctor.Known(found)
}
