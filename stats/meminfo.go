package stats

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// observeMachine observes the memory of the whole machine from /proc/meminfo alone. The kernel
// updates the machine's counters of anonymous memory and page cache together with those of the
// charged cgroup, so they equal memory.stat of the root cgroup. They are always current, and
// reading them does not make the kernel collect the counters of every CPU and cgroup.
//
// The available amount is at most the kernel's MemAvailable. The kubelet's formula does not
// count kernel memory as used, so part of its available memory may be in use already. If page
// tables and slab exceeded the threshold, the OOM killer would act before the threshold is
// crossed.
func (n *Node) observeMachine(capacity signals.Amount, at time.Time) signals.Observation {
	text, err := n.meminfo.Read(n.buf)
	if err != nil {
		return n.unknown(signals.MemoryAvailable, err)
	}
	u, err := parseMachineUsage(text)
	if err != nil {
		return n.unknown(signals.MemoryAvailable, n.malformed(err))
	}
	used := u.anon + u.file - min(u.file, u.inactiveFile)
	remaining := capacity - signals.Amount(used)
	left := min(remaining.Plus(signals.Amount(min(used, u.activeFile))), signals.Amount(u.available))
	o := signals.Observed(min(remaining, left), capacity, at)
	o.Cache = left - o.Available
	return o
}

// machineUsage is the use of the machine's memory, in bytes.
type machineUsage struct {
	anon, file, activeFile, inactiveFile signals.Bytes
	available                            signals.Bytes // the kernel's MemAvailable
}

// usageLines are the lines of /proc/meminfo that parseMachineUsage needs.
var usageLines = [...][]byte{
	[]byte("AnonPages:"), []byte("Cached:"), []byte("Buffers:"), []byte("SwapCached:"),
	[]byte("Active(file):"), []byte("Inactive(file):"), memAvailable,
}

// parseMachineUsage parses /proc/meminfo. The kernel counts swap cache and buffers of block
// devices as page cache, and excludes them from "Cached".
func parseMachineUsage(meminfo []byte) (u machineUsage, err error) {
	var lines [len(usageLines)]signals.Bytes
	for i, key := range usageLines {
		if lines[i], err = meminfoLine(meminfo, key); err != nil {
			return machineUsage{}, err
		}
	}
	return machineUsage{anon: lines[0], file: lines[1] + lines[2] + lines[3],
		activeFile: lines[4], inactiveFile: lines[5], available: lines[6]}, nil
}
