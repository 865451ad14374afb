package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"plimsoll.dev/plimsoll/deploy/internal/archive"
	"plimsoll.dev/plimsoll/deploy/internal/fixture"
)

var architectures = []string{"amd64", "arm64"}

var tested = Release{
	Name: "registry.plimsoll.dev/plimsoll", Version: "v1.2.3-4-gabcdef", Revision: "abcdef0123456789",
	Created:  time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC),
	Licences: []archive.File{{Name: "LICENSE", Text: []byte("free\n")}, {Name: "NOTICE", Text: []byte("of others\n")}},
}

func TestMain(m *testing.M) { fixture.Main(m) }

func binaries(t *testing.T) (all []*Binary) {
	t.Helper()
	for _, arch := range architectures {
		b, err := ReadBinary(arch, fixture.Program(t, "linux", arch))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
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
	all, file := binaries(t), filepath.Join(t.TempDir(), "plimsoll.tar")
	digest, err := tested.Write(file, all)
	if err != nil {
		t.Fatal(err)
	}
	index, descriptor := unpacked(t, file)
	if err := validate.Index(index); err != nil {
		t.Errorf("digests, sizes and media types: %v", err)
	}
	if descriptor.Digest.String() != digest || descriptor.MediaType != types.OCIImageIndex {
		t.Errorf("the layout leads to %s %s, want the index %s", descriptor.MediaType, descriptor.Digest, digest)
	}
	for key, want := range map[string]string{containerdName: tested.Reference(), referenceName: tested.Version} {
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
		if p := manifest.Manifests[i].Platform; p == nil || p.String() != "linux/"+b.Arch {
			t.Errorf("image %d is for %v, want linux/%s", i, p, b.Arch)
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
		"version": tested.Version, "revision": tested.Revision, "created": "2026-11-21T20:00:00Z",
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

func checkImage(t *testing.T, image v1.Image, b *Binary) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != b.Arch || !config.Created.Equal(tested.Created) {
		t.Errorf("the image for %s is for %s/%s, of %v", b.Arch, config.OS, config.Architecture, config.Created)
	}
	if !slices.Equal(config.Config.Entrypoint, []string{"/plimsoll"}) || config.Config.User != "65532:65532" {
		t.Errorf("the image for %s runs %v as %s", b.Arch, config.Config.Entrypoint, config.Config.User)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	checkLabels(t, "the image for "+b.Arch, manifest.Annotations)
	checkLabels(t, "the configuration for "+b.Arch, config.Config.Labels)
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

func checkLayer(t *testing.T, content *tar.Reader, b *Binary) {
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
		if header.Uid != 0 || header.Gid != 0 || !header.ModTime.Equal(tested.Created) {
			t.Errorf("%s is of %d:%d, changed %v", header.Name, header.Uid, header.Gid, header.ModTime)
		}
		switch {
		case header.Name == "plimsoll" && !bytes.Equal(text, b.Text):
			t.Errorf("the program for %s differs from the given one", b.Arch)
		case header.Name == "licenses/NOTICE" && string(text) != "of others\n":
			t.Errorf("licenses/NOTICE contains %q", text)
		case header.Name == "etc/passwd" && !strings.Contains(string(text), "nonroot:x:65532:65532:"):
			t.Errorf("etc/passwd has no user 65532:\n%s", text)
		}
	}
	if want := []string{"755 etc/", "644 etc/group", "644 etc/passwd", "755 licenses/", "644 licenses/LICENSE", "644 licenses/NOTICE", "755 plimsoll"}; !slices.Equal(names, want) {
		t.Errorf("the layer for %s contains %q, want %q", b.Arch, names, want)
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
		if err := static(b.Text); err != nil {
			t.Errorf("a static program for %s: %v", b.Arch, err)
		}
	}
}
