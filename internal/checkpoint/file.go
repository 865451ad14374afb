package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"
)

// maxBytes bounds the size of a state file: a state is a few kilobytes.
const maxBytes = 8 << 20

// Suffixes of files beside the state file: the temporary one, and the preserved ones.
const newSuffix, damagedSuffix, laterSuffix = ".new", ".damaged", ".later"

// content is the content of the file.
type content struct {
	Version int             `json:"version"`
	BootID  string          `json:"bootID"`
	Saved   time.Time       `json:"saved"`
	Clock   reference       `json:"clock,omitzero"`
	State   json.RawMessage `json:"state"`
}

// File is a state file.
type File struct {
	path   string
	bootID string
	times  *times
}

// Open returns the state file at path for the running boot and creates its directory if that is
// missing. Returns an error if the directory cannot be created.
func Open(path, bootID string) (*File, error) { return OpenBy(SystemClock(), path, bootID) }

// OpenBy is [Open] with another clock than the machine's. Returns an error as Open does.
func OpenBy(clock Clock, path, bootID string) (*File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("make the directory of the state file %s: %w; give another --state-file", path, err)
	}
	return &File{path, bootID, newTimes(clock)}, nil
}

// BootID returns the identity of the running boot, read below a proc root. Returns an error if it
// cannot be read.
func BootID(procRoot string) (string, error) {
	path := filepath.Join(procRoot, "sys/kernel/random/boot_id")
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the boot ID: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// Load decodes the saved state into into, a pointer. It does not change into if there is no usable
// state. notice is for the log: that no state exists, or the reason for not using it. A file of an
// older version is migrated; of a later one, the known parts are used. Returns an error only if the
// file cannot be read at all.
func (f *File) Load(into any) (notice string, err error) {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no state was saved before: starting afresh", nil
	case err != nil:
		return "", fmt.Errorf("read the state file: %w", err)
	case info.Size() > maxBytes:
		return f.setAside(fmt.Errorf("larger than %d bytes", maxBytes)), nil
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return "", fmt.Errorf("read the state file: %w", err)
	}
	c, err := parse(data)
	if err == nil && c.BootID == f.bootID {
		err = c.migrate()
	}
	switch {
	case err != nil:
		return f.setAside(err), nil
	case c.BootID != f.bootID:
		return "the saved state is of an earlier boot: starting afresh", nil
	}
	// A failed decoder has filled in a part, which must not reach into.
	fresh := reflect.New(reflect.TypeOf(into).Elem())
	if err := json.Unmarshal(c.State, fresh.Interface()); err != nil {
		return f.setAside(err), nil
	}
	reflect.ValueOf(into).Elem().Set(fresh.Elem())
	f.times.loaded(c.Clock)
	if c.Version > version {
		return f.keepLater(data, c.Version), nil
	}
	return fmt.Sprintf("continuing from the state saved at %s", c.Saved.Format(time.RFC3339)), nil
}

// setAside renames a damaged file, so that an operator can examine it.
func (f *File) setAside(why error) (notice string) {
	aside := f.path + damagedSuffix
	if err := os.Rename(f.path, aside); err != nil {
		return fmt.Sprintf("the state file %s is damaged (%v) and could not be set aside (%v): starting afresh", f.path, why, err)
	}
	return fmt.Sprintf("the state file %s is damaged (%v): set aside as %s, starting afresh", f.path, why, aside)
}

// Save writes a state atomically: to a temporary file, then by a rename. It does not sync the disk:
// a crash of the machine ends the boot, and the next boot does not use the state. Returns an error
// if the state cannot be encoded or written.
func (f *File) Save(state any, now time.Time) error {
	raw, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode the state: %w", err)
	}
	data, err := json.MarshalIndent(content{version, f.bootID, now.Round(0), f.times.reference(), raw}, "", " ")
	if err != nil {
		return fmt.Errorf("encode the state: %w", err)
	}
	return f.replace(append(data, '\n'))
}

func (f *File) replace(data []byte) (err error) {
	beside := f.path + newSuffix
	defer func() {
		if err != nil {
			_ = os.Remove(beside)
			err = fmt.Errorf("save the state in %s: %w", f.path, err)
		}
	}()
	file, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(beside, f.path)
}

// Remove removes the file and its preserved copies. A missing file is no error. Returns an error if
// a file cannot be removed.
func (f *File) Remove() error {
	for _, path := range []string{f.path, f.path + newSuffix, f.path + damagedSuffix, f.path + laterSuffix} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the state file: %w", err)
		}
	}
	return nil
}

// Saver writes states in a separate goroutine. The latest one counts: states that arrive while a
// slow disk is busy are skipped.
type Saver[T any] struct {
	file   *File
	latest chan T
	done   chan struct{}

	mu      sync.Mutex // guards the file and the following fields
	written []byte
	erased  bool
}

// NewSaver starts to save to f. It passes errors to failed, only the first of a series.
func NewSaver[T any](f *File, failed func(error)) *Saver[T] {
	s := &Saver[T]{file: f, latest: make(chan T, 1), done: make(chan struct{})}
	go s.run(failed)
	return s
}

// Save queues a state without blocking. All calls must come from one goroutine.
func (s *Saver[T]) Save(state T) {
	select {
	case <-s.latest: // not started yet: replaced
	default:
	}
	s.latest <- state
}

// closeWait bounds the wait for an unresponsive disk.
const closeWait = 5 * time.Second

// Close saves the last state and stops the saver.
func (s *Saver[T]) Close() {
	close(s.latest)
	select {
	case <-s.done:
	case <-time.After(closeWait):
	}
}

func (s *Saver[T]) run(failed func(error)) {
	defer close(s.done)
	reported := false
	for state := range s.latest {
		err := s.write(state)
		if err != nil && !reported {
			failed(err)
		}
		reported = err != nil
	}
}

func (s *Saver[T]) write(state T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := json.Marshal(state)
	if s.erased || err == nil && bytes.Equal(raw, s.written) {
		return nil // unchanged: no write is necessary
	}
	if err = s.file.Save(state, time.Now()); err == nil {
		s.written = raw
	}
	return err
}

// Erase removes the file and suspends saving until Resume. It waits for the disk. Returns an error
// if the file cannot be removed; saving then continues.
func (s *Saver[T]) Erase() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.file.Remove()
	s.erased, s.written = err == nil, nil
	return err
}

// Resume saves later states again.
func (s *Saver[T]) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erased = false
}
