package disarmfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/internal/arming"
)

func TestFile_State(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sub")
	file := File(filepath.Join(dir, "disarm"))
	for _, step := range []struct {
		name string
		do   func() error
		want arming.File
	}{
		{"missing directory", func() error { return nil }, arming.Absent},
		{"created with its directory", func() error { return file.Create("by a test") }, arming.Present},
		{"removed", file.Remove, arming.Absent},
		{"removed again", file.Remove, arming.Absent},
		{"link to a missing file", func() error { return os.Symlink("/nowhere", string(file)) }, arming.Present},
		{"created over the link", func() error { return file.Create("by a test") }, arming.Present},
		{"link removed", file.Remove, arming.Absent},
		{"below a file", func() error { return replaceByFile(dir) }, arming.Hidden},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := file.State(); got != step.want {
			t.Errorf("%s: state %d, want %d", step.name, got, step.want)
		}
	}
}

func replaceByFile(dir string) error {
	if err := os.Remove(dir); err != nil {
		return err
	}
	return os.WriteFile(dir, nil, 0o600)
}

func TestFile_Create(t *testing.T) {
	file := File(filepath.Join(t.TempDir(), "disarm"))
	if err := file.Create("by a test"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(string(file)); err != nil || !strings.HasPrefix(string(text), "disarmed at ") || !strings.Contains(string(text), "by a test") {
		t.Errorf("%v: %s", err, text)
	}
}

func TestFile_WithoutPath(t *testing.T) {
	none := File("")
	if none.State() != arming.Absent || none.Remove() != nil || none.Create("by a test") == nil {
		t.Error("an empty path has a file")
	}
}
