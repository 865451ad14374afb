package rbac_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var directory = filepath.Join("..", "..", "..", "deploy", "rbac")

// document covers all kinds allowed in the files. Any other field, such as an aggregation of
// roles, is an error.
type document struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Rules             []rbacv1.PolicyRule `json:"rules"`
	RoleRef           rbacv1.RoleRef      `json:"roleRef"`
	Subjects          []rbacv1.Subject    `json:"subjects"`
}

// texts returns the documents of a file.
func texts(t *testing.T, file string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(directory, file))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(text, []byte("\n---\n"))
}

func read(t *testing.T, file string) (documents []document) {
	t.Helper()
	for _, text := range texts(t, file) {
		var d document
		if err := yaml.UnmarshalStrict(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		documents = append(documents, d)
	}
	return documents
}

// granted returns the rights of a file's roles.
func granted(documents []document) (rights []right) {
	for _, d := range documents {
		for _, rule := range d.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range named(rule.Resources, rule.ResourceNames) {
					rights = append(rights, right{"", d.Namespace, group, resource, strings.Join(rule.Verbs, ", ")})
				}
			}
		}
	}
	return rights
}

// named returns resources, each with the names that a rule is limited to, if any.
func named(resources, names []string) (all []string) {
	for _, r := range resources {
		for _, n := range names {
			all = append(all, r+"["+n+"]")
		}
		if len(names) == 0 {
			all = append(all, r)
		}
	}
	return all
}

func files(t *testing.T) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		names = append(names, filepath.Base(p))
	}
	return names
}

func TestFiles_GrantOnlyContract(t *testing.T) {
	want := append(options(), agentFile, controllerFile, readersFile)
	slices.Sort(want)
	if diff := cmp.Diff(want, files(t)); diff != "" {
		t.Errorf("files in deploy/rbac (-contract +there):\n%s", diff)
	}
	for _, file := range files(t) {
		documents := read(t, file)
		if diff := cmp.Diff(lines(contract, file), lines(granted(documents), "")); diff != "" {
			t.Errorf("%s: rights (-contract +granted):\n%s", file, diff)
		}
		for _, d := range documents {
			for _, rule := range d.Rules {
				if len(rule.NonResourceURLs) > 0 && file != readersFile {
					t.Errorf("%s: %s %s names URLs, which the contract does not", file, d.Kind, d.Name)
				}
			}
		}
	}
}

// TestRoles_AreBoundOnlyToTheirAccount checks bindings: an unbound role grants nothing, and
// one bound to another account too much.
func TestRoles_AreBoundOnlyToTheirAccount(t *testing.T) {
	for _, file := range files(t) {
		if file == readersFile {
			continue
		}
		owner := []rbacv1.Subject{{Kind: "ServiceAccount", Name: string(accountOf(file)), Namespace: namespace}}
		bound := map[string]int{}
		documents := read(t, file)
		for _, d := range documents {
			if !strings.HasSuffix(d.Kind, "Binding") {
				continue
			}
			bound[fmt.Sprintf("%s %s/%s", d.RoleRef.Kind, d.Namespace, d.RoleRef.Name)]++
			if diff := cmp.Diff(owner, d.Subjects); diff != "" {
				t.Errorf("%s: %s %s binds (-owner +bound):\n%s", file, d.Kind, d.Name, diff)
			}
		}
		for _, d := range documents {
			if d.Rules == nil {
				continue
			}
			role := fmt.Sprintf("%s %s/%s", d.Kind, d.Namespace, d.Name)
			if bound[role] != 1 {
				t.Errorf("%s: %s is bound %d times, want once", file, role, bound[role])
			}
			delete(bound, role)
		}
		if len(bound) > 0 {
			t.Errorf("%s: bindings to roles that are not in the file: %v", file, bound)
		}
	}
}

// TestReadme_ExplainsEveryRight compares the table in README.md with the contract.
func TestReadme_ExplainsEveryRight(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(directory, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range contract {
		place := ""
		if r.namespace != "" {
			place = " in `" + r.namespace + "`"
		}
		row := fmt.Sprintf("| %s | `%s`%s: %s | ", r.file, r.resource, place, r.verbs)
		if strings.Count(string(text), row) != 1 {
			t.Errorf("deploy/rbac/README.md has no row %q: describe the purpose of the right, and the effect without it", row)
		}
	}
	if rows := strings.Count(string(text), ".yaml | `"); rows != len(contract) {
		t.Errorf("deploy/rbac/README.md has %d rows for %d rights", rows, len(contract))
	}
}

// TestReaders_GrantOnlyGetOfPaths checks the rights of a reader of metrics or diagnostics to
// the last path, and that the file binds them to no account.
func TestReaders_GrantOnlyGetOfPaths(t *testing.T) {
	got := map[string][]rbacv1.PolicyRule{}
	for _, d := range read(t, readersFile) {
		if d.Kind != "ClusterRole" {
			t.Errorf("%s contains %s %s", readersFile, d.Kind, d.Name)
		}
		got[d.Name] = d.Rules
	}
	want := map[string][]rbacv1.PolicyRule{
		"plimsoll-metrics-reader":     {{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		"plimsoll-diagnostics-reader": {{NonResourceURLs: []string{"/configz", "/explain", "/livez/verbose", "/readyz/verbose"}, Verbs: []string{"get"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights of readers (-want +got):\n%s", diff)
	}
}
