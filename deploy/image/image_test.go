package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var architectures = []string{"amd64", "arm64"}

var tested = release{
	name: "registry.plimsoll.dev/plimsoll", version: "v1.2.3-4-gabcdef", revision: "abcdef0123456789",
	created: time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC),
}

// programs is the output directory of built.
var programs string

// built builds this test's package for both architectures: it has modules to list.
var built = sync.OnceValues(func() (string, error) {
	for _, arch := range architectures {
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(programs, arch), ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", build.Args, err, out)
		}
	}
	return programs, nil
})

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "image-test"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(programs) // the directory for temporary files is emptied anyway
	os.Exit(code)
}

func binaries(t *testing.T) (all []*binary) {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range architectures {
		b, err := readBinary(arch, filepath.Join(dir, arch))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

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
	all := binaries(t)
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

// unpacked returns the index in an archive, and the descriptor that refers to it.
func unpacked(t *testing.T, archive string) (v1.ImageIndex, v1.Descriptor) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the layout leads to %v, %v; want one index", manifest, err)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index, manifest.Manifests[0]
}

func TestWrite_ArchiveIsConsistent(t *testing.T) {
	all, dir := binaries(t), t.TempDir()
	digest, err := write(tested, all, dir)
	if err != nil {
		t.Fatal(err)
	}
	index, descriptor := unpacked(t, filepath.Join(dir, "plimsoll.tar"))
	if err := validate.Index(index); err != nil {
		t.Errorf("digests, sizes and media types: %v", err)
	}
	if descriptor.Digest.String() != digest || descriptor.MediaType != types.OCIImageIndex {
		t.Errorf("the layout leads to %s %s, want the index %s", descriptor.MediaType, descriptor.Digest, digest)
	}
	for key, want := range map[string]string{containerdName: tested.reference(), referenceName: tested.version} {
		if got := descriptor.Annotations[key]; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	checkLabels(t, "the index", manifest.Annotations)
	if len(manifest.Manifests) != len(all) {
		t.Fatalf("%d images, want %d", len(manifest.Manifests), len(all))
	}
	for i, b := range all {
		if p := manifest.Manifests[i].Platform; p == nil || p.String() != "linux/"+b.arch {
			t.Errorf("image %d is for %v, want linux/%s", i, p, b.arch)
		}
		image, err := index.Image(manifest.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, b)
	}
}

func checkLabels(t *testing.T, of string, labels map[string]string) {
	t.Helper()
	const prefix = "org.opencontainers.image."
	for key, want := range map[string]string{
		"version": tested.version, "revision": tested.revision, "created": "2026-11-21T20:00:00Z",
		"licenses": "Apache-2.0", "title": "plimsoll",
	} {
		if labels[prefix+key] != want {
			t.Errorf("%s has %s=%q, want %q", of, key, labels[prefix+key], want)
		}
	}
	for _, key := range []string{"description", "source"} {
		if labels[prefix+key] == "" {
			t.Errorf("%s has no %s", of, key)
		}
	}
}

func checkImage(t *testing.T, image v1.Image, b *binary) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != b.arch || !config.Created.Equal(tested.created) {
		t.Errorf("the image for %s is for %s/%s, of %v", b.arch, config.OS, config.Architecture, config.Created)
	}
	if !slices.Equal(config.Config.Entrypoint, []string{"/plimsoll"}) || config.Config.User != "65532:65532" {
		t.Errorf("the image for %s runs %v as %s", b.arch, config.Config.Entrypoint, config.Config.User)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	checkLabels(t, "the image for "+b.arch, manifest.Annotations)
	checkLabels(t, "the configuration for "+b.arch, config.Config.Labels)
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v; want one", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	checkLayer(t, tar.NewReader(content), b)
}

func checkLayer(t *testing.T, content *tar.Reader, b *binary) {
	t.Helper()
	var names []string
	for {
		header, err := content.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		text, readErr := io.ReadAll(content)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%o %s", header.Mode, header.Name))
		if header.Uid != 0 || header.Gid != 0 || !header.ModTime.Equal(tested.created) {
			t.Errorf("%s is of %d:%d, changed %v", header.Name, header.Uid, header.Gid, header.ModTime)
		}
		switch {
		case header.Name == "plimsoll" && !bytes.Equal(text, b.text):
			t.Errorf("the program for %s differs from the given one", b.arch)
		case header.Name == "etc/passwd" && !strings.Contains(string(text), "nonroot:x:65532:65532:"):
			t.Errorf("etc/passwd has no user 65532:\n%s", text)
		}
	}
	if want := []string{"755 etc/", "644 etc/group", "644 etc/passwd", "755 plimsoll"}; !slices.Equal(names, want) {
		t.Errorf("the layer for %s contains %q, want %q", b.arch, names, want)
	}
}

// TestRelease_RefusesInvalidInput covers binaries that would not start in the image, or have
// wrong metadata.
func TestRelease_RefusesInvalidInput(t *testing.T) {
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	noProgram := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(noProgram, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, epoch, version, arg, want string }{
		{"other architecture", "1", "v1", "arm64=" + filepath.Join(dir, "amd64"), "for linux/amd64, not for linux/arm64"},
		{"no Go program", "1", "v1", "amd64=" + noProgram, "build it with go build"},
		{"no file", "1", "v1", "amd64=" + filepath.Join(dir, "none"), "no such file"},
		{"no time", "", "v1", "amd64=" + filepath.Join(dir, "amd64"), "git log -1"},
		{"no tag", "1", "v1+dirty", "amd64=" + filepath.Join(dir, "amd64"), "name the image"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("SOURCE_DATE_EPOCH", c.epoch)
			out := t.TempDir()
			r := release{name: tested.name, version: c.version}
			if err := fromArguments(r, out, []string{c.arg}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if left := files(t, out); len(left) > 0 {
				t.Errorf("it wrote %d files", len(left))
			}
		})
	}
}

func TestStatic_RefusesDynamicPrograms(t *testing.T) {
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := static(shell); err == nil || !strings.Contains(err.Error(), "dynamic linker") {
		t.Errorf("a program with shared libraries: %v", err)
	}
	for _, b := range binaries(t) {
		if err := static(b.text); err != nil {
			t.Errorf("a static program for %s: %v", b.arch, err)
		}
	}
}
