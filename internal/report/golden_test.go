package report

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the reports in testdata instead of comparing them")

// The reports in testdata are those of a pod that leaks. Read them after a change.
func TestForms_MatchGolden(t *testing.T) {
	all := forms(t, read(t, leak(t), Options{}))
	for _, form := range []string{"html", "md"} { // the picture is in the page
		got := all[form]
		name := filepath.Join("testdata", "leak."+form)
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil || got != string(want) {
			t.Errorf("%s differs (%v): %s\nread the report, then run go test ./internal/report -run Golden -update", name, err, firstDifference(got, string(want)))
		}
	}
}
