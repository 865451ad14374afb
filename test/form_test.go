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
	maxFunctionLines     = 70
	maxCoreFunctionLines = 40
	maxFileLines         = 400
	maxTestFileLines     = 600
)

// excepted lists exceptions from the limits, each with its reason: "FILE" or "FILE FUNCTION".
var excepted = map[string]string{
	"agent/config/faults_test.go TestLoad_RejectsEachFaultClass": "a flat table of faults",
	"eviction/departure_test.go TestEvaluate_EarlyChecks":        "a flat list of cases",
	"eviction/machine_test.go TestEvaluate_PeriodicChecks":       "a flat list of cases",
	"eviction/decision_test.go TestEvictionFor_Message":          "a flat table of messages",
}

func TestSources_HaveBoundedSize(t *testing.T) {
	tree := loaded(t)
	used := map[string]bool{}
	allowed := func(name string) bool {
		_, found := excepted[name]
		used[name] = used[name] || found
		return found
	}
	for _, s := range tree.sources {
		limit := maxFileLines
		if s.test {
			limit = maxTestFileLines
		}
		if n := s.lines(); n > limit && !allowed(s.name) {
			t.Errorf("%s has %d lines, at most %d: split it by subject", s.name, n, limit)
		}
		tree.checkFunctions(t, s, allowed)
	}
	for name := range excepted {
		if !used[name] {
			t.Errorf("%s is an exception from the limits of size but within them: remove it from the list", name)
		}
	}
}

func (t *tree) checkFunctions(test *testing.T, s *source, allowed func(string) bool) {
	test.Helper()
	limit := maxFunctionLines
	if !s.test && (isCore(s.dir) || isCheck(s.name)) {
		limit = maxCoreFunctionLines
	}
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := t.span(f); n > limit && !allowed(s.name+" "+f.Name.Name) {
			test.Errorf("%s: %s has %d lines, at most %d: split it into named parts", t.at(f), f.Name.Name, n, limit)
		}
	}
}

// sentence matches the end of a sentence in a comment.
var sentence = regexp.MustCompile(`[.!?](\s|$)`)

func TestPackages_DocumentTheirDuties(t *testing.T) {
	for dir, sources := range loaded(t).packages() {
		var documented []*source
		for _, s := range sources {
			if s.file.Doc != nil {
				documented = append(documented, s)
			}
		}
		switch {
		case len(documented) == 0:
			t.Errorf("package %s has no comment: describe its duties and invariants in doc.go", dir)
			continue
		case len(documented) > 1:
			t.Errorf("package %s has %d comments (%s, %s): describe it once, in doc.go", dir, len(documented), documented[0].name, documented[1].name)
		}
		minSentences := 2
		if sources[0].file.Name.Name == "main" {
			minSentences = 1
		}
		if n := len(sentence.FindAllString(documented[0].file.Doc.Text(), -1)); n < minSentences {
			t.Errorf("%s: the package comment has %d sentences, at least %d: describe its purpose and invariants", documented[0].name, n, minSentences)
		}
	}
}

// unspecific lists names that fit any package or file.
var unspecific = []string{"helper", "helpers", "util", "utils", "common", "base", "manager", "misc"}

func TestNames_AreSpecific(t *testing.T) {
	tree := loaded(t)
	for _, s := range tree.sources {
		words := strings.FieldsFunc(strings.TrimSuffix(path.Base(s.name), ".go"), func(r rune) bool { return r == '_' || r == '-' })
		words = append(words, strings.Split(s.dir, "/")...)
		words = append(words, strings.Split(s.file.Name.Name, "_")...)
		for _, w := range words {
			if slices.Contains(unspecific, w) {
				t.Errorf("%s: %q is not specific: name the file or package by its subject", s.name, w)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			for _, id := range declared(n) {
				if id.IsExported() && strings.Contains(id.Name, "Manager") {
					t.Errorf("%s: %s: a manager can be anything: name its purpose", tree.at(id), id.Name)
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
