package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/test/harness/vm/wire"
)

// TestMachine_FailsWithoutResult: a machine that crashes without a result has failed,
// independent of qemu's exit code.
func TestMachine_FailsWithoutResult(t *testing.T) {
	plan := []wire.Command{{Args: []string{"/a"}, Dir: "/", Limit: time.Minute}}
	begun := `{"kind":"booted"}` + "\n" + `{"kind":"began"}` + "\n"
	for name, output := range map[string]string{
		"nothing":      "",
		"panic":        "Kernel panic - not syncing\n",
		"dies":         begun,
		"half a line":  begun + `{"kind":"ended"}` + "\n" + `{"kind":"finished"}`,
		"cut off":      begun + `{"kind":"ended","status":0}` + "\n" + `{"kind":"fini`,
		"other status": begun + `{"kind":"ended","status":1}` + "\n" + `{"kind":"finished"}` + "\n",
	} {
		m := &machine{verdict: wire.NewVerdict(plan), console: filepath.Join(t.TempDir(), "console")}
		err := m.run(t.Context(), []string{"printf", "%s", output})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.verdict.Err(); err == nil || errors.As(err, new(*wire.Incomplete)) != (name != "other status") {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := &machine{verdict: wire.NewVerdict(plan)}
	if err := m.run(t.Context(), []string{"printf", "%s", "SeaBIOS\n" + begun + `{"kind":"ended"}` + "\n" + `{"kind":"finished"}` + "\n"}); err != nil || m.verdict.Err() != nil || len(m.otherLines) != 1 {
		t.Errorf("a complete report: %v, %v, other lines %q", err, m.verdict.Err(), m.otherLines)
	}
	if err := m.run(t.Context(), []string{"false"}); err == nil {
		t.Error("a failure of qemu was not reported")
	}
}

func TestLastLines_SplitsConsole(t *testing.T) {
	for text, want := range map[string][]string{
		"":                    nil,
		"\r\n":                nil,
		"a\r\nb\r\n":          {"a", "b"},
		"a\r\nb\r\nc\r\nd":    {"b", "c", "d"},
		"a\n\nb\n\nc\r\n\r\n": {"b", "", "c"},
	} {
		if got := lastLines(text, 3); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestProvide_UsesNewestKernel(t *testing.T) {
	t.Setenv("PLIMSOLL_VM_CACHE", t.TempDir())
	dir, err := kernels(kernelSuite)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"linux-image-6.1.0-9-cloud-amd64", "linux-image-6.1.0-56-cloud-amd64", "linux-image-5.10.0-99-cloud-amd64", "fetching-1"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"vmlinuz", "1-b.ko", "0-a.ko"} {
			if err := os.WriteFile(filepath.Join(dir, name, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	k, err := provide(kernelSuite)
	if err != nil || k.name != "linux-image-6.1.0-56-cloud-amd64" || k.vmlinuz != filepath.Join(dir, k.name, "vmlinuz") {
		t.Fatalf("%+v, %v", k, err)
	}
	if len(k.modules) != 2 || filepath.Base(k.modules[0]) != "0-a.ko" {
		t.Errorf("modules %v are not in their order", k.modules)
	}
}

// TestAptSource_IsDebian: without -kernel too, the kernel comes from a suite of Debian and not from
// the sources of this machine, which can be those of another distribution.
func TestAptSource_IsDebian(t *testing.T) {
	dir := t.TempDir()
	options, err := aptSource(parse("test", []string{"./stats"}).kernel, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Dir::Etc::SourceList=" + filepath.Join(dir, "sources.list"), "Dir::Etc::SourceParts=/dev/null"} {
		if !slices.Contains(options, want) {
			t.Errorf("options %q lack %s", options, want)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "sources.list"))
	const want = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main\n"
	if err != nil || string(text) != want {
		t.Errorf("sources.list is %q, %v, want %q", text, err, want)
	}
}

func TestMissingPackages_ListsProgramsAndFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keyring.gpg")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	required := map[string]string{file: "present", "sh": "present", file + "x": "keyring", "plimsoll-no-such-program": "a-program"}
	if got := missingPackages(required); !slices.Equal(got, []string{"a-program", "keyring"}) {
		t.Errorf("missing %q, want those of the program and the file that do not exist", got)
	}
}

// TestDisableServices_LeavesUnits: what a package enabled does not start, and can be started.
func TestDisableServices_LeavesUnits(t *testing.T) {
	tree := t.TempDir()
	units := filepath.Join(tree, "etc/systemd/system")
	for _, dir := range []string{"multi-user.target.wants", "sockets.target.wants"} {
		if err := os.MkdirAll(filepath.Join(units, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/usr/lib/systemd/system/some.service", filepath.Join(units, dir, "some.service")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(units, "own.service"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := disableServices(tree); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(units, "*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "own.service" {
		t.Errorf("left %v, %v, want the unit and no link", left, err)
	}
}

func TestPut_KeepsPaths(t *testing.T) {
	t.Chdir(t.TempDir())
	i := &image{t.TempDir()}
	if err := os.MkdirAll("bin", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("bin/x", []byte("text"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	absolute, err := filepath.Abs("bin/x")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"bin/x": "/here/bin/x", "./bin/x": "/here/bin/x", absolute: absolute} {
		got, err := i.put(name)
		if err != nil || got != want {
			t.Errorf("%s is at %s, %v, want %s", name, got, err, want)
		}
		info, err := os.Stat(i.at(want))
		if err != nil || info.Size() != 4 || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", want, info, err)
		}
	}
	for _, name := range []string{"../x", "bin", "none"} {
		if got, err := i.put(name); err == nil {
			t.Errorf("%s was put at %s", name, got)
		}
	}
}

// TestSkips_MatchOmissions: every file of the list exists, and its tests are skipped by name.
func TestSkips_MatchOmissions(t *testing.T) {
	t.Chdir("../../..")
	for dir := range leftOut {
		p := testPackage{dir: dir}
		pattern, err := p.skips()
		if err != nil {
			t.Fatal(err)
		}
		skips := regexp.MustCompile(pattern)
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			tests, err := testsIn(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range tests {
				listed := slices.ContainsFunc(leftOut[dir], func(out omission) bool {
					matches, _ := filepath.Match(out.files, filepath.Base(file))
					return matches && (len(out.only) == 0 || slices.Contains(out.only, name))
				})
				if skips.MatchString(name) != listed {
					t.Errorf("%s of %s is omitted: %t, want %t", name, file, !listed, listed)
				}
			}
		}
	}
	for _, gone := range []omission{{files: "none_test.go"}, {files: "vm_test.go", only: []string{"TestNone"}}} {
		if names, err := gone.tests("test/harness/vm"); err == nil {
			t.Errorf("%+v is %v", gone, names)
		}
	}
	if pattern, err := (&testPackage{dir: "internal/kill"}).skips(); err != nil || pattern != "" {
		t.Errorf("package kill omits %q, %v", pattern, err)
	}
}

func TestTestPlan_RunsPackages(t *testing.T) {
	t.Chdir("../../..")
	plan, err := testPlan([]testPackage{{"plimsoll.dev/plimsoll/test/harness/hog", "test/harness/hog"}, {"plimsoll.dev/plimsoll/stats", "stats"}}, true)
	if err != nil || len(plan) != 2 {
		t.Fatalf("%+v, %v", plan, err)
	}
	if c := plan[0]; c.Args[0] != "/here/test/harness/hog/hog.test" || c.Dir != "/here/test/harness/hog" || !slices.Contains(c.Env, "CI=true") || !slices.Contains(c.Env, "PLIMSOLL=/here/bin/plimsoll") || !slices.Contains(c.Args, "-test.v") {
		t.Errorf("%+v", c)
	}
	if !strings.Contains(strings.Join(plan[1].Args, " "), "-test.skip=^(Test") {
		t.Errorf("%+v omits no test", plan[1])
	}
	if _, err := wire.EncodePlan(plan); err != nil {
		t.Error(err)
	}
}
