package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nonroot is the default user of the program. The controller runs as nonroot; the agent runs as
// root, since it ends other users' processes.
const nonroot = "65532"

const (
	passwd = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:" + nonroot + ":" + nonroot + ":nonroot:/:/sbin/nologin\n"
	group  = "root:x:0:\nnonroot:x:" + nonroot + ":\n"
)

// makeLayer returns the image's only layer: the program, and names for two users. It has no
// certificates: the program connects only to the API server, and the service account contains its
// CA.
func makeLayer(program []byte, created time.Time) (v1.Layer, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, entry := range []struct {
		name string
		mode int64
		text []byte
	}{
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, []byte(group)},
		{"etc/passwd", 0o644, []byte(passwd)},
		{"plimsoll", 0o755, program},
	} {
		if err := addEntry(w, entry.name, entry.mode, entry.text, created); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
}

// addEntry writes a file owned by root, or a directory if the name ends in a slash.
func addEntry(w *tar.Writer, name string, mode int64, text []byte, modified time.Time) error {
	header := &tar.Header{Name: name, Mode: mode, Size: int64(len(text)), ModTime: modified, Format: tar.FormatUSTAR}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	_, err := w.Write(text)
	return err
}
