package checkpoint_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/checkpoint"
	"plimsoll.dev/plimsoll/test/harness/statefile"
)

type sample struct {
	N     int
	Acted bool
}

func open(t *testing.T, dir, boot string) *checkpoint.File {
	t.Helper()
	f, err := checkpoint.Open(filepath.Join(dir, "sub", "state.json"), boot)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFile_LoadsStateOfSameBoot(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, "boot-1")
	var got sample
	if notice, err := f.Load(&got); err != nil || !strings.Contains(notice, "no state was saved") {
		t.Fatalf("%q %v", notice, err)
	}
	if err := f.Save(sample{N: 7}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if notice, err := open(t, dir, "boot-1").Load(&got); err != nil || got.N != 7 {
		t.Fatalf("%q %v %+v", notice, err, got)
	}
	got = sample{}
	if notice, err := open(t, dir, "boot-2").Load(&got); err != nil || got.N != 0 || !strings.Contains(notice, "earlier boot") {
		t.Errorf("state of another boot: %q %v %+v", notice, err, got)
	}
}

func TestFile_RenamesDamagedFile(t *testing.T) {
	for name, text := range map[string]string{
		"truncated":    `{"version":1,"bootID":"b","state":{"N":`,
		"empty":        ``,
		"no version":   `{"bootID":"b","state":{"N":1}}`,
		"version 0":    `{"version":0,"bootID":"b","state":{"N":1}}`,
		"other form":   `{"version":3,"bootID":"b","state":{"N":"one"}}`,
		"partly valid": `{"version":3,"bootID":"b","state":{"N":5,"Acted":"yes"}}`,
		"too large":    strings.Repeat("x", 9<<20),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, dir, "b")
			path := filepath.Join(dir, "sub", "state.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var got sample
			notice, err := f.Load(&got)
			if err != nil || !strings.Contains(notice, "damaged") || got != (sample{}) {
				t.Fatalf("%q %v %+v", notice, err, got)
			}
			if value, err := os.ReadFile(path + ".damaged"); err != nil || string(value) != text {
				t.Errorf("damaged file not renamed: %v", err)
			}
			if err := f.Save(sample{N: 1}, time.Now()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSaver_WritesLatestState(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, "b")
	s := checkpoint.NewSaver[sample](f, func(err error) { t.Error(err) })
	for n := range 100 {
		s.Save(sample{N: n})
	}
	statefile.Finish(t, s)
	var got sample
	if _, err := f.Load(&got); err != nil || got.N != 99 {
		t.Errorf("%v %+v", err, got)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "sub"))
	if err != nil || len(entries) != 1 {
		t.Errorf("files beside the state file: %v %v", entries, err)
	}
}

func TestSaver_ReportsFailureOnce(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, "b")
	// A directory in the place of the temporary file makes every save fail, for root too.
	if err := os.Mkdir(filepath.Join(dir, "sub", "state.json.new"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "state.json.new", "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	reports := 0
	s := checkpoint.NewSaver[sample](f, func(err error) {
		reports++
		if !strings.Contains(err.Error(), "state.json") {
			t.Errorf("the file is not named: %v", err)
		}
	})
	for n := range 10 {
		s.Save(sample{N: n})
	}
	statefile.Finish(t, s)
	if reports != 1 {
		t.Errorf("%d reports, want one", reports)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"version":1,"bootID":"b","state":{"N":1}}`))
	f.Add([]byte(`{"version":2,"bootID":"b","saved":"2026-11-20T10:00:00Z","state":{"N":1}}`))
	f.Add([]byte(`{"version":3,"bootID":"b","clock":{"wall":"2026-11-20T10:00:00Z","sinceBootNanos":7},"state":{"N":1}}`))
	f.Add([]byte(`{"version":3,"bootID":"b","state":{"N":1,"restraint":{"reliefs":[{"futile":1,"holds":2},null]},"debts":[],"arming":{"all":{"word":"armed"},"node":7}}}`))
	f.Add([]byte(`{"version":99,"bootID":"b","clock":[],"saved":1,"state":{"N":1,"more":{}}}`))
	f.Add([]byte(`{"version":1e9}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		file, err := checkpoint.Open(filepath.Join(dir, "s.json"), "b")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "s.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		var got sample
		if _, err := file.Load(&got); err != nil {
			t.Errorf("a damaged file causes an error: %v", err)
		}
	})
}
