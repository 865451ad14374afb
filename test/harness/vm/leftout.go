package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// omission is a set of tests that do not run in the machine, with the reason.
type omission struct {
	files string   // pattern of the files with the tests
	only  []string // of their tests; empty: all
	why   string
}

// leftOut lists the omissions by package. All other tests run.
var leftOut = map[string][]omission{
	"stats": {
		{files: "directory*_test.go", why: "directories are the same on every version of cgroups, and du is not in the machine"},
		{files: "disk*_test.go", why: "so are disks; neither are mount and FUSE"},
		{files: "consumers_hang_test.go", why: "it needs FUSE"},
		{files: "layers_dead_test.go", only: []string{"TestMerge_AddsKubeletFiles"}, why: "it compares with du"},
		{files: "provider_cluster_test.go", why: "a cluster does not fit into the machine"},
	},
	"test/harness/trial": {
		{files: "close_test.go", only: []string{"TestEvict_OnlyPodsThatWouldNotRecover"},
			why: "an emulated machine executes too few steps in the available time"},
	},
}

// skips returns the pattern for -test.skip, empty if all tests of the package run.
func (p *testPackage) skips() (string, error) {
	var names []string
	for _, out := range leftOut[p.dir] {
		found, err := out.tests(p.dir)
		if err != nil {
			return "", fmt.Errorf("package %s omits %w: update the list in test/harness/vm", p.dir, err)
		}
		names = append(names, found...)
	}
	if len(names) == 0 {
		return "", nil
	}
	return "^(" + strings.Join(names, "|") + ")$", nil
}

// tests lists the tests of an omission. A listed test that does not exist is an error.
func (o *omission) tests(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, o.files))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("tests in %s, which does not exist", o.files)
	}
	var names []string
	for _, file := range files {
		found, err := testsIn(file)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	for _, name := range o.only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("tests that %s does not have, such as %s", o.files, name)
		}
	}
	if len(o.only) > 0 {
		return o.only, nil
	}
	return names, nil
}

// testsIn lists the tests that a file declares.
func testsIn(name string) (tests []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && f.Name.Name != "TestMain" && strings.HasPrefix(f.Name.Name, "Test") {
			tests = append(tests, f.Name.Name)
		}
	}
	return tests, nil
}
