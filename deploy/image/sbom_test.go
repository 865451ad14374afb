package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema returns the schema of the specification, from the module of the library.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	for _, name := range []string{"spdx.schema.json", "jsf-0.82.schemax.json", "bom-1.6.schema.json"} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "schema", name))
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource("http://cyclonedx.org/schema/"+strings.Replace(name, "schemax", "schema", 1), document); err != nil {
			t.Fatal(err)
		}
	}
	compiled, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func TestBOM_ListsModulesOfBinary(t *testing.T) {
	valid, dir, serials := schema(t), t.TempDir(), map[string]string{}
	for _, b := range binaries(t) {
		path := filepath.Join(dir, b.arch)
		if err := writeBOM(path, tested, b); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := valid.Validate(document); err != nil {
			t.Errorf("the list for %s: %v", b.arch, err)
		}
		var bom cdx.BOM
		if err := json.Unmarshal(text, &bom); err != nil {
			t.Fatal(err)
		}
		serials[bom.SerialNumber] = b.arch
		checkParts(t, bom, b)
	}
	if len(serials) != len(architectures) {
		t.Errorf("two lists have one serial number: %v", serials)
	}
}

// checkParts compares with `go version -m`, which reads binaries independently.
func checkParts(t *testing.T, bom cdx.BOM, b *binary) {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "version", "-m", filepath.Join(dir, b.arch)).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"stdlib " + strings.TrimPrefix(runtime.Version(), "go"): true}
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); words[0] == "dep" {
			want[words[1]+" "+words[2]] = true
		}
	}
	got, urls := map[string]bool{}, map[string]bool{}
	for _, part := range *bom.Components {
		got[part.Name+" "+part.Version] = true
		urls[part.PackageURL] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("the list for %s has %v, the binary %v", b.arch, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	if url := "pkg:golang/github.com/CycloneDX/cyclonedx-go@v0.12.0"; len(want) < 4 || !urls[url] {
		t.Errorf("%s is not among %v", url, slices.Sorted(maps.Keys(urls)))
	}
}

func TestModule_DescribesReplacements(t *testing.T) {
	const sum = "h1:LyU5fQw8RRfmKeFhsVg9N4ZAhWpFMrbqYKPmYLoBWAA="
	replaced := &debug.Module{Path: "example.org/a", Version: "v1.0.0", Sum: sum,
		Replace: &debug.Module{Path: "example.org/fork/a", Version: "v2.0.0+incompatible", Sum: sum}}
	part, err := module(replaced)
	if err != nil || part.PackageURL != "pkg:golang/example.org/fork/a@v2.0.0%2Bincompatible" || (*part.Hashes)[0].Value[:6] != "2f2539" {
		t.Errorf("replacement of a module: %+v, %v", part, err)
	}
	for name, m := range map[string]*debug.Module{
		"a directory": {Path: "example.org/a", Version: "v1.0.0", Replace: &debug.Module{Path: "../a"}},
		"no base64":   {Path: "example.org/a", Version: "v1.0.0", Sum: "h1:§"},
	} {
		if part, err := module(m); err == nil {
			t.Errorf("%s: got %+v, want an error", name, part)
		}
	}
}
