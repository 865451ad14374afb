package image

import (
	"bytes"
	"compress/gzip"
	"io"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"plimsoll.dev/plimsoll/deploy/internal/archive"
)

// nonroot is the default user of the program. The controller runs as nonroot; the agent runs as
// root, since it ends other users' processes.
const nonroot = "65532"

const (
	passwd = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:" + nonroot + ":" + nonroot + ":nonroot:/:/sbin/nologin\n"
	group  = "root:x:0:\nnonroot:x:" + nonroot + ":\n"
)

// makeLayer returns the image's only layer: the program, its licences, and names for two users. It has
// no certificates: the program connects only to the API server, and the service account contains its
// CA.
func makeLayer(r Release, program []byte) (v1.Layer, error) {
	files := []archive.File{
		{Name: "etc/", Mode: 0o755},
		{Name: "etc/group", Mode: 0o644, Text: []byte(group)},
		{Name: "etc/passwd", Mode: 0o644, Text: []byte(passwd)},
	}
	if len(r.Licences) > 0 {
		files = append(files, archive.File{Name: "licenses/", Mode: 0o755})
	}
	for _, f := range r.Licences {
		files = append(files, archive.File{Name: path.Join("licenses", f.Name), Mode: 0o644, Text: f.Text})
	}
	files = append(files, archive.File{Name: "plimsoll", Mode: 0o755, Text: program})
	var layer bytes.Buffer
	if err := archive.Tar(&layer, r.Created, files); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
}
