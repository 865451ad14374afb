package main

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/report"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/result"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

// own is the path of this module, below that of the product.
const own = "plimsoll.dev/plimsoll/test/bench/nodepressure"

// TestModule_IsNeutral checks that the benchmark imports nothing of a contestant, and names none outside of
// the catalogue.
func TestModule_IsNeutral(t *testing.T) {
	contestants, err := os.ReadDir("catalogue/contestants")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range file.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if strings.HasPrefix(name, "plimsoll.dev/") && name != own && !strings.HasPrefix(name, own+"/") {
				t.Errorf("%s imports %s: the referee is neutral", path, name)
			}
		}
		text, err := os.ReadFile(path)
		if strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, c := range contestants {
			name := strings.TrimSuffix(c.Name(), ".yaml")
			if name != "kernel" && name != "kubelet" && strings.Contains(strings.ReplaceAll(string(text), "plimsoll.dev/plimsoll", ""), name) {
				t.Errorf("%s names the contestant %s", path, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// machineInReadme is the machine of the results in README.md. Results of others may be published too.
const machineInReadme = "qemu-tcg-2cpu-1280MiB"

// inReadme has the words before the result of a contestant in README.md.
var inReadme = map[string]string{
	"plimsoll": "Plimsoll won", "earlyoom": "earlyoom", "nohang": "nohang", "kubelet": "the kubelet", "systemd-oomd": "systemd-oomd and the kernel alone", "kernel": "the kernel alone",
}

// TestDocuments_ShowTheResults checks that the published tables and the picture are the report of the
// published results, so that no figure in them is written by hand.
func TestDocuments_ShowTheResults(t *testing.T) {
	results, err := result.Read("results")
	if err != nil {
		t.Fatal(err)
	}
	again, err := result.Read("results-again")
	if err != nil {
		t.Fatal(err)
	}
	r := report.New(results)
	r.Pairs = report.Pairs(results, again)
	if r.Margin, err = report.ParseMargin("plimsoll=500ms", results); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(io.Writer) error{
		"docs/internals/node-pressure-results.md": r.Markdown, "docs/node-pressure.svg": r.Picture,
	} {
		var want bytes.Buffer
		if err := write(&want); err != nil {
			t.Fatal(err)
		}
		if got := document(t, name); got != want.String() {
			t.Errorf("%s is not the report of the results: run `make node-pressure-pages`", name)
		}
	}
	i := slices.IndexFunc(r.Sections, func(s *report.Section) bool { return strings.HasPrefix(s.Machine, machineInReadme+":") })
	if i < 0 {
		t.Fatalf("no result is of the machine %s", machineInReadme)
	}
	readme := strings.Join(strings.Fields(document(t, "README.md")), " ")
	for _, c := range r.Sections[i].Contestants {
		want := fmt.Sprintf("%s %d of %d", inReadme[c.Name], c.Total.Verdicts[score.Won], c.Total.Runs)
		if inReadme[c.Name] != "" && !strings.Contains(readme, want) {
			t.Errorf("README.md lacks the result: %s", want)
		}
	}
}

// document returns the text of a file of the project.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
