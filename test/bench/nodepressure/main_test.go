package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
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
