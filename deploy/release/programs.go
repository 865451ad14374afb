package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	"plimsoll.dev/plimsoll/deploy/internal/archive"
	"plimsoll.dev/plimsoll/deploy/internal/sbom"
)

// programs lists the programs of a release with their systems. No other list has them.
var programs = []program{
	{name: "plimsoll", systems: []system{{"linux", "amd64"}, {"linux", "arm64"}}, image: true, files: []string{"deploy/plimsoll-agent.service", "docs/man/plimsoll.1"}},
	{name: "kubectl-plimsoll", systems: []system{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}, plugin: true,
		files: []string{"docs/man/kubectl-plimsoll.1"}},
}

// program is built from cmd/NAME.
type program struct {
	name    string
	systems []system
	image   bool     // it is the program of the image
	plugin  bool     // it is a plugin of kubectl
	files   []string // of the tree, in its archives beside the licences
}

// system is what a program is built for, as Go names it.
type system struct{ os, arch string }

func (s system) String() string { return s.os + "/" + s.arch }

func (s system) executable(name string) string {
	if s.os == "windows" {
		return name + ".exe"
	}
	return name
}

// binary is a program for a system.
type binary struct {
	program
	system
	path string
	text []byte
	info *debug.BuildInfo
}

// pinned are variables that would change a program, with the values of every release. What the Makefile exports (GOFLAGS)
// is in the provenance.
var pinned = []string{"CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off"}

// compile builds a program for a system into a directory. Returns an error if it does not compile, or if it was not
// built as every release is.
func (o *order) compile(ctx context.Context, p program, s system, dir string) (*binary, error) {
	b := &binary{program: p, system: s, path: filepath.Join(dir, p.name+"-"+s.os+"-"+s.arch)}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", o.ldflags, "-o", b.path, "./cmd/"+p.name)
	cmd.Dir = o.root
	cmd.Env = append(append(os.Environ(), pinned...), "GOOS="+s.os, "GOARCH="+s.arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s for %s: %w\n%s", p.name, s, err, out)
	}
	text, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	b.text = text
	if b.info, err = buildinfo.Read(bytes.NewReader(text)); err != nil {
		return nil, fmt.Errorf("read what %s is made of: %w", b.path, err)
	}
	return b, o.checkCompiler(b)
}

var goLine = regexp.MustCompile(`(?m)^go (\S+)$`)

// checkCompiler returns an error unless the compiler is the one that go.mod names: others build other bytes.
func (o *order) checkCompiler(b *binary) error {
	text, err := os.ReadFile(o.path("go.mod"))
	if err != nil {
		return err
	}
	line := goLine.FindSubmatch(text)
	if line == nil {
		return fmt.Errorf("%s has no line with a version of Go", o.path("go.mod"))
	}
	if want := "go" + string(line[1]); b.info.GoVersion != want {
		return fmt.Errorf("%s was built by %s, and go.mod names %s: set GOTOOLCHAIN=%s", b.name, b.info.GoVersion, want, want)
	}
	return nil
}

// write writes the archive of a program and the list of its parts.
func (o *order) write(b *binary, licences []archive.File) error {
	files := append([]archive.File{{Name: b.executable(b.name), Mode: 0o755, Text: b.text}}, licences...)
	for _, name := range b.files {
		text, err := os.ReadFile(o.path(name))
		if err != nil {
			return err
		}
		files = append(files, archive.File{Name: path.Base(name), Mode: 0o644, Text: text})
	}
	compress := archive.TarGz
	if b.os == "windows" {
		compress = archive.Zip
	}
	packed, err := compress(o.created, files)
	if err != nil {
		return err
	}
	list, err := sbom.Program{Name: b.name, Version: o.version, Created: o.created, Text: b.text, Info: b.info}.JSON()
	if err != nil {
		return fmt.Errorf("list what %s for %s is made of: %w", b.name, b.system, err)
	}
	name := b.fileName(o.version)
	if err := o.put(name+b.ending(), packed); err != nil {
		return err
	}
	return o.put(name+".cdx.json", list)
}

// fileName returns the name of the files about the program, without an ending.
func (b *binary) fileName(version string) string {
	return strings.Join([]string{b.name, version, b.os, b.arch}, "-")
}

// ending returns the ending of the archive: programs of each system can open it.
func (b *binary) ending() string {
	if b.os == "windows" {
		return ".zip"
	}
	return ".tar.gz"
}
