package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// here is this clone.
var here = &tree{root: filepath.Join("..", ".."), programs: programs, places: places}

// appVersion returns the version of this clone.
func appVersion(t *testing.T) string {
	t.Helper()
	all, err := here.mentions()
	if err != nil {
		t.Fatal(err)
	}
	return all[0].version
}

func TestPlaces_AgreeInThisTree(t *testing.T) {
	if err := here.checkVersion(appVersion(t)); err != nil {
		t.Error(err)
	}
}

// TestVersion_IsOnlyAtKnownPlaces finds the version where set would not write it.
func TestVersion_IsOnlyAtKnownPlaces(t *testing.T) {
	version := appVersion(t)
	mentions, err := here.mentions()
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("git", "ls-files", "-z", "*.md", "*.yaml", "*.tpl", "*.txt", "Makefile")
	list.Dir = here.root
	out, err := list.Output()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI=true and git ls-files does not work: %v", err)
		}
		t.Skipf("not a clone: git ls-files: %v", err)
	}
	whole := regexp.MustCompile(`(?:^|[^0-9.])` + regexp.QuoteMeta(version) + `(?:[^0-9.]|$)`)
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(here.path(name))
		if err != nil || name == changelogFile || name == "RELEASING.md" || strings.HasPrefix(name, "docs/internals/") || strings.HasPrefix(name, "test/") {
			continue // removed but not committed yet, of another time, or an example
		}
		line := 0
		for content := range strings.Lines(string(text)) {
			line++
			known := slices.ContainsFunc(mentions, func(m mention) bool { return m.file == name && m.line == line })
			if whole.MatchString(content) && !known {
				t.Errorf("%s:%d has the version in a form that make release does not write: %s", name, line, content)
			}
		}
	}
}

// written returns a tree with these files.
func written(t *testing.T, files map[string]string) *tree {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		to := filepath.Join(root, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return &tree{root: root}
}

const changes = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- One.\n\n## [0.1.0] - 2026-01-02\n\n- Zero.\n"

func versioned(t *testing.T) *tree {
	t.Helper()
	tree := written(t, map[string]string{
		"Chart.yaml":   "version: 0.1.0\nappVersion: 0.1.0\nkubeVersion: 0.1.0\n",
		"base/a.yaml":  "    version: \"0.1.0\"\nimage: other:0.1.0\n    version: \"0.1.0\"\n",
		"docs/a.md":    "`plimsoll:0.1.0`, plimsoll-0.1.0-linux-amd64.tar.gz, VERSION=0.1.0-test; since 0.1.0\n",
		"docs/b.md":    "nothing\n",
		"CHANGELOG.md": changes,
	})
	tree.places = []place{{"Chart.yaml", `^version: `, `$`}, {"Chart.yaml", `^appVersion: `, `$`}, {"*/*.yaml", `version: "`, `"$`}, {"docs/*.md", inDocuments, ``}}
	return tree
}

func read(t *testing.T, tree *tree, name string) string {
	t.Helper()
	text, err := os.ReadFile(tree.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSet_WritesEveryPlace(t *testing.T) {
	tree := versioned(t)
	changed, err := tree.set("0.2.0-rc.1", "2026-11-26")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"CHANGELOG.md", "Chart.yaml", "base/a.yaml", "docs/a.md"}; !slices.Equal(changed, want) {
		t.Errorf("it changed %q, want %q", changed, want)
	}
	for name, want := range map[string]string{
		"Chart.yaml":   "version: 0.2.0-rc.1\nappVersion: 0.2.0-rc.1\nkubeVersion: 0.1.0\n",
		"base/a.yaml":  "    version: \"0.2.0-rc.1\"\nimage: other:0.1.0\n    version: \"0.2.0-rc.1\"\n",
		"docs/a.md":    "`plimsoll:0.2.0-rc.1`, plimsoll-0.2.0-rc.1-linux-amd64.tar.gz, VERSION=0.2.0-rc.1-test; since 0.1.0\n",
		"docs/b.md":    "nothing\n",
		"CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [0.2.0-rc.1] - 2026-11-26\n\n### Added\n\n- One.\n\n## [0.1.0] - 2026-01-02\n\n- Zero.\n",
	} {
		if got := read(t, tree, name); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
	if err := tree.checkVersion("0.2.0-rc.1"); err != nil {
		t.Error(err)
	}
	if changed, err := tree.set("0.2.0-rc.1", "2026-11-27"); err != nil || len(changed) > 0 {
		t.Errorf("the second time it changed %q, %v", changed, err)
	}
	if changed, err := tree.set("0.2.0", "2026-11-28"); err == nil {
		t.Errorf("without changes it released: %q", changed)
	}
}

func TestSet_RefusesInvalidInput(t *testing.T) {
	for _, c := range []struct{ name, version, date, want string }{
		{"no version", "", "2026-11-26", "must have the form"},
		{"a tag", "v0.2.0", "2026-11-26", "must have the form"},
		{"build metadata", "0.2.0+dirty", "2026-11-26", "must have the form"},
		{"two numbers", "0.2", "2026-11-26", "must have the form"},
		{"no date", "0.2.0", "", "-date"},
		{"no day", "0.2.0", "2026-11-31", "-date"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := versioned(t)
			changed, err := tree.set(c.version, c.date)
			if err == nil || !strings.Contains(err.Error(), c.want) || len(changed) > 0 || read(t, tree, changelogFile) != changes {
				t.Errorf("got %q, %v; want an error with %q and no change", changed, err, c.want)
			}
		})
	}
}

func TestCheckVersion_ReportsEveryPlace(t *testing.T) {
	tree := versioned(t)
	err := tree.checkVersion("0.3.0")
	if err == nil {
		t.Fatal("another version was accepted")
	}
	for _, want := range []string{"Chart.yaml:1 ", "Chart.yaml:2 ", "base/a.yaml:1 ", "base/a.yaml:3 ", "docs/a.md:1 "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	tree.places = append(tree.places, place{"none/*.yaml", `version: `, ``})
	if err := tree.checkVersion("0.1.0"); err == nil || !strings.Contains(err.Error(), "none/*.yaml") {
		t.Errorf("a place without the version: %v", err)
	}
}

func TestChangelog_HasSections(t *testing.T) {
	for _, c := range []struct {
		name, changelog, version string
		tagged                   bool
		want, fault              string
	}{
		{"a released version", changes, "0.1.0", true, "- Zero.\n", ""},
		{"the next version", changes, "0.2.0", false, "### Added\n\n- One.\n", ""},
		{"a tag without a section", changes, "0.2.0", true, "", "no section ## [0.2.0]"},
		{"another version with the same beginning", changes, "0.1", true, "", "no section"},
		{"nothing", "# Changelog\n\n## [Unreleased]\n", "0.1.0", false, "", "no changes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := notes(c.changelog, c.version, c.tagged)
			if got != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.fault)
			}
		})
	}
	for name, changelog := range map[string]string{"nothing new": "## [Unreleased]\n\n## [0.1.0] - 2026-01-02\n", "no section": "# Changelog\n"} {
		if got, err := withSection(changelog, "0.2.0", "2026-11-26"); err == nil {
			t.Errorf("%s: got %q, want an error", name, got)
		}
	}
}
