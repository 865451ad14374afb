package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Grant applies a file with roles and bindings as the administrator, and waits until the authorizer knows them: it
// learns of each kind from a watch of its own. A program that starts before is refused what it may do. Returns an error
// if the file can not be applied or ctx ends first.
func (c *Cluster) Grant(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	reviews, err := reviewsOf(text)
	if err != nil {
		return fmt.Errorf("read the rights in %s: %w", file, err)
	}
	if _, err := c.Kubectl(ctx, "apply", "-f", file); err != nil {
		return err
	}
	clients, err := c.Clients()
	if err != nil {
		return err
	}
	for _, r := range reviews {
		err := await(ctx, func(ctx context.Context) error {
			answer, err := clients.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: r}, metav1.CreateOptions{})
			if err == nil && !answer.Status.Allowed {
				err = fmt.Errorf("%s may not yet %+v", r.User, r.ResourceAttributes)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("wait for the rights in %s: %w", file, err)
		}
	}
	return nil
}

// grantObject is a role or a binding.
type grantObject struct {
	Kind              string
	metav1.ObjectMeta `json:"metadata"`
	Rules             []rbacv1.PolicyRule
	RoleRef           rbacv1.RoleRef
	Subjects          []rbacv1.Subject
}

// reviewsOf returns one request of every rule of resources, for each account with a binding in the same file.
func reviewsOf(text []byte) (all []authorizationv1.SubjectAccessReviewSpec, err error) {
	roles := map[string][]rbacv1.PolicyRule{} // by kind, namespace and name
	var bindings []grantObject
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var o grantObject
		if err := yaml.Unmarshal(part, &o); err != nil {
			return nil, err
		}
		if len(o.Subjects) > 0 {
			bindings = append(bindings, o)
		} else {
			roles[o.Kind+"/"+o.Namespace+"/"+o.Name] = o.Rules
		}
	}
	for _, b := range bindings {
		place := b.Namespace
		if b.RoleRef.Kind == "ClusterRole" {
			place = ""
		}
		for _, rule := range roles[b.RoleRef.Kind+"/"+place+"/"+b.RoleRef.Name] {
			if len(rule.Resources) == 0 {
				continue
			}
			attributes := authorizationv1.ResourceAttributes{Namespace: b.Namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0]}
			attributes.Resource, attributes.Subresource, _ = strings.Cut(rule.Resources[0], "/")
			if len(rule.ResourceNames) > 0 {
				attributes.Name = rule.ResourceNames[0]
			}
			for _, s := range b.Subjects {
				all = append(all, authorizationv1.SubjectAccessReviewSpec{
					User: "system:serviceaccount:" + s.Namespace + ":" + s.Name, ResourceAttributes: &attributes,
				})
			}
		}
	}
	return all, nil
}
