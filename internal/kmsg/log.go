package kmsg

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Device is the path of the kernel's log.
const Device = "/dev/kmsg"

// maxRecord exceeds the size of any record: the kernel's own buffer for one has 2 or 8 KiB.
const maxRecord = 16 << 10

// minWait is the minimum time for which Next waits, so that it returns a record that can be read at the
// deadline.
const minWait = 5 * time.Millisecond

// maxPerSecond is the maximum number of records read in a second. The report of one OOM kill has a line
// for each process of the machine.
const maxPerSecond = 20_000

var (
	// ErrLost reports that records were overwritten before they were read. The next record follows
	// after the gap.
	ErrLost = errors.New("records of the kernel's log were lost")
	// ErrTimeout reports that the deadline has passed without a record.
	ErrTimeout = os.ErrDeadlineExceeded
)

// Log is the open log. Next must be called from one goroutine; Close may be called from any.
type Log struct {
	file file
	done chan struct{}
	buf  []byte

	since time.Time // start of the second that is counted
	count int
}

// file is the part of os.File that a Log uses.
type file interface {
	io.ReadCloser
	SetReadDeadline(time.Time) error
}

// Open opens the log at its end. Returns an error with the missing right if it cannot be read.
func Open(path string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("read the kernel's log: %w: %s", err, remedy(err))
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return nil, errors.Join(fmt.Errorf("read the kernel's log from its end: %w", err), f.Close())
	}
	return newLog(f), nil
}

func newLog(f file) *Log {
	return &Log{file: f, done: make(chan struct{}), buf: make([]byte, maxRecord)}
}

// remedy returns what permits to open the log.
func remedy(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "give a container the host's /dev/kmsg (agent.kernelLog of the chart), a systemd service PrivateDevices=no"
	case errors.Is(err, fs.ErrPermission):
		return "run a container privileged (agent.kernelLog of the chart); with kernel.dmesg_restrict=1 the capability SYSLOG is needed"
	}
	return "without it, OOM kills are counted and not explained"
}

// Next returns the next record, valid until the next call. It waits until the deadline; zero means no
// deadline. Returns [ErrLost] after a gap, [ErrTimeout] after the deadline if there is no record,
// [os.ErrClosed] after Close, and another error if the log can no longer be read.
func (l *Log) Next(deadline time.Time) ([]byte, error) {
	if err := l.pause(); err != nil {
		return nil, err
	}
	if soon := time.Now().Add(minWait); !deadline.IsZero() && deadline.Before(soon) {
		deadline = soon // an expired one would prevent the read
	}
	err := l.file.SetReadDeadline(deadline)
	n := 0
	if err == nil {
		n, err = l.file.Read(l.buf)
	}
	switch {
	case err == nil:
		l.count++
		return l.buf[:n], nil
	case l.isClosed():
		return nil, os.ErrClosed
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EINVAL): // EINVAL: longer than the buffer, and skipped
		return nil, ErrLost
	}
	return nil, err
}

func (l *Log) isClosed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// pause waits for the next second if the records of this one are used up.
func (l *Log) pause() error {
	now := time.Now()
	if now.Sub(l.since) >= time.Second {
		l.since, l.count = now, 0
	}
	if l.count < maxPerSecond {
		return nil
	}
	select {
	case <-l.done:
		return os.ErrClosed
	case <-time.After(time.Second - now.Sub(l.since)):
		l.since, l.count = time.Now(), 0
		return nil
	}
}

// Close ends the present and every later call of Next.
func (l *Log) Close() error {
	close(l.done)
	return l.file.Close()
}
