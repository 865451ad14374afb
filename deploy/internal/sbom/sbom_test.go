package sbom

import (
	"bytes"
	"debug/buildinfo"
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
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"plimsoll.dev/plimsoll/deploy/internal/fixture"
)

func TestMain(m *testing.M) { fixture.Main(m) }

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

func TestJSON_ListsModulesOfProgram(t *testing.T) {
	valid, serials := schema(t), map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		file := fixture.Program(t, "linux", arch)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		info, err := buildinfo.Read(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		list, err := Program{"plimsoll", "1.2.3", time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC), text, info}.JSON()
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(list))
		if err != nil {
			t.Fatal(err)
		}
		if err := valid.Validate(document); err != nil {
			t.Errorf("the list for %s: %v", arch, err)
		}
		var bom cdx.BOM
		if err := json.Unmarshal(list, &bom); err != nil {
			t.Fatal(err)
		}
		serials[bom.SerialNumber] = arch
		checkParts(t, bom, file)
	}
	if len(serials) != 2 {
		t.Errorf("two lists have one serial number: %v", serials)
	}
}

// checkParts compares with `go version -m`, which reads programs independently.
func checkParts(t *testing.T, bom cdx.BOM, file string) {
	t.Helper()
	out, err := exec.Command("go", "version", "-m", file).Output()
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
		t.Errorf("the list for %s has %v, the program %v", file, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
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
