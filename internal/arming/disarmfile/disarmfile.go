// Package disarmfile detects, creates and removes the disarm file, which disarms an agent.
//
// It needs no API server: agent and commands share only the path. If the lookup of the file fails,
// its state is [arming.Hidden].
package disarmfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"plimsoll.dev/plimsoll/internal/arming"
)

// A File is the path of the disarm file; an empty one means that there is no such file.
type File string

// State returns the state of the file after one system call, the lookup of a name in a memory file
// system. A link to a missing file counts as present.
func (f File) State() arming.File {
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

// Create creates the file, and its directory if it is missing. Returns an error if that fails, or
// if the path is empty.
func (f File) Create(why string) error {
	if f == "" {
		return errors.New("make the disarm file: there is none, by --disarm-file")
	}
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o755); err != nil {
		return fmt.Errorf("make the directory of the disarm file: %w", err)
	}
	file, err := os.OpenFile(string(f), os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
	if errors.Is(err, syscall.ELOOP) { // a link: the file exists
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the disarm file: %w", err)
	}
	_, err = fmt.Fprintf(file, "disarmed at %s %s; remove this file to end that, or run plimsoll arm --local in the agent's pod\n", time.Now().UTC().Format(time.RFC3339), why)
	return errors.Join(err, file.Close())
}

// Remove removes the file. Returns an error if it exists and cannot be removed.
func (f File) Remove() error {
	if f == "" {
		return nil
	}
	if err := os.Remove(string(f)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the disarm file: %w", err)
	}
	return nil
}
