package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/stats"
)

// A listOf is a source of fixed pods.
type listOf []signals.Pod

func (l listOf) pods() []signals.Pod { return l }
func (l listOf) fault() error        { return nil }

// The consumers of each resource are searched where it is: cgroups for memory and PIDs, directories for
// a disk, with the pod that mounts one.
func TestNode_FindsConsumersOfEachResource(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("cgroup/daemon/memory.current", "3000\n")
	put("cgroup/daemon/memory.stat", "anon 3000\nfile 0\nactive_file 0\ninactive_file 0\n")
	put("cgroup/daemon/pids.current", "40\n")
	put("cgroup/daemon/pids.max", "max\n")
	put("proc/loadavg", "0 0 0 1/45 9\n")
	put("proc/meminfo", "MemTotal: 8 kB\n")
	put("host/var/lib/kubelet/x", "")
	put("host/data/file", strings.Repeat("x", 1<<20))
	options, err := stats.Options{ProcRoot: filepath.Join(root, "proc"), Hierarchy: cgroup.At(cgroup.V2, filepath.Join(root, "cgroup"))}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	writer := signals.Pod{UID: "u", Namespace: "default", Name: "writer", HostPaths: []string{"/data"}}
	host := filepath.Join(root, "host")
	n := &node{consumers: stats.NewConsumers(options), source: listOf{writer}, disks: stats.OpenDisks(stats.DiskOptions{HostRoot: host, NodeDirectory: "/var/lib/kubelet", Timeout: time.Minute})}
	n.onDisks = stats.NewDiskConsumers(n.disks, stats.OpenDirectories(stats.DirectoryOptions{HostRoot: host, HostTime: time.Minute, HostRoundTime: time.Minute}))
	var seen signals.Observations
	n.disks.Observe(&seen)
	for signal, want := range map[signals.Signal]string{
		signals.MemoryAvailable:            "[{cgroup daemon cgroup 3000  0 }]",
		signals.AllocatableMemoryAvailable: "[{cgroup daemon cgroup 3000  0 }]",
		signals.PIDAvailable:               "[{cgroup daemon cgroup 40  0 } {kernel threads, and processes in no other cgroup processes 5  0 }]",
	} {
		if got := fmt.Sprint(n.Consumers(t.Context(), agent.Shortage{Signal: signal}).Largest); got != want {
			t.Errorf("%s: %s, want %s", signal, got, want)
		}
	}
	disk := n.Consumers(t.Context(), agent.Shortage{Signal: signals.NodefsAvailable, Seen: signals.Observed(1<<20, 9<<20, time.Now()), Pods: signals.Consumer{Name: "pods", Amount: 2 << 20}})
	for _, c := range disk.Largest {
		switch c.Name {
		case "/data":
			if c.Pod != "default/writer" || c.Amount < 1<<20 {
				t.Errorf("%+v", c)
			}
		case "unaccounted":
			if c.Amount > 5<<20 || c.Amount < 4<<20 {
				t.Errorf("%+v, want less than 5 MiB of the 8 in use", c)
			}
		}
	}
	if len(disk.Largest) != 4 {
		t.Errorf("%+v", disk)
	}
}
