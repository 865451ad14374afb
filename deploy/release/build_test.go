package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v2"
)

// small is a tree with everything that a release is made of, and programs that compile in a moment.
func small(t *testing.T) *tree {
	t.Helper()
	tree := written(t, map[string]string{
		"go.mod":                       "module example.org/small\n\ngo " + strings.TrimPrefix(runtime.Version(), "go") + "\n",
		"cmd/plimsoll/main.go":         "package main\n\nvar version, commit = \"devel\", \"\"\n\nfunc main() { println(version, commit) }\n",
		"cmd/client/main.go":           "package main\n\nfunc main() { println(1) }\n",
		"unit.service":                 "[Service]\n",
		"LICENSE":                      "free\n",
		"CHANGELOG.md":                 changes,
		chartDir + "/Chart.yaml":       "apiVersion: v2\nname: plimsoll\nversion: 0.2.0\nappVersion: 0.2.0\nhome: https://example.org\n",
		chartDir + "/.helmignore":      "*.swp\n",
		chartDir + "/a.yaml.swp":       "private\n",
		chartDir + "/templates/a.yaml": "kind: ConfigMap\n",
	})
	tree.places = []place{{chartDir + "/Chart.yaml", `^appVersion: `, `$`}}
	tree.programs = []program{
		{name: "plimsoll", systems: []system{{"linux", runtime.GOARCH}}, image: true, files: []string{"unit.service"}},
		{name: "client", systems: []system{{"windows", runtime.GOARCH}}, plugin: true},
	}
	return tree
}

func ordered(t *testing.T, tree *tree) *order {
	t.Helper()
	return &order{
		tree: tree, out: filepath.Join(t.TempDir(), "release"), version: "0.2.0", revision: strings.Repeat("a", 40),
		created: time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC), image: "registry.example/plimsoll", chart: "registry.example/charts/plimsoll",
		ldflags: "-s -w -X main.version=0.2.0",
	}
}

// content returns the files of a directory.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

// TestBuild_IsReproducible builds a release of equal trees in two directories.
func TestBuild_IsReproducible(t *testing.T) {
	var first map[string]string
	for range 2 {
		o := ordered(t, small(t))
		t.Setenv("TMPDIR", t.TempDir())
		if _, err := o.build(t.Context()); err != nil {
			t.Fatal(err)
		}
		files := content(t, o.out)
		if first == nil {
			first = files
			continue
		}
		for name := range maps.Keys(first) {
			if files[name] != first[name] {
				t.Errorf("%s is not the same from another directory", name)
			}
		}
		if len(files) != len(first) {
			t.Errorf("the second release has %d files, the first %d", len(files), len(first))
		}
	}
	var want []string
	for _, ending := range []string{"-chart.tar", "-image.tar", "-linux-" + runtime.GOARCH + ".cdx.json", "-linux-" + runtime.GOARCH + ".tar.gz", ".tgz"} {
		want = append(want, "plimsoll-0.2.0"+ending)
	}
	want = append(want, "client-0.2.0-windows-"+runtime.GOARCH+".cdx.json", "client-0.2.0-windows-"+runtime.GOARCH+".zip",
		"checksums.txt", "images.txt", "krew.yaml", "notes.md", "provenance.json")
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(first)); !slices.Equal(got, want) {
		t.Errorf("the release has\n%q, want\n%q", got, want)
	}
	checkArchives(t, first)
	checkKrew(t, first)
	checkProvenance(t, first)
}

func checkArchives(t *testing.T, files map[string]string) {
	t.Helper()
	unix := unpacked(t, files["plimsoll-0.2.0-linux-"+runtime.GOARCH+".tar.gz"])
	if got, want := slices.Sorted(maps.Keys(unix)), []string{"LICENSE", "NOTICE", "plimsoll", "unit.service"}; !slices.Equal(got, want) || !strings.Contains(unix["NOTICE"], "Go's standard library LICENSE\n") {
		t.Errorf("the archive for Linux has %q, want %q", got, want)
	}
	if !strings.Contains(unix["plimsoll"], "0.2.0") || strings.Contains(unix["plimsoll"], os.TempDir()+"/") {
		t.Error("the program has no version, or a path of this machine")
	}
	packed := files["client-0.2.0-windows-"+runtime.GOARCH+".zip"]
	windows, err := zip.NewReader(strings.NewReader(packed), int64(len(packed)))
	if err != nil || len(windows.File) != 3 || windows.File[0].Name != "client.exe" {
		t.Errorf("the archive for Windows has %+v, %v", windows, err)
	}
	chart := unpacked(t, files["plimsoll-0.2.0.tgz"])
	if got, want := slices.Sorted(maps.Keys(chart)), []string{"plimsoll/.helmignore", "plimsoll/Chart.yaml", "plimsoll/templates/a.yaml"}; !slices.Equal(got, want) {
		t.Errorf("the chart has %q, want %q", got, want)
	}
	if files["notes.md"] != "### Added\n\n- One.\n" {
		t.Errorf("the notes are %q", files["notes.md"])
	}
}

