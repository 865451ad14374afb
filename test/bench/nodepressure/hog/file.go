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

// block is what files are made of.
var block [256 << 10]byte

// appendTo writes bytes to a file that was opened for appending.
func appendTo(f *os.File, size int64, pace pace) error {
	for done := int64(0); done < size; {
		n, err := f.Write(block[:min(int64(len(block)), size-done)])
		done += int64(n)
		if err != nil {
			return fmt.Errorf("write %d bytes: %w", size, err)
		}
		pace.wait(done)
	}
	return nil
}

// openShared makes the file in memory. Children inherit it with its offset, so that only appending is safe.
func (p *process) openShared() error {
	fd, err := unix.MemfdCreate("shared", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make a file in memory: %w", err)
	}
	p.shared = os.NewFile(uintptr(fd), "shared")
	if _, err := unix.FcntlInt(p.shared.Fd(), unix.F_SETFL, unix.O_APPEND); err != nil {
		return fmt.Errorf("append to a file in memory: %w", err)
	}
	return nil
}

// disk returns the file without a name, which the kernel removes with the process.
func (p *process) disk() (*os.File, error) {
	if p.file == nil {
		fd, err := unix.Open(p.Scratch, unix.O_TMPFILE|unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, fmt.Errorf("make a nameless file in %s: %w", p.Scratch, err)
		}
		p.file = os.NewFile(uintptr(fd), p.Scratch)
	}
	return p.file, nil
}

func (p *process) write(size int64, pace pace) error {
	f, err := p.disk()
	if err != nil {
		return err
	}
	return appendTo(f, size, pace)
}

// read reads the file again and again for a time.
func (p *process) read(d time.Duration, pace pace) error {
	f, err := p.disk()
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return errors.New("the file is empty: write first")
	}
	at, done := int64(0), int64(0)
	for end := time.Now().Add(d); time.Now().Before(end); {
		n, err := f.ReadAt(block[:], at)
		at, done = at+int64(n), done+int64(n)
		if errors.Is(err, io.EOF) {
			at = 0
		} else if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		pace.wait(done)
	}
	return nil
}

// mapFile maps the file and reads a part of it page by page.
func (p *process) mapFile(size int64, pace pace) error {
	f, err := p.disk()
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size = min(size, info.Size())
	if size == 0 {
		return errors.New("the file is empty: write first")
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %d bytes of a file: %w", size, err)
	}
	for done := int64(0); done < size; {
		for end := min(done+pace.step(), size); done < end; done += page {
			p.sum += m[done]
		}
		pace.wait(min(done, size))
	}
	return nil
}

// makeFiles creates empty files. They remain.
func (p *process) makeFiles(count int) error {
	dir, err := os.MkdirTemp(p.Scratch, "files-")
	if err != nil {
		return err
	}
	for i := range count {
		fd, err := unix.Open(filepath.Join(dir, fmt.Sprint(i)), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return fmt.Errorf("create file %d: %w", i, err)
		}
		_ = unix.Close(fd) // nothing was written
	}
	return nil
}
