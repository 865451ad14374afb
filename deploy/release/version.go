package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// tree is a clone of the repository.
type tree struct {
	root     string
	programs []program
	places   []place
}

// path returns the path of a file of the tree.
func (t *tree) path(name string) string { return filepath.Join(t.root, filepath.FromSlash(name)) }

// versionForm is the form of a version: a release, or a candidate for one.
const versionForm = `[0-9]+\.[0-9]+\.[0-9]+(?:-(?:alpha|beta|rc)\.[0-9]+)?`

var wholeVersion = regexp.MustCompile(`^` + versionForm + `$`)

// place is where the tree has its version: in files, wherever the text before and after is this.
type place struct {
	files         string // a pattern of fs.Glob
	before, after string // regular expressions
}

func (p place) pattern() *regexp.Regexp {
	return regexp.MustCompile(`(?m)` + p.before + `(` + versionForm + `)` + p.after)
}

// inDocuments precedes the version in commands of documents: names of files, tags of images and of Git, versions of the
// chart. A document that names another release of Plimsoll does so in other words.
const inDocuments = `(?:plimsoll[:-]|VERSION=|charts/plimsoll --version |tag v|TAG=v|targetRevision: v)`

// places lists where the tree has its version. The first is its source: the Makefile reads it there.
var places = []place{
	{"deploy/helm/plimsoll/Chart.yaml", `^appVersion: `, `$`},
	{"deploy/helm/plimsoll/Chart.yaml", `^version: `, `$`},
	{"deploy/helm/plimsoll/Chart.yaml", `^      image: registry\.plimsoll\.dev/plimsoll:`, `$`},
	{"deploy/kustomize/*/*.yaml", `app\.kubernetes\.io/version: "`, `"$`},
	{"deploy/kustomize/*/*.yaml", `image: registry\.plimsoll\.dev/plimsoll:`, `$`},
	{"deploy/kustomize/*/*/*.yaml", `app\.kubernetes\.io/version: "`, `"$`},
	{"README.md", inDocuments, ``},
	{"CONTRIBUTING.md", inDocuments, ``},
	{"docs/how-to/*.md", inDocuments, ``},
	{"docs/tutorials/*.md", inDocuments, ``},
	{"docs/how-to/beside/*.md", inDocuments, ``},
}

// mention is a version in a file.
type mention struct {
	file    string
	line    int
	version string
}

// mentions returns every version at the places, in their order. Returns an error if a place has none: then it no
// longer exists, or has another form.
func (t *tree) mentions() (all []mention, err error) {
	for _, p := range t.places {
		before := len(all)
		err := t.each(p, func(file, text string) error {
			for _, at := range p.pattern().FindAllStringSubmatchIndex(text, -1) {
				all = append(all, mention{file, 1 + strings.Count(text[:at[2]], "\n"), text[at[2]:at[3]]})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(all) == before {
			return nil, fmt.Errorf("find the version in %s: no line has the form %s: update the table of places", p.files, p.pattern())
		}
	}
	return all, nil
}

// each calls do with every file of a place.
func (t *tree) each(p place, do func(file, text string) error) error {
	files, err := fs.Glob(os.DirFS(t.root), p.files)
	if err != nil {
		return fmt.Errorf("list %s: %w", p.files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(t.path(file))
		if err != nil {
			return err
		}
		if err := do(file, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// checkVersion returns an error with every place that has another version.
func (t *tree) checkVersion(version string) error {
	all, err := t.mentions()
	var faults []error
	for _, m := range all {
		if m.version != version {
			faults = append(faults, fmt.Errorf("%s:%d has the version %s, not %s: run make release VERSION=%s", m.file, m.line, m.version, version, version))
		}
	}
	return errors.Join(append(faults, err)...)
}

// set writes a version at every place, and the unreleased changes into its section of the changelog. It returns the files
// that changed. Returns an error if the version has another form, or if there is nothing to release.
func (t *tree) set(version, date string) (changed []string, err error) {
	if !wholeVersion.MatchString(version) {
		return nil, fmt.Errorf("set the version %q: it must have the form 1.2.3 or 1.2.3-rc.1", version)
	}
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return nil, fmt.Errorf("set the version %s: %w: -date must have the form 2026-11-21", version, err)
	}
	if _, err := t.mentions(); err != nil {
		return nil, err
	}
	file, err := os.ReadFile(t.path(changelogFile))
	if err != nil {
		return nil, err
	}
	changes, err := withSection(string(file), version, date)
	if err != nil {
		return nil, err
	}
	write := func(name, before, after string) error {
		if before == after {
			return nil
		}
		if !slices.Contains(changed, name) {
			changed = append(changed, name)
		}
		return os.WriteFile(t.path(name), []byte(after), 0o644)
	}
	if err := write(changelogFile, string(file), changes); err != nil {
		return changed, err
	}
	for _, p := range t.places {
		err := t.each(p, func(name, text string) error { return write(name, text, replaced(p.pattern(), text, version)) })
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// replaced returns a text with another version in every match.
func replaced(pattern *regexp.Regexp, text, version string) string {
	var out strings.Builder
	end := 0
	for _, at := range pattern.FindAllStringSubmatchIndex(text, -1) {
		out.WriteString(text[end:at[2]] + version)
		end = at[3]
	}
	return out.String() + text[end:]
}
