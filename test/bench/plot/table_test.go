package main

import (
	"bytes"
	"os"
	"slices"
	"testing"
)

const tables = `
| a | b |
|---|---|
| 1 | 2 |

| a | who | b |
|---|---|---|
| x | one | 8/10 |
| | two | 1 500 (21.2) |
| y | one | none |

| a | short |
|---|---|
| 1 |
`

func TestTableOf_FindsNumbers(t *testing.T) {
	found, err := tableOf(tables, "who", "b")
	if err != nil || len(found.rows) != 3 {
		t.Fatalf("%+v, %v, want three rows", found, err)
	}
	if got, err := found.numbers("b", "a", "x"); err != nil || !slices.Equal(got, []float64{8, 1500}) {
		t.Errorf("got %v, %v, want 8 and 1500", got, err)
	}
	for _, bad := range [][3]string{{"b", "a", "y"}, {"b", "a", "z"}, {"c", "a", "x"}} {
		if got, err := found.numbers(bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("numbers%q = %v, want an error", bad, got)
		}
	}
	for _, bad := range []string{"missing", "short"} {
		if got, err := tableOf(tables, bad); err == nil {
			t.Errorf("tableOf(%q) = %v, want an error", bad, got)
		}
	}
}

func TestPictures_MatchTables(t *testing.T) {
	document, err := os.ReadFile("../../../docs/internals/measurements.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range pictures {
		all, err := of(string(document))
		if err != nil {
			t.Fatal(err)
		}
		var svg bytes.Buffer
		if err := all.write(&svg); err != nil {
			t.Fatal(err)
		}
		if written, err := os.ReadFile("../../../docs/" + name); err != nil || !bytes.Equal(written, svg.Bytes()) {
			t.Errorf("docs/%s differs from the tables (%v): run make pictures", name, err)
		}
	}
}

func TestLabelled_SelectsModes(t *testing.T) {
	races := []race{{Mode: "10s"}, {Mode: "notified"}, {Mode: "loop"}}
	got, err := labelled(races, "notified=Plimsoll,10s")
	if err != nil || !slices.Equal(modesOf([]panel{{races: got}}), []string{"Plimsoll", "10s"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := labelled(races, "missing"); err == nil {
		t.Errorf("got %v, want an error", got)
	}
}
