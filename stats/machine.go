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

// MachineFacts describes the machine for reports. The facts are read once, at start; decisions
// use the observations of a [Node].
type MachineFacts struct {
	Memory    signals.Bytes // MemTotal, huge pages included
	Swap      signals.Bytes
	Cores     int         // online hardware threads
	Nodes     []NUMANode  // one on a machine without NUMA; empty if unknown
	HugePages []HugePages // of the whole machine, by size
	BootID    string      // changes at every boot
	Kernel    string      // release, as in uname -r
}

// NUMANode is memory and its local hardware threads.
type NUMANode struct {
	ID     int
	Memory signals.Bytes
	Cores  int
}

// HugePages are reserved pages of one size. They are part of the capacity and in no cgroup's
// usage.
type HugePages struct {
	Size  signals.Bytes
	Count uint64
}

// Reserved returns the memory of huge pages, used or not.
func (m MachineFacts) Reserved() signals.Bytes {
	var sum signals.Bytes
	for _, h := range m.HugePages {
		sum += h.Size * signals.Bytes(h.Count)
	}
	return sum
}

// Machine reads the machine's facts below the two roots, usually /proc and /sys. Whether a core
// is online is always read from the real /sys. Returns an error that names the unreadable
// facts; the others are valid all the same.
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

// rooted makes cAdvisor read the machine's topology below a root other than /sys. cAdvisor
// takes its paths from these two methods.
type rooted struct {
	sysfs.SysFs
	root string
}

// GetNodesPaths returns the directories of NUMA nodes.
func (r rooted) GetNodesPaths() ([]string, error) {
	return filepath.Glob(filepath.Join(r.root, "devices/system/node/node*[0-9]"))
}

// GetCPUsPaths returns the directories of cores in a node's directory, or in that of the whole
// machine, which cAdvisor addresses by /sys.
func (r rooted) GetCPUsPaths(dir string) ([]string, error) {
	if below, ok := strings.CutPrefix(dir, "/sys/"); ok {
		dir = filepath.Join(r.root, below)
	}
	return filepath.Glob(filepath.Join(dir, "cpu*[0-9]"))
}
