package options

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// MaxFileBytes bounds a configuration, of a file or of another origin. One with every option has 6 KB. Of the worst
// content with this size the parser allocates 35 MB, and a running agent has to bear it.
const MaxFileBytes = 128 << 10

// errTooLarge is the error of a configuration that is larger than MaxFileBytes.
var errTooLarge = fmt.Errorf("it is larger than %d bytes", MaxFileBytes)

// ReadAll reads a configuration to its end. Returns an error if it is larger than MaxFileBytes.
func ReadAll(from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, MaxFileBytes+1))
	if err == nil && len(data) > MaxFileBytes {
		return nil, errTooLarge
	}
	return data, err
}

// ReadFile reads a configuration file, which may be a pipe. Returns an error if it can not be read, or
// is larger than MaxFileBytes.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readOpen(f)
}

func readOpen(f *os.File) ([]byte, error) {
	data, err := ReadAll(f)
	if errors.Is(err, errTooLarge) {
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: err}
	}
	return data, err
}

var errNotRegular = errors.New("it is no regular file")

// readRegular is ReadFile for regular files alone. It never waits for the writer of a pipe.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errNotRegular}
	}
	if err != nil {
		return nil, err
	}
	return readOpen(f)
}
