// Package statefile opens, finishes and reads the agent's state file for tests.
//
// Duties and invariants:
//
//   - A file that cannot be opened, and a section that cannot be saved, fail the test.
//   - No wait for a write is bounded by time, so that a slow machine fails no test.
package statefile

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/synctest"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/internal/checkpoint"
)

// Open opens the sections of a state file by a clock, and returns the notice of loading it. It fails the test if the
// file cannot be read, and if a section cannot be saved later. The caller closes the sections.
func Open(t *testing.T, clock checkpoint.Clock, path, bootID string) (s *checkpoint.Sections, notice string) {
	t.Helper()
	f, err := checkpoint.OpenBy(clock, path, bootID)
	if err != nil {
		t.Fatal(err)
	}
	s, notice, err = checkpoint.OpenSections(f, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	return s, notice
}

// Finish closes a state, and waits until it is written. Close waits for seconds at most; in a bubble no time passes while
// it waits for a goroutine outside.
func Finish(t *testing.T, state interface{ Close() }) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { state.Close() })
}

// Decisions returns the decisions of a state file. Returns an error if it cannot be read.
func Decisions(path string) (eviction.Saved, error) {
	var file struct {
		State struct{ Decisions eviction.Saved }
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		return eviction.Saved{}, fmt.Errorf("read the decisions of the state file %s: %w", path, err)
	}
	return file.State.Decisions, nil
}
