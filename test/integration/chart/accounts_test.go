package chart_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// everyGrant are values with every right and every policy that the chart has.
var everyGrant = []string{mutating, `policies.kubeletKeepsConditions=true`, `agent.securityContextConstraints="privileged"`,
	`agent.config={"softEviction":"direct","pressureTaint":true,"reportNodeLease":true}`,
	`metrics.readers=[{"kind":"User","name":"prometheus"}]`}

// account matches a ServiceAccount in an expression of a policy.
var account = regexp.MustCompile(`system:serviceaccount:([a-z0-9-]+:[a-z0-9.-]+)`)

// TestServiceAccount_ReachesEveryUse checks that pods, bindings and policies have the same account,
// whatever its name. With another one in a policy, agents could write to every node.
func TestServiceAccount_ReachesEveryUse(t *testing.T) {
	helm := needTool(t, "helm")
	for name, c := range map[string]struct {
		values            []string
		agent, controller string
		created           bool
	}{
		"defaults":       {nil, "plimsoll-agent", "plimsoll-controller", true},
		"another prefix": {[]string{`fullnameOverride="mark"`}, "mark-agent", "mark-controller", true},
		"names":          {[]string{`agent.serviceAccount.name="plimsoll-node"`, `controller.serviceAccount.name="lifecycle.nodes"`}, "plimsoll-node", "lifecycle.nodes", true},
		"prefix and name": {[]string{`fullnameOverride="mark"`, `agent.serviceAccount.name="plimsoll-agent"`, `controller.serviceAccount.name="plimsoll-system"`},
			"plimsoll-agent", "plimsoll-system", true},
		"accounts that exist": {[]string{`agent.serviceAccount={"create":false,"name":"nodes"}`, `controller.serviceAccount={"create":false,"name":"lifecycle"}`}, "nodes", "lifecycle", false},
	} {
		t.Run(name, func(t *testing.T) {
			manifest, err := helm.template(t, slices.Concat([]string{"--no-hooks"}, everyGrant, c.values)...)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range account.FindAllStringSubmatch(manifest, -1) {
				if found[1] != namespace+":"+c.agent {
					t.Errorf("a policy names %s, want %s", found[1], c.agent)
				}
			}
			if n := len(account.FindAllString(manifest, -1)); n != 2 {
				t.Errorf("%d policies name the account, want agent-own-node and kubelet-keeps-conditions", n)
			}
			all := objects(t, manifest)
			for name, got := range accountsOf(all) {
				want := c.agent
				if strings.Contains(name, "controller") {
					want = c.controller
				}
				if got != want {
					t.Errorf("%s has the account %s, want %s", name, got, want)
				}
			}
			var created []string
			for name := range all {
				if account, is := strings.CutPrefix(name, "ServiceAccount/"); is {
					created = append(created, account)
				}
			}
			slices.Sort(created)
			if want := []string{c.agent, c.controller}; c.created && !slices.Equal(created, sorted(want)) || !c.created && len(created) > 0 {
				t.Errorf("the chart has the accounts %q", created)
			}
		})
	}
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// accountsOf returns the account of each pod and each binding to an account, by the object's name.
func accountsOf(all map[string]runtime.Object) map[string]string {
	found := map[string]string{}
	for name, o := range all {
		var subjects []rbacv1.Subject
		switch o := o.(type) {
		case *appsv1.DaemonSet:
			found[name] = o.Spec.Template.Spec.ServiceAccountName
		case *appsv1.Deployment:
			found[name] = o.Spec.Template.Spec.ServiceAccountName
		case *rbacv1.RoleBinding:
			subjects = o.Subjects
		case *rbacv1.ClusterRoleBinding:
			subjects = o.Subjects
		}
		for _, s := range subjects {
			if s.Kind == rbacv1.ServiceAccountKind {
				found[name] = s.Name
			}
		}
	}
	return found
}

// TestServiceAccount_HasAnnotations checks that an account has its own annotations beside the common
// ones, and the other account has not.
func TestServiceAccount_HasAnnotations(t *testing.T) {
	all := needTool(t, "helm").made(t, `commonAnnotations={"owner":"sre"}`, `agent.serviceAccount.annotations={"role":"node"}`,
		`controller.serviceAccount.annotations={"owner":"control"}`)
	for name, want := range map[string]map[string]string{
		"ServiceAccount/plimsoll-agent":      {"owner": "sre", "role": "node"},
		"ServiceAccount/plimsoll-controller": {"owner": "control"},
		"ServiceAccount/plimsoll-cleanup":    {"owner": "sre", "helm.sh/hook": "pre-delete", "helm.sh/hook-weight": "-5", "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"},
	} {
		if diff := cmp.Diff(want, find[*corev1.ServiceAccount](t, all, name).Annotations); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRBAC_IsCreatedOnRequest checks that without rbac.create there is no right and no binding, but every
// other object.
func TestRBAC_IsCreatedOnRequest(t *testing.T) {
	helm := needTool(t, "helm")
	with := helm.made(t, everyGrant...)
	without := helm.made(t, append(slices.Clone(everyGrant), `rbac.create=false`)...)
	for name := range without {
		if kind, _, _ := strings.Cut(name, "/"); strings.Contains(kind, "Role") {
			t.Errorf("without rbac.create there is %s", name)
		}
	}
	maps.DeleteFunc(with, func(name string, _ runtime.Object) bool {
		kind, _, _ := strings.Cut(name, "/")
		return strings.Contains(kind, "Role") || strings.HasSuffix(name, "/plimsoll-test")
	})
	if diff := cmp.Diff(sorted(slices.Collect(maps.Keys(with))), sorted(slices.Collect(maps.Keys(without)))); diff != "" {
		t.Errorf("other objects than without rights (-with +without):\n%s", diff)
	}
}

// TestHelmTest_RunsTheDoctor covers `helm test`: the doctor of the cluster, for the agents of the release,
// with rights that exist only during the test.
func TestHelmTest_RunsTheDoctor(t *testing.T) {
	helm := needTool(t, "helm")
	all := helm.made(t)
	job := find[*batchv1.Job](t, all, "Job/plimsoll-test")
	if job.Annotations["helm.sh/hook"] != "test" || !strings.Contains(job.Annotations["helm.sh/hook-output-log-policy"], "hook-failed") || *job.Spec.BackoffLimit != 0 {
		t.Errorf("%v, backoffLimit %d", job.Annotations, *job.Spec.BackoffLimit)
	}
	spec := job.Spec.Template.Spec
	if diff := cmp.Diff([]string{"doctor", "--cluster", "--heartbeat-namespace=" + namespace}, spec.Containers[0].Args); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, weight := range map[string]string{
		"ServiceAccount/" + spec.ServiceAccountName: "-5", "ClusterRole/plimsoll-test": "-5", "Role/plimsoll-test": "-5", "Role/kube-system/plimsoll-test": "-5",
		"ClusterRoleBinding/plimsoll-test": "-4", "RoleBinding/plimsoll-test": "-4", "RoleBinding/kube-system/plimsoll-test": "-4",
	} {
		o, there := all[name].(interface{ GetAnnotations() map[string]string })
		if !there {
			t.Errorf("there is no %s", name)
			continue
		}
		if a := o.GetAnnotations(); a["helm.sh/hook"] != "test" || a["helm.sh/hook-weight"] != weight || !strings.Contains(a["helm.sh/hook-delete-policy"], "hook-succeeded") {
			t.Errorf("%s: %v", name, a)
		}
	}
	for name, role := range all {
		if r, is := role.(*rbacv1.ClusterRole); is && strings.HasSuffix(name, "-test") {
			for _, rule := range r.Rules {
				if !slices.Equal(rule.Verbs, []string{"list"}) {
					t.Errorf("it may %q %q", rule.Verbs, rule.Resources)
				}
			}
		}
	}
	if without := helm.made(t, `agent.enabled=false`); without["Job/plimsoll-test"] != nil {
		t.Error("without agents there is a test of them")
	}
}
