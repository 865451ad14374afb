package image

import (
	"errors"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"

	"plimsoll.dev/plimsoll/deploy/internal/archive"
)

// Names of an archive's index: containerd uses the first verbatim; tools that follow the
// specification use the second, a tag.
const (
	containerdName = "io.containerd.image.name"
	referenceName  = "org.opencontainers.image.ref.name"
)

// writeArchive writes an OCI image layout as one tar file, for `ctr images import` and `skopeo copy
// --all oci-archive:FILE`.
func writeArchive(path string, r Release, index v1.ImageIndex) (err error) {
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
	names := map[string]string{containerdName: r.Reference(), referenceName: r.Version}
	if err := lay.ReplaceIndex(index, match.Digests(digest), layout.WithAnnotations(names)); err != nil {
		return err
	}
	files, err := archive.Tree(os.DirFS(dir))
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(archive.Tar(file, r.Created, files), file.Close())
}
