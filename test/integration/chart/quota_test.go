package chart_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestQuota_AdmitsEveryPod covers GKE, which admits pods of critical classes outside of
// kube-system only if a ResourceQuota names the class. The release's quota is created after the
// Job that checks the configuration, which has a quota of its own.
func TestQuota_AdmitsEveryPod(t *testing.T) {
	helm := needTool(t, "helm")
	for _, c := range []struct {
		values  []string
		classes []string
	}{
		{nil, []string{"system-cluster-critical", "system-node-critical"}},
		{[]string{`fullnameOverride="mark"`}, []string{"system-cluster-critical", "system-node-critical"}},
		{[]string{`controller.enabled=false`, `configCheck.enabled=false`}, []string{"system-cluster-critical", "system-node-critical"}},
		{[]string{`agent.priorityClassName="nodes"`, `controller.priorityClassName="nodes"`}, []string{"nodes"}},
		{[]string{`agent.priorityClassName=""`}, []string{"system-cluster-critical"}},
	} {
		all := helm.made(t, c.values...)
		quotas := map[string]*corev1.ResourceQuota{}
		for name, o := range all {
			if q, is := o.(*corev1.ResourceQuota); is {
				quotas[name] = q
				checkQuota(t, q, c.classes)
			}
		}
		for name, o := range all {
			class, hook := classOf(o)
			if class == "" {
				continue
			}
			if !slices.ContainsFunc(slices.Collect(maps.Values(quotas)), func(q *corev1.ResourceQuota) bool { return isThereFor(q, hook) }) {
				t.Errorf("%v: no ResourceQuota is there for the pods of %s with %s", c.values, name, class)
			}
		}
	}
	for _, values := range [][]string{{`resourceQuota.enabled=false`}, {`agent.priorityClassName=""`, `controller.priorityClassName=""`}} {
		for name := range helm.made(t, values...) {
			if strings.HasPrefix(name, "ResourceQuota/") {
				t.Errorf("%v: there is %s", values, name)
			}
		}
	}
}

// checkQuota checks that a quota names the classes, with a number of pods beyond any cluster's.
func checkQuota(t *testing.T, q *corev1.ResourceQuota, classes []string) {
	t.Helper()
	if pods := q.Spec.Hard.Pods(); len(q.Spec.Hard) != 1 || pods.Value() < 100_000 {
		t.Errorf("%s limits %v", q.Name, q.Spec.Hard)
	}
	scopes := q.Spec.ScopeSelector.MatchExpressions
	if len(scopes) != 1 || scopes[0].ScopeName != corev1.ResourceQuotaScopePriorityClass || scopes[0].Operator != corev1.ScopeSelectorOpIn {
		t.Errorf("%s is for %+v", q.Name, scopes)
		return
	}
	if diff := cmp.Diff(classes, slices.Sorted(slices.Values(scopes[0].Values))); diff != "" {
		t.Errorf("%s: classes (-want +got):\n%s", q.Name, diff)
	}
}

// classOf returns the priority class of an object's pods, and the Helm hook that creates it.
func classOf(o runtime.Object) (class, hook string) {
	const annotation = "helm.sh/hook"
	switch o := o.(type) {
	case *appsv1.DaemonSet:
		return o.Spec.Template.Spec.PriorityClassName, o.Annotations[annotation]
	case *appsv1.Deployment:
		return o.Spec.Template.Spec.PriorityClassName, o.Annotations[annotation]
	case *batchv1.Job:
		return o.Spec.Template.Spec.PriorityClassName, o.Annotations[annotation]
	}
	return "", ""
}

// isThereFor reports whether a quota exists when a hook's pods start. Without a hook, and
// before an uninstallation, that of the release does. Before an installation, only one of the
// same hook with a lower weight does.
func isThereFor(q *corev1.ResourceQuota, hook string) bool {
	of := q.Annotations["helm.sh/hook"]
	if !strings.Contains(hook, "pre-install") {
		return of == ""
	}
	weight, err := strconv.Atoi(q.Annotations["helm.sh/hook-weight"])
	return of == hook && err == nil && weight < 0 && strings.Contains(q.Annotations["helm.sh/hook-delete-policy"], "hook-succeeded")
}
