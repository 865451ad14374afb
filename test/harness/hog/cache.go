package hog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// stream writes a file of the given size and reads it back: page cache charged to this hog.
// fsync makes the pages clean, drop releases them.
func stream(c command) error {
	f, err := scratch(c.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	clock := newPace(c.rate)
	if err := write(f, c.size, clock); err != nil {
		return err
	}
	if c.fsync || c.drop { // dirty pages can not be dropped
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := read(f, newPace(c.rate)); err != nil {
		return err
	}
	if c.drop {
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	}
	return nil
}

// keep writes a file that remains after the end of this hog.
func keep(c command) error {
	f, err := os.Create(filepath.Join(c.dir, "kept"))
	if err != nil {
		return err
	}
	return errors.Join(write(f, c.size, newPace(c.rate)), f.Close())
}

// thrash rewrites and reads a file repeatedly. If it is larger than the memory limit, every pass
// reclaims the pages of the previous one. Reads alone make no stall on a fast disk: the reclaim of
// clean pages is fast, and reads wait outside of it. Dirty pages are reclaimed only after they are
// written, on any disk.
func thrash(c command) error {
	f, err := scratch(c.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	for end := time.Now().Add(c.duration); time.Now().Before(end); {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := write(f, c.size, newPace(0)); err != nil {
			return err
		}
		if err := read(f, newPace(0)); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// scratch returns a file without a name. The kernel removes it when the process exits for any
// reason.
func scratch(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a nameless file in %s: %w", dir, err)
	}
	return os.NewFile(uintptr(fd), dir), nil
}

var block [1 << 18]byte

func write(f *os.File, size int64, clock pace) error {
	for done := int64(0); done < size; {
		n, err := f.Write(block[:min(int64(len(block)), size-done)])
		done += int64(n)
		if err != nil {
			return fmt.Errorf("write %d bytes: %w", size, err)
		}
		clock.wait(done)
	}
	return nil
}

func read(f *os.File, clock pace) error {
	for done := int64(0); ; {
		n, err := f.ReadAt(block[:], done)
		done += int64(n)
		clock.wait(done)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
	}
}
