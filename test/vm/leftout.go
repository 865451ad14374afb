package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// leftOut are tests that do not run in the machine, by package and file, and why
// not. Whatever is not listed runs.
var leftOut = map[string][]struct{ files, why string }{
	"stats": {
		{"directory*_test.go", "directories are the same on every version of cgroups, and du is not in the machine"},
		{"disk*_test.go", "so are disks; neither are mount and FUSE"},
		{"provider_cluster_test.go", "a cluster does not fit in"},
	},
}

// skips is the pattern for -test.skip, empty if the package runs whole.
func (p *testPackage) skips() (string, error) {
	var names []string
	for _, out := range leftOut[p.dir] {
		files, err := filepath.Glob(filepath.Join(p.dir, out.files))
		if err != nil || len(files) == 0 {
			return "", fmt.Errorf("left out of package %s is %s, and there is no such file: take it out of the list", p.dir, out.files)
		}
		for _, file := range files {
			found, err := testsIn(file)
			if err != nil {
				return "", err
			}
			names = append(names, found...)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	return "^(" + strings.Join(names, "|") + ")$", nil
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
