package trial

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// reads are the times at which any process has read a file. The agent reads the statistics of its node in each check.
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
