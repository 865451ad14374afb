package checkpoint_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"plimsoll.dev/plimsoll/internal/checkpoint"
	"plimsoll.dev/plimsoll/test/harness/statefile"
)

func sections(t *testing.T, path string) *checkpoint.Sections {
	t.Helper()
	s, _ := statefile.Open(t, checkpoint.SystemClock(), path, "boot")
	return s
}

func TestSections_PreservedForEachOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	first := sections(t, path)
	var owners sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		owners.Go(func() {
			for i := range 100 {
				first.Save(name, map[string]int{"n": i})
			}
		})
	}
	owners.Wait()
	statefile.Finish(t, first)
	first.Save("a", "too late")
	second := sections(t, path)
	second.Save("b", "other")
	statefile.Finish(t, second)
	third := sections(t, path)
	defer third.Close()
	var a map[string]int
	if err := third.Load("a", &a); err != nil || a["n"] != 99 {
		t.Errorf("%v, %v, want the section that was not saved again", a, err)
	}
	b := ""
	if err := third.Load("b", &b); err != nil || b != "other" {
		t.Errorf("%q, %v", b, err)
	}
	value := 7
	if err := third.Load("none", &value); err != nil || value != 7 {
		t.Errorf("%d, %v", value, err)
	}
	if err := third.Load("c", &value); err == nil || !strings.Contains(err.Error(), "read c from the state file") {
		t.Errorf("%v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !json.Valid(text) {
		t.Errorf("%s, %v", text, err)
	}
}
