package main

import (
	"archive/tar"
	"errors"
	"io/fs"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
)

// Names of an archive's index: containerd uses the first verbatim; tools that follow the
// specification use the second, a tag.
const (
	containerdName = "io.containerd.image.name"
	referenceName  = "org.opencontainers.image.ref.name"
)

// writeArchive writes an OCI image layout as one tar file, for `ctr images import` and `skopeo copy
// --all oci-archive:FILE`.
func writeArchive(path string, r release, index v1.ImageIndex) (err error) {
	dir, err := os.MkdirTemp("", "plimsoll-image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lay, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	names := map[string]string{containerdName: r.reference(), referenceName: r.version}
	if err := lay.ReplaceIndex(index, match.Digests(digest), layout.WithAnnotations(names)); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return archive(tar.NewWriter(file), os.DirFS(dir), r)
}

// archive adds the files of a layout in the order of their names, with times and modes that do not
// depend on the disk.
func archive(w *tar.Writer, from fs.FS, r release) error {
	err := fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if entry.IsDir() {
			return addEntry(w, name+"/", 0o755, nil, r.created)
		}
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		return addEntry(w, name, 0o644, text, r.created)
	})
	return errors.Join(err, w.Close())
}
