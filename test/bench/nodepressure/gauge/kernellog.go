package gauge

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// KernelLog reads the lines of the kernel's log from its opening on.
type KernelLog struct{ fd int } // no os.File: its Fd makes reads block at the end of the log

// OpenKernelLog opens the kernel's log at its end. The caller closes it. Returns an error without the right to read it.
func OpenKernelLog() (*KernelLog, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the kernel's log /dev/kmsg: %w", err)
	}
	if _, err := unix.Seek(fd, 0, io.SeekEnd); err != nil {
		return nil, errors.Join(fmt.Errorf("seek the end of /dev/kmsg: %w", err), unix.Close(fd))
	}
	return &KernelLog{fd}, nil
}

// Bounds of the lines of a run, of the records read for them, and of a record in bytes.
const (
	maxKernelLines   = 200
	maxKernelRecords = 1_000_000
	maxRecord        = 8 << 10
)

// Kills returns the last lines about OOM kills since the opening, each with its time in microseconds since the boot.
func (l *KernelLog) Kills() (lines []string) {
	record := make([]byte, maxRecord)
	for range maxKernelRecords {
		n, err := unix.Read(l.fd, record)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EPIPE) { // EPIPE: records were overwritten
			continue
		}
		if err != nil || n == 0 {
			break
		}
		head, text, _ := strings.Cut(string(record[:n]), ";")
		text, _, _ = strings.Cut(text, "\n")
		fields := strings.Split(head, ",")
		if len(fields) < 3 || !aboutKill(text) {
			continue
		}
		if lines = append(lines, strings.ToValidUTF8(fields[2]+" "+text, "?")); len(lines) > maxKernelLines {
			lines = lines[1:]
		}
	}
	return lines
}

func aboutKill(text string) bool {
	for _, part := range []string{"oom-kill:", "Killed process", "invoked oom-killer", "ut of memory"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// Close closes the log.
func (l *KernelLog) Close() error { return unix.Close(l.fd) }
