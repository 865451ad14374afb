package ring

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// storage is a place of segments.
type storage interface {
	// list returns the segments, the oldest first.
	list() ([]Segment, error)
	// create creates a segment and reserves its space, if the place can reserve any.
	create(number uint64, bytes int64) (file, error)
	remove(number uint64) error
	close()
}

// file is a segment that is appended to.
type file interface {
	io.Writer
	Truncate(size int64) error
	Close() error
}

// Segment is a file of a recording on a node.
type Segment struct {
	Path   string
	Number uint64
	Size   int64 // of its content
	bytes  int64 // that it occupies, reserved ones included
}

// suffix is that of the names of segments. The rest is the number.
const suffix = ".segment"

func nameOf(number uint64) string { return fmt.Sprintf("%010d%s", number, suffix) }

// List returns the segments of a recording in a directory, the oldest first. It returns an error if
// the directory can not be read.
func List(dir string) ([]Segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the segments of a recording: %w", err)
	}
	var all []Segment
	for _, e := range entries {
		digits, is := strings.CutSuffix(e.Name(), suffix)
		number, err := strconv.ParseUint(digits, 10, 64)
		if !is || err != nil || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the segments of a recording: %w", err)
		}
		s := Segment{Path: filepath.Join(dir, e.Name()), Number: number, Size: info.Size(), bytes: info.Size()}
		if stat, is := info.Sys().(*syscall.Stat_t); is {
			s.bytes = max(s.bytes, 512*stat.Blocks)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Segment) int { return compare(a.Number, b.Number) })
	return all, nil
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// maxRead bounds a segment that is read.
const maxRead = 1 << 30

// Read returns the content of a segment, which may be appended to meanwhile. It returns an error if
// it can not be read.
func (s Segment) Read() ([]byte, error) {
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, fmt.Errorf("read a segment of a recording: %w", err)
	}
	defer f.Close()
	buffer := bytes.NewBuffer(make([]byte, 0, min(s.Size, maxRead)+alignment)) // growing it would take twice as much
	_, err = buffer.ReadFrom(io.LimitReader(f, maxRead+1))
	data := buffer.Bytes()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the segment %s: %w", s.Path, err)
	case len(data) > maxRead:
		return nil, fmt.Errorf("read the segment %s: it is larger than %d bytes", s.Path, maxRead)
	}
	return data, nil
}

// directory stores segments as files.
type directory struct {
	path string
	lock *os.File
}

// errInUse is the error for a directory in which another process records.
var errInUse = errors.New("another process records in this directory: use one directory for each agent")

// openDirectory creates the directory if it is missing, and releases space that a killed process
// has reserved in it. It returns an error if another process records there.
func openDirectory(path string) (*directory, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory: %w", err)
	}
	lock, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		lock.Close()
		return nil, errInUse // any other error: the file system has no locks
	}
	d := &directory{path: path, lock: lock}
	segments, err := d.list()
	if err != nil {
		lock.Close()
		return nil, err
	}
	for _, s := range segments {
		if s.bytes > s.Size {
			_ = os.Truncate(s.Path, s.Size) // also releases what is reserved behind the end
		}
	}
	return d, nil
}

func (d *directory) list() ([]Segment, error) { return List(d.path) }

func (d *directory) create(number uint64, bytes int64) (file, error) {
	path := filepath.Join(d.path, nameOf(number))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create a segment: %w", err)
	}
	err = reserve(f, bytes)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		f.Close()
		return nil, errors.Join(fmt.Errorf("reserve %d bytes for the segment %s: %w", bytes, path, err), os.Remove(path))
	}
	return f, nil // any other error: the file system can not reserve space
}

// keepSize makes fallocate(2) leave the size of the file as it is (FALLOC_FL_KEEP_SIZE).
const keepSize = 1

func reserve(f *os.File, bytes int64) error {
	for {
		err := syscall.Fallocate(int(f.Fd()), keepSize, 0, bytes)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func (d *directory) remove(number uint64) error {
	if err := os.Remove(filepath.Join(d.path, nameOf(number))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a segment: %w", err)
	}
	return nil
}

func (d *directory) close() { d.lock.Close() }
