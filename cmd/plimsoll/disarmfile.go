package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"plimsoll.dev/plimsoll/internal/arming"
)

// A disarmFile is the path of the file whose existence disarms; empty: there is
// none.
type disarmFile string

// look costs one system call: a lookup of a name in a file system of memory. A
// link that leads nowhere is there, too.
func (f disarmFile) look() arming.File {
	if f == "" {
		return arming.Absent
	}
	var st syscall.Stat_t
	switch err := syscall.Lstat(string(f), &st); err {
	case nil:
		return arming.Present
	case syscall.ENOENT:
		return arming.Absent
	}
	return arming.Hidden
}

// put makes the file, and its directory where it is missing.
func (f disarmFile) put(why string) error {
	if f == "" {
		return errors.New("make the disarm file: there is none, by --disarm-file")
	}
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o755); err != nil {
		return fmt.Errorf("make the directory of the disarm file: %w", err)
	}
	file, err := os.OpenFile(string(f), os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
	if errors.Is(err, syscall.ELOOP) { // a link: it is there
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the disarm file: %w", err)
	}
	_, err = fmt.Fprintf(file, "disarmed at %s %s; remove this file to end that, or run plimsoll arm --local in the agent's pod\n", time.Now().UTC().Format(time.RFC3339), why)
	return errors.Join(err, file.Close())
}

// take removes the file. That there is none is no error.
func (f disarmFile) take() error {
	if f == "" {
		return nil
	}
	if err := os.Remove(string(f)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the disarm file: %w", err)
	}
	return nil
}

// filePeriod is how often the directory of the file is looked for, to be notified
// of what happens there. Whatever is missed is found by the next regular look, and
// before anything is done that can not be undone.
const filePeriod = time.Minute

// watch has changed called whenever something happens in the file's directory,
// until ctx ends.
func (f disarmFile) watch(ctx context.Context, changed func()) {
	if f == "" {
		return
	}
	again(ctx, filePeriod, func() bool {
		f.follow(ctx, changed)
		return true
	})
}

// follow returns when the directory is not there (any more), or ctx ends.
func (f disarmFile) follow(ctx context.Context, changed func()) {
	dir := filepath.Dir(string(f))
	w, err := watchDirectory(dir)
	if err != nil {
		return
	}
	defer w.Close()
	changed() // while nobody watched
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Errors:
			return
		case e := <-w.Events:
			switch e.Name {
			case string(f):
				changed()
			case dir: // removed, or another was put in its place
				return
			}
		}
	}
}
