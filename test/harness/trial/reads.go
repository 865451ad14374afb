package trial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// checks observes the checks of an agent from outside: each one reads the statistics of its node.
type checks struct {
	*reads
	pid  int
	runs map[string]threadRun
}

// watchChecks observes the checks until close. Nothing else may read the node's statistics. Returns an error if the
// kernel can not watch them.
func watchChecks(n *Node, a *Agent) (*checks, error) {
	r, err := watchReads(filepath.Join(n.Node.Dir("memory"), "memory.stat"))
	return &checks{r, a.PID, threadRuns(a.PID)}, err
}

// late returns the longest time without a check within a period, and how long a thread of the agent has waited for a
// processor since watchChecks. Returns the error of ctx if it ends before the agent has a processor.
func (c *checks) late(ctx context.Context, from, to time.Time) (gap, waited time.Duration, err error) {
	waited, err = longestWait(ctx, c.pid, c.runs)
	return c.longestGap(from, to), waited, err
}

// reads are the times at which any process has read a file.
type reads struct {
	events *os.File
	done   chan struct{}

	mu    sync.Mutex
	times []time.Time
}

// watchReads observes the reads of a file until close. Returns an error if the kernel can not watch it.
func watchReads(path string) (*reads, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch the reads of %s: %w", path, err)
	}
	r := &reads{events: os.NewFile(uintptr(fd), "inotify"), done: make(chan struct{})}
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_ACCESS); err != nil {
		_ = r.events.Close()
		return nil, fmt.Errorf("watch the reads of %s: %w", path, err)
	}
	go r.run()
	return r, nil
}

func (r *reads) run() {
	defer close(r.done)
	for buffer := make([]byte, 4096); ; {
		if _, err := r.events.Read(buffer); err != nil {
			return // closed
		}
		r.mu.Lock()
		r.times = append(r.times, time.Now())
		r.mu.Unlock()
	}
}

// longestGap returns the longest time without a read within a period.
func (r *reads) longestGap(from, to time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	longest, last := time.Duration(0), from
	for _, at := range append(slices.Clone(r.times), to) {
		if at.Before(from) || at.After(to) {
			continue
		}
		longest, last = max(longest, at.Sub(last)), at
	}
	return longest
}

func (r *reads) close() {
	_ = r.events.Close()
	<-r.done
}
