package stats

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

var (
	memTotal     = []byte("MemTotal:")
	memAvailable = []byte("MemAvailable:")
	kiB          = []byte(" kB")
)

// ParseMemTotal parses the machine's memory in /proc/meminfo, which excludes memory reserved at
// boot. Returns an error if the line is missing or malformed.
func ParseMemTotal(meminfo []byte) (signals.Bytes, error) { return meminfoLine(meminfo, memTotal) }

// MachineMemory returns the machine's memory, huge pages included. Returns an error if procRoot,
// usually /proc, has no readable meminfo.
func MachineMemory(procRoot string) (signals.Bytes, error) {
	text, err := os.ReadFile(filepath.Join(procRoot, "meminfo"))
	if err != nil {
		return 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	return ParseMemTotal(text)
}

// meminfoLine parses the line with the key: "MemTotal:       24684084 kB".
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

// ParseTasks parses the number of existing tasks (threads) in /proc/loadavg: the number after
// the slash in "0.89 0.29 0.10 2/83 6967". Returns an error if that number is missing or
// malformed.
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

// absurd is the upper bound of a valid reading. No machine has that many bytes, and a counter
// below zero exceeds it.
const absurd = 1 << 62
