package image

import (
	"fmt"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// labels returns the annotations of the OCI image specification, for the index, every image, and as
// labels for every image's configuration.
func (r Release) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":         "plimsoll",
		"org.opencontainers.image.description":   "Node-pressure eviction for Kubernetes: the agent of a node and the controller of a cluster",
		"org.opencontainers.image.version":       r.Version,
		"org.opencontainers.image.source":        "https://plimsoll.dev/plimsoll",
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.created":       r.Created.Format(time.RFC3339),
		"org.opencontainers.image.documentation": "https://plimsoll.dev/plimsoll/docs",
	}
	if r.Revision != "" {
		labels["org.opencontainers.image.revision"] = r.Revision
	}
	return labels
}

// makeIndex combines the images of all architectures, in the order given.
func makeIndex(r Release, binaries []*Binary) (v1.ImageIndex, error) {
	if _, err := name.NewTag(r.Reference(), name.StrictValidation); err != nil {
		return nil, fmt.Errorf("name the image: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range binaries {
		image, err := makeImage(r, b)
		if err != nil {
			return nil, fmt.Errorf("make the image for %s: %w", b.Arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: b.Arch}},
		})
	}
	return mutate.Annotations(index, r.labels()).(v1.ImageIndex), nil
}

// makeImage returns the image for one architecture.
func makeImage(r Release, b *Binary) (v1.Image, error) {
	layer, err := makeLayer(r, b.Text)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: b.Arch, Created: v1.Time{Time: r.Created},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
		Config: v1.Config{Entrypoint: []string{"/plimsoll"}, User: nonroot + ":" + nonroot, WorkingDir: "/", Labels: r.labels()},
	})
	if err != nil {
		return nil, err
	}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.Created}, CreatedBy: "plimsoll.dev/plimsoll/deploy/image"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, r.labels()).(v1.Image), nil
}
