package stats

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// TestNode_LimitsAvailableToMemAvailable checks that the machine's available memory is at most
// MemAvailable, because kernel memory is in no cgroup's usage. A node below the root has the
// limit of its cgroup instead.
func TestNode_LimitsAvailableToMemAvailable(t *testing.T) {
	eachFixture(t, func(t *testing.T, o Options) {
		text, err := os.ReadFile(filepath.Join(o.ProcRoot, "meminfo"))
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(o.ProcRoot, "*"))
		if err != nil {
			t.Fatal(err)
		}
		proc := t.TempDir()
		for _, name := range files {
			real, err := filepath.Abs(name)
			if err == nil && filepath.Base(name) != "meminfo" {
				err = os.Symlink(real, filepath.Join(proc, filepath.Base(name)))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		o.ProcRoot = proc
		line := regexp.MustCompile(`(?m)^MemAvailable:.*\n`)
		withLine := func(meminfo string) signals.Observations {
			t.Helper()
			if err := os.WriteFile(filepath.Join(proc, "meminfo"), line.ReplaceAll(text, []byte(meminfo)), 0o600); err != nil {
				t.Fatal(err)
			}
			got, _ := observeNode(t, o, signals.Early)
			return got
		}
		plenty := withLine("MemAvailable: 4000000 kB\n")[signals.MemoryAvailable]
		if !plenty.Known || plenty.Available <= 100*mib || plenty.Available >= 4000000<<10 {
			t.Errorf("got %+v, want the capacity minus the usage", plenty)
		}
		expect(t, withLine(fmt.Sprintf("MemAvailable: %d kB\n", 100<<10)), signals.MemoryAvailable, 100*mib, memTotal4)
		expectUnknown(t, withLine(""), signals.MemoryAvailable, "MemAvailable")
		o.NodeCgroup = "/node"
		if below := withLine("")[signals.MemoryAvailable]; !below.Known {
			t.Errorf("node below the root: %+v", below)
		}
	})
}
