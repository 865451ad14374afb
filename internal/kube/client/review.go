package client

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// Review returns a function that reviews a bearer token at the API server: whether it is valid, and
// whether its user may get a non-resource path. The function makes at most two requests and stores
// nothing. It returns an error if the API server refuses, or does not respond before ctx ends.
func Review(client api.Interface) func(ctx context.Context, token, path string) (authenticated, allowed bool, err error) {
	return func(ctx context.Context, token, path string) (authenticated, allowed bool, err error) {
		review, err := client.TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token},
		}, metav1.CreateOptions{})
		if err != nil {
			return false, false, fmt.Errorf("review a token: %w", err)
		}
		if !review.Status.Authenticated {
			return false, false, nil
		}
		user := review.Status.User
		extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
		for key, values := range user.Extra {
			extra[key] = authorizationv1.ExtraValue(values)
		}
		right, err := client.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return true, false, fmt.Errorf("review the rights of %s: %w", user.Username, err)
		}
		return true, right.Status.Allowed && !right.Status.Denied, nil
	}
}
