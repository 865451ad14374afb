package stats

import (
	"bytes"
	"fmt"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

var (
	memTotal     = []byte("MemTotal:")
	memAvailable = []byte("MemAvailable:")
	swapTotal    = []byte("SwapTotal:")
	kiB          = []byte(" kB")
)

// ParseMemTotal reads the machine's memory from /proc/meminfo: what the kernel
// has to give, without what it reserved for itself at boot.
func ParseMemTotal(meminfo []byte) (signals.Bytes, error) { return meminfoLine(meminfo, memTotal) }

// ParseMemAvailable reads from /proc/meminfo what the kernel believes it could
// still give without swapping: nothing of it is kernel memory in use, or kept
// back below the kernel's own low marks (Documentation/filesystems/proc.rst).
func ParseMemAvailable(meminfo []byte) (signals.Bytes, error) {
	return meminfoLine(meminfo, memAvailable)
}

// ParseSwapTotal reads the size of all swap from /proc/meminfo.
func ParseSwapTotal(meminfo []byte) (signals.Bytes, error) { return meminfoLine(meminfo, swapTotal) }

// meminfoLine finds the line with the key: "MemTotal:       24684084 kB".
func meminfoLine(text, key []byte) (signals.Bytes, error) {
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		rest, ok := bytes.CutPrefix(line, key)
		if !ok {
			continue
		}
		digits, inKiB := bytes.CutSuffix(bytes.TrimLeft(rest, " "), kiB)
		v, err := cgroup.ParseSingleValue(digits)
		if err != nil || !inKiB || v > absurd>>10 {
			return 0, fmt.Errorf("line %.60q of meminfo is not a number of kB", line)
		}
		return signals.Bytes(v << 10), nil
	}
	return 0, fmt.Errorf("meminfo has no line %q", key)
}

// ParseTasks reads the number of existing tasks (threads) from /proc/loadavg:
// the number after the slash in "0.89 0.29 0.10 2/83 6967".
func ParseTasks(loadavg []byte) (signals.PIDs, error) {
	rest := loadavg
	for range 3 {
		_, rest, _ = bytes.Cut(rest, []byte(" "))
	}
	field, _, _ := bytes.Cut(rest, []byte(" "))
	_, tasks, ok := bytes.Cut(field, []byte("/"))
	v, err := cgroup.ParseSingleValue(tasks)
	if !ok || err != nil || v > absurd {
		return 0, fmt.Errorf("loadavg %.80q has no number of tasks", loadavg)
	}
	return signals.PIDs(v), nil
}

// absurd is the number above which a reading is not believed: no machine has
// as many bytes, and a counter that went below zero looks like this.
const absurd = 1 << 62
