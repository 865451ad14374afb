package chart_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// mutating declares that the server has the API, as a server would.
const mutating = "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"

// TestRights_EqualFiles checks that the chart has exactly the rights of deploy/rbac
// and the policies of deploy/admission. Each optional right is granted with the option that
// requires it, and with no other.
func TestRights_EqualFiles(t *testing.T) {
	helm := needTool(t, "helm")
	always := []string{"rbac/agent", "rbac/controller", "rbac/readers", "admission/evicted-stays-evicted", "admission/evicted-keeps-reason", "admission/agent-own-node"}
	for _, c := range []struct {
		option string
		file   string
	}{
		{`agent.config={}`, ""},
		{`agent.config.softEviction="direct"`, "rbac/agent-direct-eviction"},
		{`agent.config.softEviction="status"`, ""},
		{`agent.config.pressureTaint=true`, "rbac/agent-pressure-taint"},
		{`agent.config.reportNodeLease=true`, "rbac/agent-node-lease"},
		{`policies.kubeletKeepsConditions=true`, "admission/kubelet-keeps-conditions"},
	} {
		files := always
		if c.file != "" {
			files = append(slices.Clone(always), c.file)
		}
		if diff := cmp.Diff(rights(fromFiles(t, files)), rights(helm.made(t, "--no-hooks", mutating, c.option))); diff != "" {
			t.Errorf("%s (-files +chart):\n%s", c.option, diff)
		}
	}
	for policy, file := range map[string]string{
		"evictedStaysEvicted": "evicted-stays-evicted", "evictedKeepsReason": "evicted-keeps-reason", "agentOwnNode": "agent-own-node",
	} {
		without := slices.DeleteFunc(slices.Clone(always), func(f string) bool { return f == "admission/"+file })
		if diff := cmp.Diff(rights(fromFiles(t, without)), rights(helm.made(t, "--no-hooks", mutating, "policies."+policy+"=false"))); diff != "" {
			t.Errorf("without %s (-files +chart):\n%s", policy, diff)
		}
	}
}

func fromFiles(t *testing.T, files []string) map[string]runtime.Object {
	t.Helper()
	all := map[string]runtime.Object{}
	for _, file := range files {
		maps.Copy(all, objects(t, text(t, filepath.Join(deploy, file+".yaml"))))
	}
	delete(all, "Namespace/"+namespace)
	return all
}

// rights returns the objects that grant or forbid, without labels.
func rights(all map[string]runtime.Object) map[string]runtime.Object {
	some := map[string]runtime.Object{}
	for name, o := range all {
		kind, _, _ := strings.Cut(name, "/")
		if kind == "NetworkPolicy" || kind != "ServiceAccount" && !strings.Contains(kind, "Role") && !strings.Contains(kind, "Policy") {
			continue
		}
		if described, err := meta.Accessor(o); err == nil {
			described.SetLabels(nil)
		}
		some[name] = o
	}
	return some
}

// TestPolicies_WithoutMutation checks that a server without MutatingAdmissionPolicy gets the
// chart's default without the policies that require it.
func TestPolicies_WithoutMutation(t *testing.T) {
	files := []string{"rbac/agent", "rbac/controller", "rbac/readers", "admission/evicted-stays-evicted", "admission/agent-own-node"}
	if diff := cmp.Diff(rights(fromFiles(t, files)), rights(needTool(t, "helm").made(t, "--no-hooks"))); diff != "" {
		t.Errorf("(-files +chart):\n%s", diff)
	}
}

// TestPolicies_LeaderLease checks that agents may not write the controllers' leader lease,
// whatever its name.
func TestPolicies_LeaderLease(t *testing.T) {
	helm := needTool(t, "helm")
	for _, name := range []string{"plimsoll-controller", "plimsoll-leader", "lead"} {
		manifest, err := helm.template(t, `controller.config.leaderElectResourceName="`+name+`"`, "--show-only=templates/policies.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(manifest, "variables.now.metadata.name != '"+name+"'") {
			t.Errorf("with leaderElectResourceName=%s the policy excludes another lease:\n%s", name, manifest)
		}
	}
}

// TestPolicies_UseVersionOfServer checks that an API which the server has under an older version
// only is used in that version.
func TestPolicies_UseVersionOfServer(t *testing.T) {
	helm := needTool(t, "helm")
	for _, version := range []string{"v1", "v1beta1"} {
		manifest, err := helm.template(t, `policies.kubeletKeepsConditions=true`, "--show-only=templates/policies.yaml",
			"--api-versions=admissionregistration.k8s.io/"+version+"/MutatingAdmissionPolicy")
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"} {
			if !strings.Contains(manifest, "apiVersion: admissionregistration.k8s.io/"+version+"\nkind: "+kind+"\n") {
				t.Errorf("on a server with %s the chart has no %s of this version", version, kind)
			}
		}
	}
}

// TestFiles_AreAllUsed checks that every file of deploy/rbac is granted by some option.
func TestFiles_AreAllUsed(t *testing.T) {
	template := text(t, filepath.Join(chart, "templates", "rights.yaml"))
	for _, name := range names(t, filepath.Join(deploy, "rbac"), ".yaml") {
		if !strings.Contains(template, `$files "`+name+`"`) {
			t.Errorf("templates/rights.yaml does not use %s.yaml of deploy/rbac", name)
		}
	}
	values := text(t, filepath.Join(chart, "values.yaml"))
	for _, name := range names(t, filepath.Join(deploy, "admission"), ".yaml") {
		if !strings.Contains(values, "\n  "+policyName(name)+": ") {
			t.Errorf("values.yaml has no policies.%s for deploy/admission/%s.yaml", policyName(name), name)
		}
	}
}