// checkKrew checks that the manifest has the fields that krew requires, and the digest of the archive that it names.
func checkKrew(t *testing.T, files map[string]string) {
	t.Helper()
	type platform struct {
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		URI    string `yaml:"uri"`
		SHA256 string `yaml:"sha256"`
		Bin    string
	}
	var m struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
		Spec       struct {
			Version, Homepage, Description, Caveats string
			ShortDescription                        string `yaml:"shortDescription"`
			Platforms                               []platform
		}
	}
	if err := yaml.UnmarshalStrict([]byte(files["krew.yaml"]), &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" || m.Metadata.Name != "plimsoll" || m.Spec.Version != "v0.2.0" ||
		m.Spec.Homepage == "" || m.Spec.Description == "" || m.Spec.Caveats == "" || m.Spec.ShortDescription == "" || len(m.Spec.Platforms) != 1 {
		t.Fatalf("the manifest is %+v", m)
	}
	p := m.Spec.Platforms[0]
	archive := path.Base(p.URI)
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte(files[archive]))); files[archive] == "" || p.SHA256 != want || p.URI != "https://plimsoll.dev/releases/v0.2.0/"+archive ||
		p.Bin != "client.exe" || p.Selector.MatchLabels["os"] != "windows" || p.Selector.MatchLabels["arch"] != runtime.GOARCH {
		t.Errorf("the platform is %+v, want the digest %s", p, want)
	}
}

// unpacked returns the files of a compressed tar archive.
func unpacked(t *testing.T, packed string) map[string]string {
	t.Helper()
	plain, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(plain); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}

// checkProvenance checks the statement against the fields that SLSA requires, by their names in its specification.
func checkProvenance(t *testing.T, files map[string]string) {
	t.Helper()
	var s struct {
		Type          string `json:"_type"`
		PredicateType string `json:"predicateType"`
		Subject       []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				BuildType            string
				ExternalParameters   map[string]string
				ResolvedDependencies []struct {
					URI    string
					Digest map[string]string
				}
			}
			RunDetails struct{ Builder struct{ ID string } }
		}
	}
	decoder := json.NewDecoder(strings.NewReader(files["provenance.json"]))
	if err := decoder.Decode(&s); err != nil {
		t.Fatal(err)
	}
	definition := s.Predicate.BuildDefinition
	if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://slsa.dev/provenance/v1" || definition.BuildType == "" || s.Predicate.RunDetails.Builder.ID != byHand {
		t.Errorf("the statement is %+v", s)
	}
	if definition.ExternalParameters["version"] != "0.2.0" || definition.ResolvedDependencies[0].Digest["gitCommit"] != strings.Repeat("a", 40) {
		t.Errorf("the build is %+v", definition)
	}
	if library := definition.ResolvedDependencies[1].URI; library != "pkg:golang/stdlib@"+strings.TrimPrefix(runtime.Version(), "go") {
		t.Errorf("the standard library is %s", library)
	}
	if bytes.Contains([]byte(files["provenance.json"]), []byte("edOn\"")) {
		t.Error("the statement has times of the build, which no second build has")
	}
	var names []string
	for _, subject := range s.Subject {
		names = append(names, subject.Name)
	}
	for _, want := range []string{"plimsoll-0.2.0.tgz", "plimsoll-0.2.0-image.tar", "registry.example/plimsoll", "registry.example/charts/plimsoll"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among the subjects %q", want, names)
		}
	}
}

func TestBuild_RefusesInvalidInput(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(o *order)
	}{
		{"no commit", "no commit", func(o *order) { o.revision = "" }},
		{"another version", "Chart.yaml:4 has the version 0.2.0, not 0.3.0", func(o *order) { o.version = "0.3.0" }},
		{"another tag", "the tag v0.3.0", func(o *order) { o.tag = "v0.3.0" }},
		{"a tag without changes", "no section ## [0.2.0]", func(o *order) { o.tag = "v0.2.0" }},
		{"a directory in use", "is not empty", func(o *order) { o.out = o.root }},
		{"another compiler", "set GOTOOLCHAIN=go1.1", func(o *order) {
			if err := os.WriteFile(o.path("go.mod"), []byte("module example.org/small\n\ngo 1.1\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		{"no program", "list what client for", func(o *order) {
			if err := os.RemoveAll(o.path("cmd/client")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := ordered(t, small(t))
			c.change(o)
			if _, err := o.build(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if _, err := os.Stat(filepath.Join(o.out, checksumsFile)); err == nil {
				t.Error("the directory has checksums, as a release has")
			}
		})
	}
}

// TestPrograms_AreAllReleased compares the table of programs with the directory of commands.
func TestPrograms_AreAllReleased(t *testing.T) {
	mains, err := filepath.Glob(here.path("cmd/*/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, file := range mains {
		want = append(want, filepath.Base(filepath.Dir(file)))
	}
	for _, p := range programs {
		got = append(got, p.name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the table of programs has %q, cmd has %q: add a line with its systems", got, want)
	}
}
