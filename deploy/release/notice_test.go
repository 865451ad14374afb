package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNotice_HasWhatIsLinked reads the licences of the modules of this tree.
func TestNotice_HasWhatIsLinked(t *testing.T) {
	text, err := here.notice(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"Go's standard library", "github.com/spf13/cobra v", "third_party/forked/golang/LICENSE", "github.com/prometheus/client_golang v"} {
		if !strings.Contains(string(text), module) {
			t.Errorf("the licences lack %s", module)
		}
	}
	if strings.Contains(string(text), "go-containerregistry") {
		t.Error("the licences have a module that no program of a release links")
	}
}

// TestNotice_RefusesModulesWithoutLicence checks that a module without a licence cannot get into a release unseen.
func TestNotice_RefusesModulesWithoutLicence(t *testing.T) {
	tree := written(t, map[string]string{
		"go.mod":            "module example.org/a\n\ngo 1.26\n\nrequire example.org/b v1.0.0\n\nreplace example.org/b => ./other/b\n",
		"cmd/a/main.go":     "package main\n\nimport \"example.org/b\"\n\nfunc main() { b.B() }\n",
		"other/b/b.go":      "package b\n\nfunc B() {}\n",
		"other/b/go.mod":    "module example.org/b\n\ngo 1.26\n",
		"other/b/README.md": "free\n",
	})
	tree.programs = []program{{name: "a", systems: []system{{"linux", "amd64"}}}}
	if text, err := tree.notice(t.Context()); err == nil || !strings.Contains(err.Error(), "find the licence of example.org/b v1.0.0") {
		t.Errorf("got %d bytes, %v", len(text), err)
	}
	if err := os.WriteFile(tree.path("other/b/LICENSE"), []byte("Anything goes.\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := tree.notice(t.Context()); err != nil || !strings.Contains(string(text), "example.org/b v1.0.0 LICENSE\n"+strings.Repeat("-", 80)+"\nAnything goes.\n") {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestLicencesIn_FindsNames(t *testing.T) {
	dir := t.TempDir()
	for name, is := range map[string]bool{
		"LICENSE": true, "LICENCE.md": true, "license.txt": true, "COPYING": true, "COPYING.md": true, "NOTICE": true, "NOTICE.txt": true,
		"LICENSE.MPL-2.0": true, "LICENSE-APACHE": true, "UNLICENSE": true, "license.go": false, "README.md": false, "licensing.md": false, "notices": false,
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		found, err := licencesIn(dir)
		if err != nil || (len(found) == 1) != is {
			t.Errorf("%s: found %v, %v; want %v", name, found, err, is)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRender_WritesEachTextOnce(t *testing.T) {
	got := string(render(map[string][]string{"free\n": {"b v1 LICENSE", "a v1 LICENSE"}, "other\n": {"c v1 LICENSE"}}))
	want := noticeHead + "\n" + strings.Repeat("=", 80) + "\na v1 LICENSE\nb v1 LICENSE\n" + strings.Repeat("-", 80) + "\nfree\n\n" +
		strings.Repeat("=", 80) + "\nc v1 LICENSE\n" + strings.Repeat("-", 80) + "\nother\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := normal([]byte("\ufeff\r\n\n a \t\r\nb")); got != " a\nb\n" {
		t.Errorf("normal: got %q", got)
	}
}
