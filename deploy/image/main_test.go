package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/deploy/internal/fixture"
	"plimsoll.dev/plimsoll/deploy/internal/image"
)

var architectures = []string{"amd64", "arm64"}

var tested = image.Release{
	Name: "registry.plimsoll.dev/plimsoll", Version: "v1.2.3-4-gabcdef", Revision: "abcdef0123456789",
	Created: time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC),
}

func TestMain(m *testing.M) { fixture.Main(m) }

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestWrite_IsReproducible: neither the directory, nor the clock, nor the order of a map affects
// a file.
func TestWrite_IsReproducible(t *testing.T) {
	var all []*image.Binary
	for _, arch := range architectures {
		b, err := image.ReadBinary(arch, fixture.Program(t, "linux", arch))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	var first map[string]string
	for range 3 {
		dir := t.TempDir()
		t.Setenv("TMPDIR", t.TempDir())
		digest, err := write(tested, all, dir)
		if err != nil {
			t.Fatal(err)
		}
		wrote := files(t, dir)
		if wrote["plimsoll.digest"] != digest+"\n" {
			t.Errorf("got digest %s, but the file has %q", digest, wrote["plimsoll.digest"])
		}
		if len(wrote) != 4 {
			t.Errorf("got %d files, want the archive, its digest and two lists", len(wrote))
		}
		if first == nil {
			first = wrote
		}
		for name, text := range first {
			if wrote[name] != text {
				t.Errorf("%s is not the same the second time", name)
			}
		}
	}
}

// TestArguments_RefuseInvalidInput covers binaries that would not start in the image, or have
// wrong metadata.
func TestArguments_RefuseInvalidInput(t *testing.T) {
	amd64 := fixture.Program(t, "linux", "amd64")
	noProgram := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(noProgram, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, epoch, version, licence, arg, want string }{
		{"other architecture", "1", "v1", noProgram, "arm64=" + amd64, "for linux/amd64, not for linux/arm64"},
		{"no Go program", "1", "v1", noProgram, "amd64=" + noProgram, "build it with go build"},
		{"no file", "1", "v1", noProgram, "amd64=" + amd64 + ".none", "no such file"},
		{"no time", "", "v1", noProgram, "amd64=" + amd64, "git log -1"},
		{"no tag", "1", "v1+dirty", noProgram, "amd64=" + amd64, "name the image"},
		{"no licence", "1", "v1", noProgram + ".none", "amd64=" + amd64, "read a licence"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("SOURCE_DATE_EPOCH", c.epoch)
			out := t.TempDir()
			r := image.Release{Name: tested.Name, Version: c.version}
			if err := fromArguments(r, []string{c.licence}, out, []string{c.arg}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if left := files(t, out); len(left) > 0 {
				t.Errorf("it wrote %d files", len(left))
			}
		})
	}
}
