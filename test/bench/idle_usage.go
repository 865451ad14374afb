package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// usage is the processor consumption of a process so far.
type usage struct {
	at  time.Time
	cpu time.Duration // in nanoseconds, of all threads, including ended ones
	// switches counts voluntary context switches of running threads: each is followed by a
	// wake-up.
	switches int64
}

// usageOf returns the usage of a process.
func usageOf(pid int) (usage, error) {
	u := usage{at: time.Now()}
	var spent unix.Timespec
	// The process's own clock, by the encoding of clock_getcpuclockid(3): /proc/PID/stat counts
	// in ticks, and one tick is as long as an idle agent runs in ten seconds.
	if err := unix.ClockGettime(int32(^pid<<3|2), &spent); err != nil {
		return u, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	u.cpu = time.Duration(spent.Nano())
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) == 0 {
		return u, fmt.Errorf("list the threads of process %d: none found (%w)", pid, errors.Join(err, os.ErrNotExist))
	}
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return u, err
		}
		n, err := voluntary(text)
		if err != nil {
			return u, fmt.Errorf("parse %s: %w", path, err)
		}
		u.switches += n
	}
	return u, nil
}

func voluntary(status []byte) (int64, error) {
	const line = "\nvoluntary_ctxt_switches:"
	_, rest, found := bytes.Cut(status, []byte(line))
	if !found {
		return 0, fmt.Errorf("no line %q", line[1:])
	}
	count, _, _ := bytes.Cut(rest, []byte("\n"))
	return strconv.ParseInt(string(bytes.TrimSpace(count)), 10, 64)
}
