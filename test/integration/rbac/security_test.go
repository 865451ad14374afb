package rbac_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// manual returns docs/explanation/security.md.
func manual(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "explanation", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSecurityPage_ListsEveryRight compares the table of rights with the contract, and its column of
// bounds with the policy.
func TestSecurityPage_ListsEveryRight(t *testing.T) {
	text := manual(t)
	for _, r := range contract {
		place := ""
		if r.namespace != "" {
			place = " in `" + r.namespace + "`"
		}
		row := fmt.Sprintf("| %s | `%s`%s: %s | ", r.file, r.resource, place, r.verbs)
		_, bound, found := strings.Cut(text, row)
		if !found {
			t.Errorf("docs/explanation/security.md has no row %q: describe the bounds of the right, and the effect without it", row)
			continue
		}
		if written, documented := bounded(r), strings.HasPrefix(bound, "policy:"); written != documented {
			t.Errorf("docs/explanation/security.md, %q: got bound by the policy %t, but the text is: %.60s…", row, written, bound)
		}
	}
	if rows := strings.Count(text, ".yaml | `"); rows != len(contract) {
		t.Errorf("docs/explanation/security.md has %d rows for %d rights", rows, len(contract))
	}
}

// bounded reports whether the policy covers a right: all writing rights of the agent.
func bounded(r right) bool {
	return accountOf(r.file) == theAgent && !r.isReview() && slices.ContainsFunc(r.eachVerb(), func(verb string) bool {
		return !slices.Contains([]string{"get", "list", "watch"}, verb)
	})
}

// daemonSet returns the agent's DaemonSet, generated from the chart without values.
func daemonSet(t *testing.T) *corev1.PodSpec {
	t.Helper()
	file := filepath.Join("..", "..", "..", "deploy", "kustomize", "base", "plimsoll.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range bytes.Split(text, []byte("\n---\n")) {
		var d appsv1.DaemonSet
		if err := yaml.Unmarshal(part, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if d.Kind == "DaemonSet" {
			return &d.Spec.Template.Spec
		}
	}
	t.Fatalf("%s has no DaemonSet", file)
	return nil
}

// rows returns the first cells of the table with this heading, and the second ones if it has
// four columns.
func rows(t *testing.T, heading string) (found []string) {
	t.Helper()
	_, table, is := strings.Cut(manual(t), "\n| "+heading+" |")
	if !is {
		t.Fatalf("docs/explanation/security.md has no table %q", heading)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (writable|read-only)?").FindAllStringSubmatch(table, -1) {
		found = append(found, strings.TrimSpace(m[1]+" "+m[2]))
	}
	slices.Sort(found)
	return found
}

// TestSecurityPage_ListsCapabilitiesAndMounts compares both tables with the manifest.
func TestSecurityPage_ListsCapabilitiesAndMounts(t *testing.T) {
	spec := daemonSet(t)
	if len(spec.Containers) != 1 || spec.HostNetwork || spec.HostIPC {
		t.Fatalf("docs/explanation/security.md describes one container without the host's network and IPC, got %+v", spec)
	}
	agent := spec.Containers[0]
	var capabilities []string
	for _, c := range agent.SecurityContext.Capabilities.Add {
		capabilities = append(capabilities, string(c))
	}
	slices.Sort(capabilities)
	if diff := cmp.Diff(capabilities, rows(t, "capability")); diff != "" {
		t.Errorf("docs/explanation/security.md, capabilities (-manifest +manual):\n%s", diff)
	}
	if drop := agent.SecurityContext.Capabilities.Drop; !slices.Equal(drop, []corev1.Capability{"ALL"}) || *agent.SecurityContext.AllowPrivilegeEscalation || !*agent.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("docs/explanation/security.md describes dropped capabilities, no new privileges and a read-only root file system, got %+v", agent.SecurityContext)
	}
	if diff := cmp.Diff(mounts(spec), rows(t, "mount")); diff != "" {
		t.Errorf("docs/explanation/security.md, mounts of the host (-manifest +manual):\n%s", diff)
	}
}

// mounts returns the mounts of the host's directories, with their write access.
func mounts(spec *corev1.PodSpec) (found []string) {
	for _, v := range spec.Volumes {
		if v.HostPath == nil {
			continue
		}
		access := "not mounted"
		for _, m := range spec.Containers[0].VolumeMounts {
			if m.Name == v.Name {
				access = map[bool]string{true: "read-only", false: "writable"}[m.ReadOnly]
			}
		}
		found = append(found, v.HostPath.Path+" "+access)
	}
	slices.Sort(found)
	return found
}
