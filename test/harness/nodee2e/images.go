package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Images that the specs run, of the release that test/harness/components/e2enode pins
// (test/utils/image/manifest.go and test/e2e_node/image_list.go of Kubernetes).
const (
	pauseImage   = "registry.k8s.io/pause:3.10.2"
	busyboxImage = "registry.k8s.io/e2e-test-images/busybox:1.37.0-2"
	agnhostImage = "registry.k8s.io/e2e-test-images/agnhost:2.66.1"
	// digestImage is upstream's busybox by its digest, one of the images that are pulled in advance.
	digestImage = "registry.k8s.io/e2e-test-images/busybox@sha256:a9155b13325b2abef48e71de77bb8ac015412a566829f621d06bfae5c699b1b9"
)

// recipe is what an image consists of.
type recipe struct {
	program    string // file of bin/nodee2e
	path       string // of the program in the image
	links      []string
	entrypoint []string
	cmd        []string
	files      int // empty ones
}

// applets are the programs of busybox that the specs run.
var applets = []string{"sh", "dd", "touch", "sleep", "cat", "ls", "rm", "true", "test", "["}

var recipes = map[string]recipe{
	pauseImage:   {program: "pause", path: "pause", entrypoint: []string{"/pause"}},
	busyboxImage: {program: "busybox", path: "bin/busybox", links: applets, cmd: []string{"sh"}},
	agnhostImage: {program: "agnhost", path: "agnhost", entrypoint: []string{"/agnhost"}, cmd: []string{"pause"}},
}

// emptyFiles is the number of inodes of each other image, whose only purpose in the specs is that it
// can be removed. ImageGCNoEviction needs 10000 inodes in all of them.
const emptyFiles = 4000

// image is a manifest and its blobs, by digest. Blobs are files.
type image struct {
	manifest []byte
	blobs    map[string]string
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// bake makes the image of a name, with its blobs below dir.
func bake(name, dir string) (*image, error) {
	r, known := recipes[name]
	if !known {
		r = recipe{files: emptyFiles}
	}
	made := &image{blobs: map[string]string{}}
	layer, err := made.add(dir, layerType, func(w io.Writer) error { return r.layer(w) })
	if err != nil {
		return nil, err
	}
	config, err := made.add(dir, configType, func(w io.Writer) error {
		return json.NewEncoder(w).Encode(map[string]any{
			"architecture": "amd64", "os": "linux",
			"config": map[string]any{"Entrypoint": r.entrypoint, "Cmd": r.cmd, "Env": []string{"PATH=/bin", "IMAGE=" + name}}, // distinct image IDs
			"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
		})
	})
	if err != nil {
		return nil, err
	}
	made.manifest, err = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": []descriptor{layer},
	})
	return made, err
}

// add writes a blob to a file and returns its description.
func (i *image) add(dir, kind string, fill func(io.Writer) error) (d descriptor, err error) {
	f, err := os.CreateTemp(dir, "blob-")
	if err != nil {
		return d, err
	}
	sum, size := sha256.New(), new(counter)
	err = errors.Join(fill(io.MultiWriter(f, sum, size)), f.Close())
	d = descriptor{MediaType: kind, Digest: fmt.Sprintf("sha256:%x", sum.Sum(nil)), Size: int(*size)}
	i.blobs[d.Digest] = f.Name()
	return d, err
}

// counter counts the bytes that are written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// layer writes the only layer.
func (r recipe) layer(out io.Writer) error {
	w := tar.NewWriter(out)
	for _, dir := range []string{"bin/", "tmp/", "files/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o777}); err != nil {
			return err
		}
	}
	if r.program != "" {
		if err := addFile(w, r.path, filepath.Join(suiteDir, r.program)); err != nil {
			return err
		}
	}
	for _, name := range r.links {
		header := &tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "/" + r.path, Mode: 0o777}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
	}
	for n := range r.files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("files/%d", n), Mode: 0o644}); err != nil {
			return err
		}
	}
	return w.Close()
}

// registryOf returns the full name of an image from a request to a mirror.
func registryOf(namespace, repository, reference string) string {
	separator := ":"
	if strings.HasPrefix(reference, "sha256:") {
		separator = "@"
	}
	return namespace + "/" + repository + separator + reference
}
