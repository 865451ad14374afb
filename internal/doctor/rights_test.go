package doctor_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"plimsoll.dev/plimsoll/internal/doctor"
)

// granted returns the rights that a file of deploy/rbac grants.
func granted(t *testing.T, file string) (rights []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "rbac", file))
	if err != nil {
		t.Fatal(err)
	}
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var role rbacv1.Role // a ClusterRole has the same rules
		if err := yaml.Unmarshal(part, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				for _, resource := range rule.Resources {
					kind, sub, _ := strings.Cut(resource, "/")
					r := doctor.Right{Verb: verb, Group: rule.APIGroups[0], Resource: kind, Subresource: sub, Namespace: role.Namespace}
					if len(rule.ResourceNames) > 0 {
						r.Name = rule.ResourceNames[0]
					}
					rights = append(rights, r.String())
				}
			}
		}
	}
	return rights
}

// The doctor checks only rights that are granted, and all of them but one: the agent lists and watches the
// ConfigMap with the arming setting.
func TestRights_MatchGrantedRights(t *testing.T) {
	all := doctor.Needs{Conditions: true, Taints: true, Direct: true, NodeLease: true, Reviews: true, Namespace: "plimsoll-system", Arming: "plimsoll-arming", DaemonSet: "plimsoll-agent", Records: "plimsoll-evictions"}
	some := doctor.Needs{Conditions: true, Reviews: true, Namespace: all.Namespace, Arming: all.Arming, DaemonSet: all.DaemonSet, Records: all.Records}
	for _, test := range []struct {
		needs doctor.Needs
		files []string
	}{
		{some, []string{"agent.yaml"}},
		{all, []string{"agent.yaml", "agent-pressure-taint.yaml", "agent-direct-eviction.yaml", "agent-node-lease.yaml"}},
	} {
		var have, want []string
		for _, file := range test.files {
			have = append(have, granted(t, file)...)
		}
		for _, r := range test.needs.Rights() {
			want = append(want, r.String())
			if !slices.Contains(have, r.String()) {
				t.Errorf("%v do not grant the right to %s", test.files, r)
			}
			if r.Loss == "" {
				t.Errorf("no loss is given for the right to %s", r)
			}
		}
		for _, r := range have {
			if !slices.Contains(want, r) && r != "get configmaps plimsoll-arming in plimsoll-system" {
				t.Errorf("%v grant the right to %s, which the doctor does not check", test.files, r)
			}
		}
	}
	if rights := (doctor.Needs{}).Rights(); slices.ContainsFunc(rights, func(r doctor.Right) bool { return r.Namespace != "" || r.Subresource == "eviction" }) {
		t.Errorf("%v", rights)
	}
}
