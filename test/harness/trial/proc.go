package trial

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// StatusKiB returns the value of a line of /proc/PID/status in KiB, such as VmRSS. Returns an
// error if the process or the line does not exist.
func StatusKiB(pid int, name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if rest, found := bytes.CutPrefix(line, []byte(name+":")); found {
			if fields := bytes.Fields(rest); len(fields) == 2 {
				return strconv.ParseInt(string(fields[0]), 10, 64)
			}
		}
	}
	return 0, fmt.Errorf("no line %s in /proc/%d/status", name, pid)
}

// InMemory reports whether the files of a directory are in memory (tmpfs, or the initial file
// system of a machine). The kernel can not drop their pages like page cache. Returns an error
// if the directory does not exist.
func InMemory(dir string) (bool, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return false, fmt.Errorf("read the type of the file system of %s: %w", dir, err)
	}
	return fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC, nil
}

// threadRun is the scheduling of a thread by the kernel's count.
type threadRun struct {
	waited   time.Duration // for a processor, so far
	turns    int64         // on a processor
	runnable bool          // it runs, or waits for a processor: waited lacks the present wait
}

// threadRuns returns the scheduling of a process's threads by their IDs. It is empty if the kernel does not count it,
// or the process has exited.
func threadRuns(pid int) map[string]threadRun {
	runs := map[string]threadRun{}
	dirs, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // the pattern is valid
	for _, dir := range dirs {
		counts, err := os.ReadFile(filepath.Join(dir, "schedstat"))
		status, statErr := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil || statErr != nil {
			continue // the thread has ended
		}
		var r threadRun
		var ran int64
		if _, err := fmt.Sscan(string(counts), &ran, (*int64)(&r.waited), &r.turns); err != nil {
			continue
		}
		r.runnable = bytes.Contains(status, []byte(") R "))
		runs[filepath.Base(dir)] = r
	}
	return runs
}

// longestWait returns the longest time that a thread of a process has waited for a processor since an earlier count.
// Threads that wait at present count after that wait. Returns the error of ctx if it ends before.
func longestWait(ctx context.Context, pid int, since map[string]threadRun) (longest time.Duration, err error) {
	first := threadRuns(pid)
	for last := first; ; last = threadRuns(pid) {
		waiting := false
		for id, r := range last {
			begin, known := first[id]
			waiting = waiting || r.runnable && known && r.turns == begin.turns
			longest = max(longest, r.waited-since[id].waited)
		}
		if !waiting {
			return longest, nil
		}
		select {
		case <-ctx.Done():
			return longest, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}
