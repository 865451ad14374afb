// Package artifact writes OCI artifacts that are no images, such as a chart. An artifact is an archive of
// an OCI image layout, which `skopeo copy oci-archive:FILE` and `oras copy --from-oci-layout` push. The same artifact
// gives the same bytes.
package artifact

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"plimsoll.dev/plimsoll/deploy/internal/archive"
)

// ReferenceName is the annotation of an index with the tag of a manifest.
const ReferenceName = "org.opencontainers.image.ref.name"

const (
	layoutFile = "oci-layout"
	indexFile  = "index.json"
	blobs      = "blobs/sha256"
)

// Artifact is a manifest with the blobs that it names.
type Artifact struct {
	Config      Blob
	Layers      []Blob
	Annotations map[string]string
}

// Blob is a file of a type.
type Blob struct {
	MediaType   string
	Text        []byte
	Annotations map[string]string
}

func (b Blob) descriptor() v1.Descriptor {
	return v1.Descriptor{MediaType: types.MediaType(b.MediaType), Size: int64(len(b.Text)), Digest: digest(b.Text), Annotations: b.Annotations}
}

func digest(text []byte) v1.Hash {
	sum := sha256.Sum256(text)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

// Write writes the archive with the artifact under a tag, and returns the digest of its manifest. Returns an error if
// the file cannot be written.
func (a Artifact) Write(file, tag string, modified time.Time) (string, error) {
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: a.Config.descriptor(), Annotations: a.Annotations}
	for _, b := range a.Layers {
		manifest.Layers = append(manifest.Layers, b.descriptor())
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return "", err
	}
	top := Blob{string(types.OCIManifestSchema1), text, map[string]string{ReferenceName: tag}}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{top.descriptor()}})
	if err != nil {
		return "", err
	}
	files := []archive.File{
		{Name: "blobs/", Mode: 0o755}, {Name: blobs + "/", Mode: 0o755},
		{Name: indexFile, Mode: 0o644, Text: index},
		{Name: layoutFile, Mode: 0o644, Text: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
	}
	for _, b := range append([]Blob{a.Config, top}, a.Layers...) {
		files = append(files, archive.File{Name: path.Join(blobs, digest(b.Text).Hex), Mode: 0o644, Text: b.Text})
	}
	slices.SortFunc(files, func(a, b archive.File) int { return cmp.Compare(a.Name, b.Name) })
	out, err := os.Create(file)
	if err != nil {
		return "", err
	}
	err = errors.Join(archive.Tar(out, modified, files), out.Close())
	return digest(text).String(), err
}
