// Package artifact writes OCI artifacts that are no images, such as a chart or a signature. An artifact is an archive of
// an OCI image layout, which `skopeo copy oci-archive:FILE` and `oras copy --from-oci-layout` push. The same artifact
// gives the same bytes.
package artifact

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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

// maxArchive bounds what is read of an archive, in bytes.
const maxArchive = 256 << 20

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

// Digest returns the digest of the blob, with its algorithm.
func (b Blob) Digest() string { return digest(b.Text).String() }

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

// Layout is an archive of an OCI image layout with one manifest or index.
type Layout struct {
	Tag    string
	Digest string // of the manifest or index
	blobs  map[string][]byte
}

// Read reads an archive and compares every blob with its digest. Returns an error if one differs, or if the archive has not
// exactly one manifest or index at its top.
func Read(file string) (*Layout, error) {
	files, err := unpack(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(files[indexFile], &index); err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", indexFile, file, err)
	}
	if len(index.Manifests) != 1 {
		return nil, fmt.Errorf("read %s: its index has %d entries, not one", file, len(index.Manifests))
	}
	top := index.Manifests[0]
	l := &Layout{Tag: top.Annotations[ReferenceName], Digest: top.Digest.String(), blobs: map[string][]byte{}}
	for name, text := range files {
		if path.Dir(name) != blobs {
			continue
		}
		if path.Base(name) != digest(text).Hex {
			return nil, fmt.Errorf("read %s: %s has the digest %s", file, name, digest(text))
		}
		l.blobs[digest(text).String()] = text
	}
	if l.blobs[l.Digest] == nil {
		return nil, fmt.Errorf("read %s: it does not contain %s", file, l.Digest)
	}
	return l, nil
}

// Artifact returns the artifact in an archive. Returns an error if it is an index, or if a blob is missing.
func (l *Layout) Artifact() (Artifact, error) {
	var manifest v1.Manifest
	if err := json.Unmarshal(l.blobs[l.Digest], &manifest); err != nil {
		return Artifact{}, err
	}
	a := Artifact{Config: l.blob(manifest.Config), Annotations: manifest.Annotations}
	for _, d := range manifest.Layers {
		a.Layers = append(a.Layers, l.blob(d))
	}
	if a.Config.Text == nil || slices.ContainsFunc(a.Layers, func(b Blob) bool { return b.Text == nil }) {
		return a, fmt.Errorf("%s is no manifest, or lacks one of the blobs %v", l.Digest, slices.Sorted(maps.Keys(l.blobs)))
	}
	return a, nil
}

func (l *Layout) blob(d v1.Descriptor) Blob {
	return Blob{string(d.MediaType), l.blobs[d.Digest.String()], d.Annotations}
}

func unpack(file string) (map[string][]byte, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	files := map[string][]byte{}
	for r := tar.NewReader(io.LimitReader(in, maxArchive)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
}
