package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var modified = time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)

var files = []File{
	{"licenses/", 0o755, nil},
	{"licenses/LICENSE", 0o644, []byte("free\n")},
	{"program", 0o755, bytes.Repeat([]byte("code"), 10_000)},
}

func TestTree_IgnoresModesOfDisk(t *testing.T) {
	dir := t.TempDir()
	err := errors.Join(os.Mkdir(filepath.Join(dir, "b"), 0o700), os.WriteFile(filepath.Join(dir, "b", "x"), []byte("1"), 0o600),
		os.WriteFile(filepath.Join(dir, "a"), nil, 0o777))
	if err != nil {
		t.Fatal(err)
	}
	found, err := Tree(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, fmt.Sprintf("%o %s %s", f.Mode, f.Name, f.Text))
	}
	if want := []string{"644 a ", "755 b/ ", "644 b/x 1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTarGz_DependsOnContentAlone(t *testing.T) {
	text, err := TarGz(modified, files)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := modified.In(time.FixedZone("", 3600))
	if again, err := TarGz(elsewhere, files); err != nil || !bytes.Equal(text, again) {
		t.Errorf("the second archive differs, %v", err)
	}
	plain, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if !plain.ModTime.IsZero() || plain.Name != "" {
		t.Errorf("the compressed file has the time %v and the name %q", plain.ModTime, plain.Name)
	}
	archive := tar.NewReader(plain)
	for _, want := range files {
		header, err := archive.Next()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(archive)
		if err != nil || !bytes.Equal(got, want.Text) || header.Name != want.Name || header.Mode != want.Mode {
			t.Errorf("got %s %o with %d bytes, %v; want %s %o with %d", header.Name, header.Mode, len(got), err, want.Name, want.Mode, len(want.Text))
		}
		if !header.ModTime.Equal(modified) || header.Uid != 0 || header.Uname != "" {
			t.Errorf("%s is of %v and of %d %q", header.Name, header.ModTime, header.Uid, header.Uname)
		}
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last file: %v", err)
	}
}

func TestZip_DependsOnContentAlone(t *testing.T) {
	text, err := Zip(modified, files)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := modified.In(time.FixedZone("", 3600))
	if again, err := Zip(elsewhere, files); err != nil || !bytes.Equal(text, again) {
		t.Errorf("the second archive differs, %v", err)
	}
	archive, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil || len(archive.File) != len(files) {
		t.Fatalf("got %v, %v", archive, err)
	}
	for i, f := range archive.File {
		want := files[i]
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(content)
		if err != nil || !bytes.Equal(got, want.Text) || f.Name != want.Name || int64(f.Mode().Perm()) != want.Mode {
			t.Errorf("got %s %v with %d bytes, %v; want %s %o with %d", f.Name, f.Mode(), len(got), err, want.Name, want.Mode, len(want.Text))
		}
		if !f.Modified.Equal(modified) {
			t.Errorf("%s is of %v", f.Name, f.Modified)
		}
	}
}

func TestTar_RefusesLongNames(t *testing.T) {
	name := string(bytes.Repeat([]byte("x"), 300))
	if err := Tar(io.Discard, modified, []File{{name, 0o644, nil}}); err == nil {
		t.Error("a name of 300 bytes was accepted")
	}
}
