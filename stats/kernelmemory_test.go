package stats

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// TestKernelMemoryIsNotAvailable checks a limit: the machine's available memory is at most
// MemAvailable, because kernel memory is in no cgroup's usage. For a node below the root the
// limit of its cgroup counts.
func TestKernelMemoryIsNotAvailable(t *testing.T) {
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
		says := func(meminfo string) signals.Observations {
			t.Helper()
			if err := os.WriteFile(filepath.Join(proc, "meminfo"), line.ReplaceAll(text, []byte(meminfo)), 0o600); err != nil {
				t.Fatal(err)
			}
			got, _ := look(t, o, signals.Early)
			return got
		}
		plenty := says("MemAvailable: 4000000 kB\n")[signals.MemoryAvailable]
		if !plenty.Known || plenty.Available <= 100*mib || plenty.Available >= 4000000<<10 {
			t.Errorf("%+v, want what the usage leaves", plenty)
		}
		expect(t, says(fmt.Sprintf("MemAvailable: %d kB\n", 100<<10)), signals.MemoryAvailable, 100*mib, memTotal4)
		expectUnknown(t, says(""), signals.MemoryAvailable, "MemAvailable")
		o.NodeCgroup = "/node"
		if below := says("")[signals.MemoryAvailable]; !below.Known {
			t.Errorf("a node that is a cgroup: %+v", below)
		}
	})
}
