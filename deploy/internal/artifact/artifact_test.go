package artifact

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

var modified = time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)

var tested = Artifact{
	Config:      Blob{MediaType: "application/vnd.example.config.v1+json", Text: []byte(`{"name":"a"}`)},
	Layers:      []Blob{{MediaType: "application/vnd.example.content.v1", Text: []byte("content"), Annotations: map[string]string{"signature": "b"}}},
	Annotations: map[string]string{"org.opencontainers.image.title": "a", "org.opencontainers.image.version": "1.2.3"},
}

func written(t *testing.T) (file, digest string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "artifact.tar")
	digest, err := tested.Write(file, "1.2.3", modified)
	if err != nil {
		t.Fatal(err)
	}
	return file, digest
}

func TestWrite_IsReadByOtherTools(t *testing.T) {
	file, digest := written(t)
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xf", file, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("unpack the archive: %v\n%s", err, out)
	}
	read, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	index, err := read.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil || len(top.Manifests) != 1 || top.Manifests[0].Digest.String() != digest || top.Manifests[0].Annotations[ReferenceName] != "1.2.3" {
		t.Fatalf("the layout leads to %+v, %v; want %s", top, err, digest)
	}
	image, err := index.Image(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil || manifest.Config.MediaType != "application/vnd.example.config.v1+json" || len(manifest.Layers) != 1 {
		t.Fatalf("the manifest is %+v, %v", manifest, err)
	}
	content, err := read.Bytes(manifest.Layers[0].Digest)
	if err != nil || string(content) != "content" || manifest.Layers[0].Size != int64(len(content)) {
		t.Errorf("the layer is %q, %v", content, err)
	}
}

func TestWrite_IsReproducible(t *testing.T) {
	first, _ := written(t)
	second, _ := written(t)
	a, errA := os.ReadFile(first)
	b, errB := os.ReadFile(second)
	if err := errors.Join(errA, errB); err != nil || string(a) != string(b) {
		t.Errorf("the second archive differs, %v", err)
	}
}
