package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Every binding is waited for: a program may need each of them at its start.
func TestReviewsOf_HasEveryBinding(t *testing.T) {
	for file, want := range map[string][]string{
		"agent.yaml":                 {"", "plimsoll-evictions", "plimsoll-system"},
		"agent-node-lease.yaml":      {"kube-node-lease"},
		"agent-direct-eviction.yaml": {""},
		"controller.yaml":            {"", "kube-node-lease", "plimsoll-evictions", "plimsoll-system"},
		"readers.yaml":               nil,
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "rbac", file))
		if err != nil {
			t.Fatal(err)
		}
		reviews, err := reviewsOf(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range reviews {
			got = append(got, r.ResourceAttributes.Namespace)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s: rights in %q, want %q", file, got, want)
		}
	}
}
