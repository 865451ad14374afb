package cgroup_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

func TestLacksKill_LooksBelowRoot(t *testing.T) {
	for name, tc := range map[string]struct {
		files []string
		want  bool
	}{
		"no cgroup below": {[]string{"cgroup.procs"}, false},
		"Linux 5.14":      {[]string{"cgroup.procs", "a/cgroup.procs", "a/cgroup.kill"}, false},
		"older":           {[]string{"cgroup.procs", "a/cgroup.procs"}, true},
	} {
		root := t.TempDir()
		for _, file := range tc.files {
			path := filepath.Join(root, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if got := cgroup.At(cgroup.V2, root).LacksKill(); got != tc.want {
			t.Errorf("%s: got %t, want %t", name, got, tc.want)
		}
	}
}
