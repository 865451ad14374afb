package recordingcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// writeWhole calls write with a new file, which gets its name once write has succeeded: a part of an export looks like a
// whole one. What exists and is no regular file, as a pipe, is written to as it is. Returns the error of write, or of the file.
func writeWhole(name string, write func(io.Writer) error) (err error) {
	if info, fault := os.Stat(name); fault == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("export a recording: %w", err)
		}
		return errors.Join(write(f), f.Close())
	}
	if resolved, fault := filepath.EvalSymlinks(name); fault == nil { // the file is replaced, not a link to it
		name = resolved
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.part")
	if err != nil {
		return fmt.Errorf("export a recording: %w", err)
	}
	err = write(f)
	if closed := f.Close(); err == nil && closed != nil {
		err = fmt.Errorf("export a recording: %w", closed)
	}
	if err == nil {
		if renamed := os.Rename(f.Name(), name); renamed != nil {
			err = fmt.Errorf("export a recording: %w", renamed)
		}
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
