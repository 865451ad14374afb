package probe

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestMissingV2_NeedsControllersBelowRoot: a controller that the kernel has, but the root does not
// enable, is missing too.
func TestMissingV2_NeedsControllersBelowRoot(t *testing.T) {
	for name, tc := range map[string]struct {
		has, enabled string
		want         []string
	}{
		"all":         {"cpuset cpu io memory pids\n", "cpu memory pids\n", nil},
		"not enabled": {"cpu memory pids\n", "cpu pids\n", []string{"memory"}},
		"not there":   {"cpu memory\n", "cpu memory\n", []string{"pids"}},
		"none":        {"\n", "\n", []string{"memory", "pids"}},
	} {
		root := t.TempDir()
		for file, text := range map[string]string{"cgroup.controllers": tc.has, "cgroup.subtree_control": tc.enabled} {
			if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := missingV2(root); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, error %v, want %v", name, got, err, tc.want)
		}
	}
}
