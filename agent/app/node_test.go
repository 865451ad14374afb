package app

import (
	"os"
	"path/filepath"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/stats"
)

// Whoever measures pods, their cgroups are read before one is evicted: the look
// that confirms it needs counters that are up to date.
func TestCgroupsAreReadWhoeverMeasures(t *testing.T) {
	h := cgroup.At(cgroup.V2, t.TempDir())
	pod := h.Dir("memory", "/kubepods/podab")
	if err := os.MkdirAll(pod, 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"memory.current": "1\n", "memory.stat": "none\n"} {
		if err := os.WriteFile(filepath.Join(pod, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := &node{cgroups: stats.OpenPods(h, "/"), provider: others{}, source: onePod{}, directories: stats.OpenDirectories(stats.DirectoryOptions{})}
	defer n.cgroups.Close()
	if got := n.Measure(t.Context()); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	if n.cgroups.Err() == nil {
		t.Error("a memory.stat without lines was not read")
	}
}

type onePod struct{}

func (onePod) pods() []signals.Pod { return []signals.Pod{{UID: "ab"}} }
func (onePod) fault() error        { return nil }

// others measure without a look at cgroups.
type others struct{ stats.Provider }

func (others) Measure(pods []signals.Pod, into []signals.Candidate) []signals.Candidate {
	for i := range pods {
		into = append(into, signals.Candidate{Pod: &pods[i], Usage: &signals.Usage{}})
	}
	return into
}
