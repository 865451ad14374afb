package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// Sections are a state of parts with different owners. Its methods are safe for concurrent use.
type Sections struct {
	mu    sync.Mutex
	parts map[string]any
	saver *Saver[map[string]any]
	times *times
}

// Stamp converts a time of this process for saving. Its age is then known after a restart, even if
// the time of day was set meanwhile.
func (s *Sections) Stamp(t time.Time) time.Time { return s.times.stamp(t) }

// Moment converts a time saved by [Sections.Stamp] to the present time of day.
func (s *Sections) Moment(t time.Time) time.Time { return s.times.moment(t) }

// OpenSections loads the file and starts to save to it. The notice is that of [File.Load]. Errors
// of saving go to failed, only the first of a series. Returns an error if the file cannot be read.
func OpenSections(f *File, failed func(error)) (s *Sections, notice string, err error) {
	loaded := map[string]json.RawMessage{}
	if notice, err = f.Load(&loaded); err != nil {
		return nil, "", err
	}
	s = &Sections{parts: map[string]any{}, times: f.times}
	for name, raw := range loaded { // unknown sections are preserved for the version that knows them
		s.parts[name] = raw
	}
	s.saver = NewSaver[map[string]any](f, failed)
	return s, notice, nil
}

// Load decodes a section into into, and does not change into if there is none. It must be called
// before the first Save of the section. Returns [Partly] if some fields have another form; the
// others are in into.
func (s *Sections) Load(name string, into any) error {
	s.mu.Lock()
	raw, loaded := s.parts[name].(json.RawMessage)
	s.mu.Unlock()
	if !loaded {
		return nil
	}
	err := json.Unmarshal(raw, into)
	if form := (*json.UnmarshalTypeError)(nil); errors.As(err, &form) && form.Field != "" {
		return &Partly{name, form}
	}
	if err != nil {
		return fmt.Errorf("read %s from the state file: %w", name, err)
	}
	return nil
}

// Save queues a section without blocking. The value must not be changed afterwards: it is encoded
// later.
func (s *Sections) Save(name string, part any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts == nil {
		return // closed
	}
	s.parts[name] = part
	s.saver.Save(maps.Clone(s.parts))
}

// Erase removes the file, and holds later sections in memory until Resume: the cleanup of a node
// leaves nothing on it. It waits for the disk. Returns an error if the file cannot be removed.
func (s *Sections) Erase() error { return s.saver.Erase() }

// Resume saves again, starting with the sections held in memory.
func (s *Sections) Resume() {
	s.saver.Resume()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts != nil {
		s.saver.Save(maps.Clone(s.parts))
	}
}

// Close saves the last state and stops the saver. Later sections are lost.
func (s *Sections) Close() {
	s.mu.Lock()
	s.parts = nil
	s.mu.Unlock()
	s.saver.Close()
}
