package checkpoint_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/test/harness/statefile"
)

func TestSections_ErasedUntilResumed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := sections(t, path) // it renames the damaged file
	s.Save("a", 1)
	if err := s.Erase(); err != nil {
		t.Fatal(err)
	}
	s.Save("a", 2)
	s.Save("b", 1)
	statefile.Finish(t, s)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v remain", left, err)
	}

	s = sections(t, path)
	if err := s.Erase(); err != nil {
		t.Errorf("erase without a file: %v", err)
	}
	s.Save("a", 3)
	s.Resume()
	statefile.Finish(t, s)
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), `"a": 3`) {
		t.Errorf("%s, %v: want the section saved meanwhile", text, err)
	}
}

func TestSections_FailedEraseDoesNotStopSaving(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	s := sections(t, path)
	if err := os.MkdirAll(filepath.Join(path, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Erase(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	s.Save("a", 1)
	statefile.Finish(t, s)
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), `"a": 1`) {
		t.Errorf("%s, %v: want the saved section", text, err)
	}
}
