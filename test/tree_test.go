package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// modulePath is the prefix of this module's import paths.
const modulePath = "plimsoll.dev/plimsoll/"

// source is one parsed Go file.
type source struct {
	dir  string // relative to the module, slashes
	name string // relative to the module, slashes
	file *ast.File
	text []byte
	test bool
}

// tree is the module on disk, parsed once for all rules.
type tree struct {
	root    string
	fset    *token.FileSet
	sources []*source
}

// readTree parses every Go file of the module without running the go command: all build tags
// and platforms at once, in a fraction of a second.
var readTree = sync.OnceValues(func() (*tree, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	t := &tree{root: root, fset: token.NewFileSet()}
	err = filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return t.enter(full, d.Name())
		}
		if !strings.HasSuffix(full, ".go") {
			return nil
		}
		return t.parse(full)
	})
	return t, err
})

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", os.ErrNotExist
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// enter skips the directories that the go command skips: hidden ones, fixtures and other
// modules.
func (t *tree) enter(full, name string) error {
	if full == t.root {
		return nil
	}
	if _, err := os.Stat(filepath.Join(full, "go.mod")); err == nil ||
		name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return fs.SkipDir
	}
	return nil
}

func (t *tree) parse(full string) error {
	text, err := os.ReadFile(full)
	if err != nil {
		return err
	}
	relative, err := filepath.Rel(t.root, full)
	if err != nil {
		return err
	}
	name := filepath.ToSlash(relative)
	file, err := parser.ParseFile(t.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.sources = append(t.sources, &source{path.Dir(name), name, file, text, strings.HasSuffix(name, "_test.go")})
	return nil
}

func loaded(t *testing.T) *tree {
	t.Helper()
	read, err := readTree()
	if err != nil {
		t.Fatalf("parse the module: %v", err)
	}
	return read
}

// product yields the files that are built into a program: all except tests.
func (t *tree) product(yield func(*source) bool) {
	for _, s := range t.sources {
		if !s.test && !yield(s) {
			return
		}
	}
}

// packages lists the directories with a package that can be built.
func (t *tree) packages() map[string][]*source {
	found := map[string][]*source{}
	for s := range t.product {
		found[s.dir] = append(found[s.dir], s)
	}
	return found
}

// imports lists the import paths of a file.
func (s *source) imports() (paths []string) {
	for _, i := range s.file.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// localName returns the name of an import in a file, or "" without that import.
func (s *source) localName(imported string) string {
	for _, i := range s.file.Imports {
		switch {
		case i.Path.Value != strconv.Quote(imported):
		case i.Name != nil:
			return i.Name.Name
		default:
			return path.Base(imported)
		}
	}
	return ""
}

// lines returns the number of lines of a file.
func (s *source) lines() int {
	n := strings.Count(string(s.text), "\n")
	if len(s.text) > 0 && s.text[len(s.text)-1] != '\n' {
		n++
	}
	return n
}

// at returns the position of a node, for a message.
func (t *tree) at(n ast.Node) string {
	p := t.fset.Position(n.Pos())
	return p.Filename + ":" + strconv.Itoa(p.Line)
}

// span returns the number of lines of a node, including its first and last.
func (t *tree) span(n ast.Node) int {
	return t.fset.Position(n.End()).Line - t.fset.Position(n.Pos()).Line + 1
}

// tracked lists the files that git tracks, by name relative to the module.
func (t *tree) tracked(test *testing.T) []string {
	test.Helper()
	git := exec.Command("git", "ls-files", "-z")
	git.Dir = t.root
	out, err := git.Output()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		test.Fatalf("CI=true and git ls-files does not work: %v", err)
	default:
		test.Skipf("not a clone: git ls-files: %v", err)
	}
	return strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
}

// isCore reports whether a package belongs to the functional core.
func isCore(dir string) bool {
	switch dir {
	case "agent/inflight", "eviction", "eviction/signals", "eviction/limiter", "ranking", "internal/arming", "internal/arming/preview", "internal/clusterstatus", "internal/doctor", "internal/doctor/groups", "internal/document", "internal/natural", "internal/oomkill", "internal/timerqueue", "internal/vitals", "internal/why":
		return true
	case "lifecycle/app", "lifecycle/convert", "lifecycle/config":
		return false
	}
	return strings.HasPrefix(dir, "lifecycle/")
}

// isCheck reports whether a file belongs to a check of the node: it reads through ports,
// and changes nothing but the state of decisions.
func isCheck(name string) bool {
	switch name {
	case "agent/check.go", "agent/turns.go", "agent/choice.go", "agent/plan.go", "agent/outcome.go", "agent/limits.go", "agent/growth.go", "agent/trace.go", "agent/repeat.go":
		return true
	}
	return false
}
