package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const noticeFile = "NOTICE"

const noticeHead = `Plimsoll
Copyright The Plimsoll Authors

Licensed under the Apache License, Version 2.0: see LICENSE.

The programs contain the following software of others, under the licences below.
`

// licenceName matches the names of files that a licence is in, and those that it requires to be passed on.
var licenceName = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|copyright|notice|unlicense)([-._][a-z0-9.-]*)?$`)

// linked is a package of a program: its directory, and its module.
type linked struct {
	dir                     string
	module, version, within string // within: the module's directory
}

// notice returns the licences of all software of others that is in a program of any system.
func (t *tree) notice(ctx context.Context) ([]byte, error) {
	packages := map[linked]bool{}
	for _, p := range t.programs {
		for _, s := range p.systems {
			if err := t.addLinked(ctx, packages, p, s); err != nil {
				return nil, fmt.Errorf("list what %s for %s links: %w", p.name, s, err)
			}
		}
	}
	texts := map[string][]string{} // the files with a text
	if err := t.addGo(ctx, texts); err != nil {
		return nil, err
	}
	covered := map[string]bool{}
	for p := range packages {
		for dir := p.dir; ; dir = filepath.Dir(dir) {
			found, err := licencesIn(dir)
			if err != nil {
				return nil, err
			}
			below, err := filepath.Rel(p.within, dir)
			if err != nil || !filepath.IsLocal(below) {
				return nil, fmt.Errorf("%s is not in the module's directory %s", dir, p.within)
			}
			for name, text := range found {
				file := strings.Join([]string{p.module, p.version, filepath.ToSlash(filepath.Join(below, name))}, " ")
				if !slices.Contains(texts[text], file) {
					texts[text] = append(texts[text], file)
				}
				covered[p.module] = true
			}
			if dir == p.within {
				break
			}
		}
	}
	for p := range packages {
		if !covered[p.module] {
			return nil, fmt.Errorf("find the licence of %s %s: %s has no file with one", p.module, p.version, p.within)
		}
	}
	return render(texts), nil
}

// addLinked adds the packages of other modules that a program links.
func (t *tree) addLinked(ctx context.Context, packages map[linked]bool, p program, s system) error {
	const form = "{{with .Module}}{{if not .Main}}{{$.Dir}}\t{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}"
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-f", form, "./cmd/"+p.name)
	cmd.Dir = t.root
	cmd.Env = append(append(os.Environ(), pinned...), "GOOS="+s.os, "GOARCH="+s.arch)
	out, err := output(cmd)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		words := strings.Split(strings.TrimSpace(line), "\t")
		if len(words) == 4 {
			packages[linked{words[0], words[1], words[2], words[3]}] = true
		}
	}
	return nil
}

// addGo adds the licence of the standard library.
func (t *tree) addGo(ctx context.Context, texts map[string][]string) error {
	root, err := output(exec.CommandContext(ctx, "go", "env", "GOROOT"))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(root), "LICENSE"))
	if err != nil {
		return fmt.Errorf("read the licence of the standard library: %w", err)
	}
	texts[normal(text)] = []string{"Go's standard library LICENSE"}
	return nil
}

// output returns the output of a command. Its error has what the command reported.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w\n%s", err, failed.Stderr)
	}
	return string(out), err
}

// licencesIn returns the texts of the licences in a directory, by the names of their files.
func licencesIn(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenceName.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		found[e.Name()] = normal(text)
	}
	return found, nil
}

// normal returns a text without differences that have no meaning: ends of lines, spaces before them, empty lines around.
func normal(text []byte) string {
	var out strings.Builder
	for line := range strings.Lines(string(bytes.TrimPrefix(text, []byte("\ufeff")))) {
		out.WriteString(strings.TrimRight(line, " \t\r\n") + "\n")
	}
	return strings.Trim(out.String(), "\n") + "\n"
}

// render returns each text once, below the files that contain it.
func render(texts map[string][]string) []byte {
	for _, files := range texts {
		slices.Sort(files)
	}
	order := slices.SortedFunc(maps.Keys(texts), func(a, b string) int { return cmp.Or(cmp.Compare(texts[a][0], texts[b][0]), cmp.Compare(a, b)) })
	var out strings.Builder
	out.WriteString(noticeHead)
	for _, text := range order {
		out.WriteString("\n" + strings.Repeat("=", 80) + "\n")
		for _, file := range texts[text] {
			out.WriteString(file + "\n")
		}
		out.WriteString(strings.Repeat("-", 80) + "\n" + text)
	}
	return []byte(out.String())
}
