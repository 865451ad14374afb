package stats

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// lookMachine observes the memory of the whole machine from /proc/meminfo alone.
// The kernel moves the machine's counters of anonymous memory and of page cache
// in the same call as those of the cgroup that is charged, so that they say what
// memory.stat of the root cgroup says; but they are always up to date, and
// reading them does not make the kernel collect what every CPU counted in every
// cgroup.
//
// No more is available than the kernel itself has: neither it nor the kubelet's
// formula counts kernel memory as used, so that what the kubelet counts as
// available there is in part gone already. Where page tables and slab hold more
// than the threshold, the OOM killer would come before it is crossed.
func (n *Node) lookMachine(capacity signals.Amount, at time.Time) signals.Observation {
	text, err := n.meminfo.Read(n.buf)
	if err != nil {
		return n.unknown(signals.MemoryAvailable, err)
	}
	u, err := parseMachineUsage(text)
	if err != nil {
		return n.unknown(signals.MemoryAvailable, n.malformed(err))
	}
	used := u.anon + u.file - min(u.file, u.inactiveFile)
	kept := capacity - signals.Amount(used)
	left := min(kept.Plus(signals.Amount(min(used, u.activeFile))), signals.Amount(u.available))
	o := signals.Observed(min(kept, left), capacity, at)
	o.Cache = left - o.Available
	return o
}

// machineUsage is what the machine's memory is used for, in bytes.
type machineUsage struct {
	anon, file, activeFile, inactiveFile signals.Bytes
	available                            signals.Bytes // what the kernel has left
}

// usageLines are the lines of /proc/meminfo that parseMachineUsage needs.
var usageLines = [...][]byte{
	[]byte("AnonPages:"), []byte("Cached:"), []byte("Buffers:"), []byte("SwapCached:"),
	[]byte("Active(file):"), []byte("Inactive(file):"), memAvailable,
}

// parseMachineUsage reads /proc/meminfo. The kernel counts swap's cache and the
// buffers of block devices with the page cache, and takes them out of "Cached".
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
