// Package image makes Plimsoll's container image from static binaries, one for each architecture. It needs neither a
// container engine nor a registry, and does not read the clock: the same binaries and the same release give the same bytes.
package image

import (
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/deploy/internal/archive"
)

// Release is the metadata of an image.
type Release struct {
	Name     string // of the repository, with its registry
	Version  string // also the tag
	Revision string // of the source; empty if unknown
	Created  time.Time
	Licences []archive.File // copied to /licenses, as they permit
}

// Reference returns the name that a node resolves.
func (r Release) Reference() string { return r.Name + ":" + r.Version }

// Write writes the image as an archive of an OCI image layout, and returns its digest: that of its
// index, which covers every architecture. Returns an error if the name or the version is no valid one of an image.
func (r Release) Write(path string, binaries []*Binary) (digest string, err error) {
	index, err := makeIndex(r, binaries)
	if err != nil {
		return "", err
	}
	if err := writeArchive(path, r, index); err != nil {
		return "", fmt.Errorf("write the image: %w", err)
	}
	hash, err := index.Digest()
	return hash.String(), err
}
