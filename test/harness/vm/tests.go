package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/test/harness/vm/wire"
)

// testLimit bounds the tests of a package, against hangs only: test/harness/trial takes 4 minutes on an idle
// machine, and 9 beside other tests and two busy loops. Their own timeout is shorter, so that they report
// where they hang.
const testLimit = 25 * time.Minute

// product is the binary of trials, which find it through the environment variable.
const product = "bin/plimsoll"

// testPackage is a package with tests for the machine.
type testPackage struct {
	path string // import path
	dir  string // relative to the module
}

// runTests implements the mode test.
func runTests(ctx context.Context, o *options) (int, error) {
	packages, err := listPackages(o.args)
	if err != nil {
		return 1, err
	}
	i, err := newImage()
	if err != nil {
		return 1, err
	}
	defer i.remove()
	if err := i.putTests(packages); err != nil {
		return 1, err
	}
	plan, err := testPlan(packages, o.verbose)
	if err != nil {
		return 1, err
	}
	if err := i.runPlan(ctx, o, packages, plan); err != nil {
		return 1, err
	}
	return 0, nil
}

// runPlan boots a machine with the plan of the packages and prints their results. Returns an error
// unless every command ran and succeeded.
func (i *image) runPlan(ctx context.Context, o *options, packages []testPackage, plan []wire.Command) error {
	v, err := i.boot(ctx, o, plan)
	if v != nil {
		summarize(packages, v)
	}
	if err != nil {
		return err
	}
	return v.Err()
}

// listPackages resolves the arguments with the go command.
func listPackages(args []string) ([]testPackage, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat("go.mod"); err != nil {
		return nil, fmt.Errorf("%w: run this where go.mod is", err)
	}
	cmd := exec.Command("go", append([]string{"list", "-f", "{{.ImportPath}}\t{{.Dir}}"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	var packages []testPackage
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if dir, err = filepath.Rel(root, dir); err != nil {
			return nil, err
		}
		packages = append(packages, testPackage{path, dir})
	}
	return packages, nil
}

// program returns the path of the tests' binary in the machine.
func (p *testPackage) program() string {
	return filepath.Join(here, p.dir, filepath.Base(p.dir)+".test")
}

// putTests copies the product, and the tests of each package with its testdata, into the image.
func (i *image) putTests(packages []testPackage) error {
	if _, err := i.put(product); err != nil {
		return fmt.Errorf("%w: run make build", err)
	}
	for _, p := range packages {
		if err := os.MkdirAll(filepath.Dir(i.at(p.program())), 0o755); err != nil {
			return err
		}
		if err := i.build(i.at(p.program()), "test", "-c", "-ldflags", "-s -w", p.path); err != nil {
			return err
		}
		if _, err := os.Stat(i.at(p.program())); err != nil {
			return fmt.Errorf("package %s has no tests: omit it", p.path)
		}
		if err := i.putTree(filepath.Join(p.dir, "testdata")); err != nil {
			return err
		}
	}
	return nil
}

// putTree copies all files below a directory into the image, if it exists.
func (i *image) putTree(dir string) error {
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			_, err = i.put(path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// testPlan runs the packages in sequence, in their directories. Skips in a machine are not
// visible, hence CI=true: missing prerequisites fail.
func testPlan(packages []testPackage, verbose bool) (plan []wire.Command, err error) {
	for _, p := range packages {
		args := []string{p.program(), "-test.paniconexit0", "-test.timeout=" + (testLimit - time.Minute).String()}
		skips, err := p.skips()
		if err != nil {
			return nil, err
		}
		if skips != "" {
			args = append(args, "-test.skip="+skips)
		}
		if verbose {
			args = append(args, "-test.v")
		}
		plan = append(plan, wire.Command{
			Args: args, Dir: filepath.Join(here, p.dir), Limit: testLimit,
			Env: []string{"CI=true", "PLIMSOLL=" + filepath.Join(here, product)},
		})
	}
	return plan, nil
}

// summarize prints the result of each package, as go test does.
func summarize(packages []testPackage, v *wire.Verdict) {
	for _, end := range v.Ends() {
		result := "ok  "
		if end.Status != 0 {
			result = "FAIL"
		}
		fmt.Printf("%s\t%s\t%.1fs\tcgroup v2\n", result, packages[end.Command].path, end.Took.Seconds())
	}
}
