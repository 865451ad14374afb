// Package gauge reads the memory that a node has left. The referee's thread, hogs and reports use the
// same definition. It reads two files and no clock, and stores nothing.
package gauge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Gauge describes where the available memory of a node is read.
type Gauge struct {
	// Usage is the file with the charged bytes of the node's cgroup. Empty: the node is the machine,
	// and MemAvailable counts.
	Usage string
	Total int64 // memory of the node in bytes
}

const meminfo = "/proc/meminfo"

func (g Gauge) file() string {
	if g.Usage == "" {
		return meminfo
	}
	return g.Usage
}

// Open opens the file for repeated reads with [Gauge.Read].
func (g Gauge) Open() (*os.File, error) { return os.Open(g.file()) }

// Read returns the free memory in bytes, from an open file. In a cgroup page cache counts as used. A
// buffer of 4 KiB suffices; without an error nothing is allocated.
func (g Gauge) Read(f *os.File, buffer []byte) (int64, error) {
	text, err := Reread(f, buffer)
	if err != nil {
		return 0, err
	}
	return g.parse(text)
}

// Now returns the free memory in bytes.
func (g Gauge) Now() (int64, error) {
	f, err := g.Open()
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return g.Read(f, make([]byte, 4096))
}

func (g Gauge) parse(text []byte) (int64, error) {
	if g.Usage == "" {
		kib, found := Value(text, "MemAvailable:")
		if !found {
			return 0, errors.New("/proc/meminfo has no line MemAvailable")
		}
		return kib << 10, nil
	}
	used, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", g.Usage, err)
	}
	return g.Total - used, nil
}

// Reread reads a file from its beginning into the buffer.
func Reread(f *os.File, buffer []byte) ([]byte, error) {
	n, err := f.ReadAt(buffer, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return buffer[:n], nil
}

// Value returns the number behind a key at the beginning of a line, as in memory.stat, memory.events,
// vmstat and meminfo.
func Value(text []byte, key string) (n int64, found bool) {
	for len(text) > 0 {
		line := text
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		if len(line) <= len(key) || string(line[:len(key)]) != key || line[len(key)] != ' ' {
			continue
		}
		for _, c := range bytes.TrimLeft(line[len(key):], " ") {
			if c < '0' || c > '9' {
				break
			}
			n, found = 10*n+int64(c-'0'), true
		}
		return n, found
	}
	return 0, false
}

// ValueOf returns the number behind a key of a file. Returns an error if the file has no such line.
func ValueOf(file, key string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n, found := Value(text, key)
	if !found {
		return 0, fmt.Errorf("%s has no line %s", file, key)
	}
	return n, nil
}

// Memory returns the machine's memory in bytes.
func Memory() (int64, error) {
	kib, err := ValueOf(meminfo, "MemTotal:")
	return kib << 10, err
}

// Clock returns the kernel's monotonic clock in nanoseconds, which all processes of the machine share.
func Clock() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // fails for an unknown clock only
	return t.Nano()
}
