package test

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Limits in lines. A longer function has two duties, or is a table.
const (
	maxInFunction     = 70
	maxInCoreFunction = 40
	maxInFile         = 400
	maxInTestFile     = 600
)

// excepted lists exceptions from the limits, each with its reason: "FILE" or "FILE FUNCTION".
var excepted = map[string]string{
	"agent/config/faults_test.go TestFaultClasses":     "a flat table of faults",
	"eviction/departure_test.go TestExtraLooks":        "a flat list of stories: one thought each, and they read best side by side",
	"eviction/machine_test.go TestRulesOfRegularLooks": "a flat list of stories",
	"eviction/evict_test.go TestMessages":              "a flat table of messages",
}

func TestSizes(t *testing.T) {
	tree := loaded(t)
	used := map[string]bool{}
	allowed := func(name string) bool {
		_, found := excepted[name]
		used[name] = used[name] || found
		return found
	}
	for _, s := range tree.sources {
		limit := maxInFile
		if s.test {
			limit = maxInTestFile
		}
		if n := s.lines(); n > limit && !allowed(s.name) {
			t.Errorf("%s has %d lines, at most %d: split it by what it does", s.name, n, limit)
		}
		tree.checkFunctions(t, s, allowed)
	}
	for name := range excepted {
		if !used[name] {
			t.Errorf("%s is excepted from the limits of size but keeps them: take it out of the list", name)
		}
	}
}

func (t *tree) checkFunctions(test *testing.T, s *source, allowed func(string) bool) {
	test.Helper()
	limit := maxInFunction
	if !s.test && (isCore(s.dir) || isCheck(s.name)) {
		limit = maxInCoreFunction
	}
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := t.span(f); n > limit && !allowed(s.name+" "+f.Name.Name) {
			test.Errorf("%s: %s has %d lines, at most %d: a reader follows one thought at a time; name its parts", t.at(f), f.Name.Name, n, limit)
		}
	}
}

// sentence matches the end of a sentence in a comment.
var sentence = regexp.MustCompile(`[.!?](\s|$)`)

func TestEveryPackageSaysItsDuties(t *testing.T) {
	for dir, sources := range loaded(t).packages() {
		var said []*source
		for _, s := range sources {
			if s.file.Doc != nil {
				said = append(said, s)
			}
		}
		switch {
		case len(said) == 0:
			t.Errorf("package %s has no comment: say its duties and invariants in doc.go", dir)
			continue
		case len(said) > 1:
			t.Errorf("package %s has %d comments (%s, %s): say it once, in doc.go", dir, len(said), said[0].name, said[1].name)
		}
		least := 2
		if sources[0].file.Name.Name == "main" {
			least = 1
		}
		if n := len(sentence.FindAllString(said[0].file.Doc.Text(), -1)); n < least {
			t.Errorf("%s: the package comment has %d sentences, at least %d: say what the package is for and what always holds", said[0].name, n, least)
		}
	}
}

// sayNothing lists names that fit anything and therefore carry no information.
var sayNothing = []string{"helper", "helpers", "util", "utils", "common", "base", "manager", "misc"}

func TestNamesSayWhatThingsAre(t *testing.T) {
	tree := loaded(t)
	for _, s := range tree.sources {
		words := strings.FieldsFunc(strings.TrimSuffix(path.Base(s.name), ".go"), func(r rune) bool { return r == '_' || r == '-' })
		words = append(words, strings.Split(s.dir, "/")...)
		words = append(words, strings.Split(s.file.Name.Name, "_")...)
		for _, w := range words {
			if slices.Contains(sayNothing, w) {
				t.Errorf("%s: %q says nothing: name the file or package by what it does", s.name, w)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			for _, id := range declared(n) {
				if id.IsExported() && strings.Contains(id.Name, "Manager") {
					t.Errorf("%s: %s: everything is managed by something; say what it does", tree.at(id), id.Name)
				}
			}
			return true
		})
	}
}

// declared returns the names that a node declares.
func declared(n ast.Node) []*ast.Ident {
	switch d := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{d.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{d.Name}
	case *ast.ValueSpec:
		return d.Names
	case *ast.Field:
		return d.Names
	}
	return nil
}
