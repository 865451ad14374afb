package checkpoint_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"plimsoll.dev/plimsoll/internal/checkpoint"
)

func sections(t *testing.T, path string) *checkpoint.Sections {
	t.Helper()
	f, err := checkpoint.Open(path, "boot")
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := checkpoint.OpenSections(f, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// finish closes a state, and waits until it is written. Close waits for seconds at most; in a bubble no time passes while it
// waits for a goroutine outside.
func finish(t *testing.T, state interface{ Close() }) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { state.Close() })
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
	finish(t, first)
	first.Save("a", "too late")
	second := sections(t, path)
	second.Save("b", "other")
	finish(t, second)
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
