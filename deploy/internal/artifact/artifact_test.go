package artifact

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"

	"plimsoll.dev/plimsoll/deploy/internal/archive"
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
	files, err := unpack(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if strings.HasSuffix(name, "/") {
			continue
		}
		to := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o644)); err != nil {
			t.Fatal(err)
		}
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

func TestRead_ReturnsWhatWasWritten(t *testing.T) {
	file, digest := written(t)
	l, err := Read(file)
	if err != nil || l.Digest != digest || l.Tag != "1.2.3" {
		t.Fatalf("got %+v, %v", l, err)
	}
	if got, err := l.Artifact(); err != nil || !reflect.DeepEqual(got, tested) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestRead_RefusesDamage(t *testing.T) {
	file, _ := written(t)
	good, err := unpack(file)
	if err != nil {
		t.Fatal(err)
	}
	blob := func(files map[string][]byte) string {
		for name, text := range files {
			if string(text) == "content" {
				return name
			}
		}
		return ""
	}
	for _, c := range []struct {
		name, want string
		damage     func(files map[string][]byte)
	}{
		{"another content", "has the digest", func(files map[string][]byte) { files[blob(files)] = []byte("contenT") }},
		{"no content", "lacks one of the blobs", func(files map[string][]byte) { delete(files, blob(files)) }},
		{"no index", "read index.json", func(files map[string][]byte) { delete(files, indexFile) }},
		{"two manifests", "2 entries", func(files map[string][]byte) {
			var index map[string]any
			if err := json.Unmarshal(files[indexFile], &index); err != nil {
				t.Fatal(err)
			}
			index["manifests"] = append(index["manifests"].([]any), index["manifests"].([]any)[0])
			files[indexFile], _ = json.Marshal(index)
		}},
		{"another manifest", "does not contain", func(files map[string][]byte) {
			files[indexFile] = []byte(strings.Replace(string(files[indexFile]), `"digest":"sha256:`, `"digest":"sha256:`+strings.Repeat("0", 64)+`","other":"`, 1))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string][]byte{}
			for name, text := range good {
				files[name] = text
			}
			c.damage(files)
			var entries []archive.File
			for name, text := range files {
				entries = append(entries, archive.File{Name: name, Mode: 0o644, Text: text})
			}
			bad := filepath.Join(t.TempDir(), "bad.tar")
			out, err := os.Create(bad)
			if err := errors.Join(err, archive.Tar(out, modified, entries), out.Close()); err != nil {
				t.Fatal(err)
			}
			l, err := Read(bad)
			if err == nil {
				_, err = l.Artifact()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
