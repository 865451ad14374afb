package stats

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/cadvisor/utils/sysfs"
	"github.com/google/cadvisor/utils/sysinfo"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// MachineFacts are what a report says about the machine. They are read once, at
// start; decisions use what a [Node] observes.
type MachineFacts struct {
	Memory    signals.Bytes // MemTotal, huge pages included
	Swap      signals.Bytes
	Cores     int         // hardware threads that are online
	Nodes     []NUMANode  // one on a machine without NUMA; empty if the kernel does not say
	HugePages []HugePages // of the whole machine, by size
	BootID    string      // differs after every boot
	Kernel    string      // release, as uname -r prints it
}

// A NUMANode is memory and the hardware threads near it.
type NUMANode struct {
	ID     int
	Memory signals.Bytes
	Cores  int
}

// HugePages are reserved pages of one size: memory that is in the capacity and
// in no cgroup's usage.
type HugePages struct {
	Size  signals.Bytes
	Count uint64
}

// Reserved is the memory that huge pages hold, used or not.
func (m MachineFacts) Reserved() signals.Bytes {
	var sum signals.Bytes
	for _, h := range m.HugePages {
		sum += h.Size * signals.Bytes(h.Count)
	}
	return sum
}

// Machine reads the machine's facts below the two roots, usually /proc and
// /sys. What could not be read is left out and named in the error; the rest is
// valid all the same. Whether a core is online is asked of the real /sys
// whatever the root is.
func Machine(procRoot, sysRoot string) (MachineFacts, error) {
	var m MachineFacts
	meminfo, memErr := os.ReadFile(filepath.Join(procRoot, "meminfo"))
	var errs [6]error
	if memErr == nil {
		m.Memory, errs[0] = ParseMemTotal(meminfo)
		m.Swap, errs[1] = ParseSwapTotal(meminfo)
	}
	m.BootID, errs[2] = line(procRoot, "sys/kernel/random/boot_id")
	m.Kernel, errs[3] = line(procRoot, "sys/kernel/osrelease")
	errs[4] = m.readTopology(rooted{sysfs.NewRealSysFs(), sysRoot})
	errs[5] = m.readHugePages(rooted{sysfs.NewRealSysFs(), sysRoot})
	if err := errors.Join(append(errs[:], memErr)...); err != nil {
		return m, fmt.Errorf("read facts about the machine: %w", err)
	}
	return m, nil
}

func line(root, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, name))
	return strings.TrimSpace(string(text)), err
}

func (m *MachineFacts) readTopology(fs rooted) error {
	nodes, cores, err := sysinfo.GetNodesInfo(fs)
	if err != nil {
		return fmt.Errorf("NUMA nodes and cores below %s: %w", fs.root, err)
	}
	m.Cores = cores
	for i := range nodes {
		node := NUMANode{ID: nodes[i].Id, Memory: signals.Bytes(nodes[i].Memory)}
		for _, core := range nodes[i].Cores {
			node.Cores += len(core.Threads)
		}
		m.Nodes = append(m.Nodes, node)
	}
	return nil
}

func (m *MachineFacts) readHugePages(fs rooted) error {
	dir := filepath.Join(fs.root, "kernel/mm/hugepages") + "/"
	pages, err := sysinfo.GetHugePagesInfo(fs, dir)
	if err != nil {
		return fmt.Errorf("huge pages in %s: %w", dir, err)
	}
	for _, p := range pages {
		m.HugePages = append(m.HugePages, HugePages{signals.Bytes(p.PageSize) << 10, p.NumPages})
	}
	return nil
}

// rooted makes cAdvisor look for the machine below a root other than /sys: it
// takes the paths it reads from these two calls.
type rooted struct {
	sysfs.SysFs
	root string
}

// GetNodesPaths lists the directories of NUMA nodes.
func (r rooted) GetNodesPaths() ([]string, error) {
	return filepath.Glob(filepath.Join(r.root, "devices/system/node/node*[0-9]"))
}

// GetCPUsPaths lists the directories of cores in a node's directory, or in that
// of the whole machine, which cAdvisor names with /sys.
func (r rooted) GetCPUsPaths(dir string) ([]string, error) {
	if below, ok := strings.CutPrefix(dir, "/sys/"); ok {
		dir = filepath.Join(r.root, below)
	}
	return filepath.Glob(filepath.Join(dir, "cpu*[0-9]"))
}
