package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// MachineOOMKills returns the number of processes that the kernel's OOM killer has ended on this machine since its start, in
// removed cgroups too. Returns the error of a failed read.
func MachineOOMKills() (int64, error) { return readKey("/proc/vmstat", "oom_kill") }

// clockTick is the unit of CPU time in /proc/PID/stat: USER_HZ is 100 on every architecture
// that Plimsoll supports.
const clockTick = 10 * time.Millisecond

// CPUTime returns the CPU time of a process, and that of its children that have ended and that it has waited for, in ticks of
// 10 ms. Returns an error if the process does not exist.
func CPUTime(pid int) (own, children time.Duration, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The command in parentheses can contain any character; utime, stime, cutime and cstime are the 12th to 15th field
	// after it.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return 0, 0, fmt.Errorf("parse /proc/%d/stat: %d fields after the command", pid, len(fields))
	}
	for i, sum := range []*time.Duration{&own, &own, &children, &children} {
		ticks, err := strconv.ParseInt(string(fields[11+i]), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("parse /proc/%d/stat: %w", pid, err)
		}
		*sum += time.Duration(ticks) * clockTick
	}
	return own, children, nil
}
