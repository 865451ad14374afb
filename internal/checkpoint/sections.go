package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// Sections are a state made of parts that different goroutines own. All
// methods are safe for concurrent use.
type Sections struct {
	mu    sync.Mutex
	parts map[string]any
	saver *Saver[map[string]any]
	times *times
}

// Stamp is a time of this process as it is to be saved: so that its age is known
// after a restart, though the time of day was set meanwhile.
func (s *Sections) Stamp(t time.Time) time.Time { return s.times.stamp(t) }

// Moment is when a time that was saved by [Sections.Stamp] was, by the time of day
// now.
func (s *Sections) Moment(t time.Time) time.Time { return s.times.moment(t) }

// OpenSections loads the file and starts to save to it. The notice is that of
// [File.Load]; errors of saving are handed to failed, the first of a row only.
func OpenSections(f *File, failed func(error)) (s *Sections, notice string, err error) {
	loaded := map[string]json.RawMessage{}
	if notice, err = f.Load(&loaded); err != nil {
		return nil, "", err
	}
	s = &Sections{parts: map[string]any{}, times: f.times}
	for name, raw := range loaded { // what nobody asks for is kept for who knows it
		s.parts[name] = raw
	}
	s.saver = NewSaver[map[string]any](f, failed)
	return s, notice, nil
}

// Load decodes a section into into; it stays as it is if there is none. It is to
// be called before the section is saved for the first time. It returns a [Partly]
// error if some fields have another form; the others are in into.
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

// Save hands a section over without waiting. The value must not be changed
// afterwards: it is encoded later.
func (s *Sections) Save(name string, part any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts == nil {
		return // closed
	}
	s.parts[name] = part
	s.saver.Save(maps.Clone(s.parts))
}

// Erase removes the file, and keeps what is saved in memory only until Resume: a
// program that leaves a node leaves nothing there. It waits for the disk.
func (s *Sections) Erase() error { return s.saver.Erase() }

// Resume saves again, to begin with what was kept meanwhile.
func (s *Sections) Resume() {
	s.saver.Resume()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts != nil {
		s.saver.Save(maps.Clone(s.parts))
	}
}

// Close saves the last state and ends the saver. What is saved later is lost.
func (s *Sections) Close() {
	s.mu.Lock()
	s.parts = nil
	s.mu.Unlock()
	s.saver.Close()
}
