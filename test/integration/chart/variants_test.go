package chart_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/restmapper"
)

// everyVariant checks every variant of the chart and of kustomize against the server: each
// field is known, and each value valid. Nothing is stored but the namespaces of a variant.
func (s *server) everyVariant(t *testing.T) {
	groups, err := restmapper.GetAPIGroupResources(s.finder)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	try := func(t *testing.T, all map[string]runtime.Object) {
		t.Helper()
		for _, o := range all {
			if n, is := o.(*corev1.Namespace); is {
				if err := s.cluster.Namespace(t.Context(), n.Name); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, o := range all {
			if _, foreign := o.(*unstructured.Unstructured); foreign { // this server does not have the kind
				continue
			}
			if err := s.accepts(t.Context(), mapper, o); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	helm := needTool(t, "helm")
	for name, values := range variants {
		t.Run(name, func(t *testing.T) { try(t, helm.made(t, values...)) })
	}
	for _, dir := range []string{"base", "overlays/armed", "overlays/kubelet-keeps-conditions", "overlays/evicted-keeps-reason", "overlays/prometheus"} {
		t.Run("kustomize "+dir, func(t *testing.T) { try(t, built(t, dir)) })
	}
}

// accepts performs a dry-run apply of an object. Returns the server's error.
func (s *server) accepts(ctx context.Context, mapper meta.RESTMapper, o runtime.Object) error {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return err
	}
	found, err := mapper.RESTMapping(kinds[0].GroupKind(), kinds[0].Version)
	if err != nil {
		return fmt.Errorf("the server does not have it: %w", err)
	}
	described, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var client dynamic.ResourceInterface = s.objects.Resource(found.Resource)
	if found.Scope.Name() == meta.RESTScopeNameNamespace {
		if described.GetNamespace() == "" {
			return errors.New("it has no namespace: kubectl would use the current one")
		}
		client = s.objects.Resource(found.Resource).Namespace(described.GetNamespace())
	}
	force := true
	_, err = client.Patch(ctx, described.GetName(), types.ApplyPatchType, text, metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, Force: &force, FieldManager: "test", FieldValidation: metav1.FieldValidationStrict})
	return err
}
