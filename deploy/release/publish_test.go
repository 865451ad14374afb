package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPublish_PushesWhatWasSigned runs make publish with programs that record their arguments in place of skopeo and gh.
func TestPublish_PushesWhatWasSigned(t *testing.T) {
	makefile, err := filepath.Abs(here.path("Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	root, tools := t.TempDir(), t.TempDir()
	log := filepath.Join(root, "log")
	for _, name := range []string{"skopeo", "gh"} {
		script := "#!/bin/sh\necho " + name + " \"$@\" >> '" + log + "'\ntest \"$1\" != login || cat >> '" + log + "'\n"
		if err := os.WriteFile(filepath.Join(tools, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir := signed(t, newKey(t))
	images, err := readImages(dir)
	if err := errors.Join(err, os.Mkdir(filepath.Join(root, "bin"), 0o755), os.Rename(dir, filepath.Join(root, "bin", "release"))); err != nil {
		t.Fatal(err)
	}
	publish := exec.CommandContext(t.Context(), "make", "-C", root, "-f", makefile, "publish", "VERSION=0.2.0", "IMAGE=registry.example:5000/image", "RELEASE=true")
	publish.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "REGISTRY_USER=robot", "REGISTRY_PASSWORD=secret")
	if out, err := publish.CombinedOutput(); err != nil || strings.Contains(string(out), "secret") {
		t.Fatalf("make publish: %v\n%s", err, out)
	}
	did, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	tag := func(digest string) string { return strings.Replace(digest, "sha256:", "sha256-", 1) + ".sig" }
	want := []string{
		"skopeo login --username robot --password-stdin registry.example:5000",
		"secretskopeo copy --all --preserve-digests oci-archive:plimsoll-0.2.0-image.tar docker://registry.example:5000/image:0.2.0",
		"skopeo copy --preserve-digests oci-archive:plimsoll-0.2.0-image.sig.tar docker://registry.example:5000/image:" + tag(images[0].digest),
		"skopeo copy --all --preserve-digests oci-archive:plimsoll-0.2.0-chart.tar docker://registry.example:5000/chart:0.2.0",
		"skopeo copy --preserve-digests oci-archive:plimsoll-0.2.0-chart.sig.tar docker://registry.example:5000/chart:" + tag(images[1].digest),
	}
	got := strings.Split(strings.TrimSpace(string(did)), "\n")
	if len(got) != len(want)+1 || !slices.Equal(got[:len(want)], want) {
		t.Fatalf("it ran\n%s\nwant\n%s\nand gh", did, strings.Join(want, "\n"))
	}
	draft := got[len(want)]
	for _, part := range []string{"gh release create v0.2.0 --draft --verify-tag", " checksums.txt ", " checksums.txt.sig ", " provenance.intoto.json ", " plimsoll-0.2.0-image.sig.tar "} {
		if !strings.Contains(draft+" ", part) {
			t.Errorf("%q is not in %s", part, draft)
		}
	}
}
