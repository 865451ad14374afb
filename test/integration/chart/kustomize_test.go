package chart_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var kustomize = filepath.Join(deploy, "kustomize")

// madeFiles are the files below deploy/kustomize generated from the chart: from which templates
// (default all) and with which values.
var madeFiles = map[string]struct{ templates, values []string }{
	"base/plimsoll.yaml": {},
	"components/kubelet-keeps-conditions/policy.yaml": {[]string{"policies"}, []string{
		`policies={"kubeletKeepsConditions":true,"evictedKeepsReason":false,"evictedStaysEvicted":false,"agentOwnNode":false}`, mutating}},
	"components/evicted-keeps-reason/policy.yaml": {[]string{"policies"}, []string{
		`policies={"evictedKeepsReason":true,"evictedStaysEvicted":false,"agentOwnNode":false}`, mutating}},
	"components/prometheus/monitors.yaml": {[]string{"metrics"}, []string{`metrics.serviceMonitor.enabled=true`,
		"--api-versions=monitoring.coreos.com/v1/ServiceMonitor"}},
	"components/prometheus/alerts.yaml": {[]string{"alerts"}, []string{`metrics.rules.enabled=true`,
		"--api-versions=monitoring.coreos.com/v1/PrometheusRule"}},
}

const madeHere = "# Made from the chart by make manifests: do not edit.\n"

func TestGeneratedKustomize_IsUpToDate(t *testing.T) {
	helm := needTool(t, "helm")
	for file, c := range madeFiles {
		values := append([]string{"--no-hooks"}, c.values...)
		for _, name := range c.templates {
			values = append(values, "--show-only=templates/"+name+".yaml")
		}
		manifest, err := helm.template(t, values...)
		if err != nil {
			t.Fatal(err)
		}
		agrees(t, filepath.Join(kustomize, file), madeHere+ofHelm.ReplaceAllLiteralString(manifest, ""))
	}
}

// ofHelm matches a label without meaning here.
var ofHelm = regexp.MustCompile(`(?m)^ *helm\.sh/chart: .*\n`)

// built returns the output of a kustomization.
func built(t *testing.T, dir string) map[string]runtime.Object {
	t.Helper()
	return objects(t, needTool(t, "kubectl").must(t, "kustomize", filepath.Join(kustomize, dir)))
}

// TestKustomizations_EqualChart checks that the base is the chart's output with a namespace, and that
// every overlay adds the feature in its name.
func TestKustomizations_EqualChart(t *testing.T) {
	base := built(t, "base")
	chart := needTool(t, "helm").made(t, "--no-hooks")
	for _, o := range chart {
		withoutChart(o)
	}
	if added := len(base) - len(chart); added != 1 || base["Namespace/"+namespace] == nil {
		t.Errorf("the base has %d objects more than the chart, want a namespace", added)
	}
	for name, o := range chart {
		if diff := cmp.Diff(o, base[name], unfolded); diff != "" {
			t.Errorf("%s (-chart +base):\n%s", name, diff)
		}
	}
	if setting := find[*corev1.ConfigMap](t, built(t, "overlays/armed"), "ConfigMap/plimsoll-arming").Data["all"]; setting != "armed" {
		t.Errorf("overlays/armed has the setting %q, want armed", setting)
	}
	for overlay, names := range map[string][]string{
		"overlays/kubelet-keeps-conditions": {"MutatingAdmissionPolicy/plimsoll-kubelet-keeps-conditions", "MutatingAdmissionPolicyBinding/plimsoll-kubelet-keeps-conditions"},
		"overlays/evicted-keeps-reason":     {"MutatingAdmissionPolicy/plimsoll-evicted-keeps-reason", "MutatingAdmissionPolicyBinding/plimsoll-evicted-keeps-reason"},
		"overlays/prometheus":               {"PrometheusRule/plimsoll", "Service/plimsoll-agent", "Service/plimsoll-controller", "ServiceMonitor/plimsoll-agent", "ServiceMonitor/plimsoll-controller"},
	} {
		all := built(t, overlay)
		maps.DeleteFunc(all, func(name string, _ runtime.Object) bool { return base[name] != nil })
		if diff := cmp.Diff(names, slices.Sorted(maps.Keys(all))); diff != "" {
			t.Errorf("%s adds (-want +got):\n%s", overlay, diff)
		}
	}
}

// customized matches documented samples of a kustomization with another image.
var customized = regexp.MustCompile("(?s)```yaml\n(apiVersion: kustomize[^`]*?\nimages:\n[^`]*?)```")

// TestKustomize_DocumentedImageOverride checks the documented sample: every pod gets the image
// of the user's registry, with the tag of the base.
func TestKustomize_DocumentedImageOverride(t *testing.T) {
	for _, file := range []string{filepath.Join(docs, "how-to", "install.md"), filepath.Join(kustomize, "README.md")} {
		found := customized.FindStringSubmatch(text(t, file))
		if found == nil {
			t.Errorf("%s has no sample of a kustomization with images", file)
			continue
		}
		dir := t.TempDir()
		base, err := filepath.Abs(kustomize)
		if err != nil {
			t.Fatal(err)
		}
		if base, err = filepath.Rel(dir, base); err != nil {
			t.Fatal(err)
		}
		sample := regexp.MustCompile(`(github\.com/…/)?deploy/kustomize`).ReplaceAllLiteralString(found[1], base)
		if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(sample), 0o600); err != nil {
			t.Fatal(err)
		}
		manifest := needTool(t, "kubectl").must(t, "kustomize", dir)
		images := regexp.MustCompile(`(?m)^ +image: (.*)$`).FindAllStringSubmatch(manifest, -1)
		if len(images) != 2 {
			t.Errorf("%s: images %q, want those of agent and controller", file, images)
		}
		for _, i := range images {
			if !strings.HasPrefix(i[1], "registry.example/plimsoll:") {
				t.Errorf("%s: a pod has the image %s", file, i[1])
			}
		}
	}
}

// unfolded compares texts by their words, because kustomize writes empty lines between the
// lines of an expression.
var unfolded = cmp.Comparer(func(a, b string) bool { return slices.Equal(strings.Fields(a), strings.Fields(b)) })

// withoutChart removes Helm's label from an object.
func withoutChart(o runtime.Object) {
	if labelled, ok := o.(interface{ GetLabels() map[string]string }); ok {
		delete(labelled.GetLabels(), "helm.sh/chart")
	}
}
