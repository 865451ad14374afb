package generated

import (
	"bytes"
	"os"
	"testing"
)

// Part is a generated part of a document: the text between two marks.
type Part struct {
	Begin, End string
	Text       []byte
}

// CompareFile fails the test if the file at path differs from a text. With update it writes the file instead.
func CompareFile(t testing.TB, path string, update bool, got string) {
	t.Helper()
	if update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s, made with -update: got\n%s\nwant\n%s", path, got, want)
	}
}

// Compare fails the test if a part of the document at path differs from its text. With update it writes
// the document instead.
func Compare(t testing.TB, path string, update bool, parts ...Part) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := text
	for _, p := range parts {
		before, rest, found := bytes.Cut(want, []byte(p.Begin))
		_, after, closed := bytes.Cut(rest, []byte(p.End))
		if !found || !closed {
			t.Fatalf("%s has no marks %q and %q", path, p.Begin, p.End)
		}
		want = bytes.Join([][]byte{before, []byte(p.Begin), p.Text, []byte(p.End), after}, nil)
	}
	switch {
	case bytes.Equal(want, text):
	case update:
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from what is generated: run make docs", path)
	}
}
