package stats

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"plimsoll.dev/plimsoll/signal"
)

// Floor is a lower bound of one of the memory signals' available amount, for 2-4
// µs and without memory.stat, whose reading makes the kernel collect what every
// CPU counted in every cgroup below: 2 µs for each that was used since. If the
// bound is above a threshold, nothing is crossed and no look is needed. It is no
// observation: a rate that is taken between a bound and an observation is none.
// ok is false where it can not be told that cheaply.
//
// For the machine the bound is what a look would find, less an error of counting
// ([Node.countingError]); for a cgroup all page cache counts as used.
func (n *Node) Floor(s signal.Signal) (bound signal.Amount, ok bool) {
	capacity, err := n.capacity()
	m := n.memory
	switch {
	case err != nil:
		return 0, false
	case s == signal.AllocatableMemoryAvailable && n.kubepods != nil:
		var cause string
		if capacity, cause, err = n.allocatable(capacity); err != nil || cause != "" {
			return 0, false
		}
		m = n.kubepods
	case s != signal.MemoryAvailable:
		return 0, false
	case n.IsMachine():
		return n.machineFloor(capacity)
	}
	usage, err := m.Usage()
	if err != nil || usage > absurd {
		return 0, false
	}
	return capacity - signal.Amount(usage), true
}

// machineFloor takes from /proc/meminfo what memory.stat of the root says. The
// kernel moves the machine's counters of anonymous memory, of page cache and of
// its inactive part in the same call as those of the cgroup that is charged; in
// the root is what all cgroups have. Pages that no cgroup is charged for are in
// the machine's counters alone and make the bound lower: page cache is both in
// the sum and, at most, in the inactive part.
func (n *Node) machineFloor(capacity signal.Amount) (bound signal.Amount, ok bool) {
	text, err := n.meminfo.Read(n.buf)
	if err != nil {
		return 0, false
	}
	u, err := parseMachineUsage(text)
	if err != nil {
		return 0, false
	}
	bound = capacity - signal.Amount(u.anon+u.file-min(u.file, u.inactiveFile))
	return min(bound, signal.Amount(u.available)) - n.countingError, true
}

// A CPU keeps up to 125 pages of each of a NUMA node's counters to itself, of
// which three are summed up; and as long as all CPUs have less than 64 pages each
// that memory.stat does not know of, reading it does not collect them.
const (
	pagesPerCounter  = 3 * 125
	pagesUncollected = 64
)

// countingError is by how much the machine's counters and memory.stat may differ
// while neither is wrong: 1.7 MiB for each CPU with pages of 4 KiB and one NUMA
// node.
func countingError(sysRoot string) signal.Amount {
	nodes := 0
	entries, _ := os.ReadDir(filepath.Join(sysRoot, "devices/system/node")) // none without NUMA
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), "node"); ok && id != "" && strings.Trim(id, "0123456789") == "" {
			nodes++
		}
	}
	pages := runtime.NumCPU() * (pagesPerCounter*max(nodes, 1) + pagesUncollected)
	return signal.Amount(pages) * signal.Amount(os.Getpagesize())
}

// machineUsage is what the machine's memory is used for, in bytes, by the
// counters that memory.stat has for each cgroup.
type machineUsage struct {
	anon, file, inactiveFile signal.Bytes
	available                signal.Bytes // what the kernel has left
}

// usageLines are the lines of /proc/meminfo that parseMachineUsage needs.
var usageLines = [...][]byte{
	[]byte("AnonPages:"), []byte("Cached:"), []byte("Buffers:"), []byte("SwapCached:"), []byte("Inactive(file):"), memAvailable,
}

// parseMachineUsage reads /proc/meminfo. The kernel counts swap's cache and the
// buffers of block devices with the page cache, and takes them out of "Cached".
func parseMachineUsage(meminfo []byte) (u machineUsage, err error) {
	var lines [len(usageLines)]signal.Bytes
	for i, key := range usageLines {
		if lines[i], err = meminfoLine(meminfo, key); err != nil {
			return machineUsage{}, err
		}
	}
	return machineUsage{anon: lines[0], file: lines[1] + lines[2] + lines[3], inactiveFile: lines[4], available: lines[5]}, nil
}
