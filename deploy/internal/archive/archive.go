// Package archive writes tar and zip files that depend on their content alone. Entries have the given order, one time, and
// the owner root; their modes do not depend on the disk. The same files give the same bytes.
package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// File is an entry. It is a directory if its name ends in a slash.
type File struct {
	Name string
	Mode int64
	Text []byte
}

// Tree returns the directories and files of a file system in the order of their names. Returns an error if one
// cannot be read.
func Tree(from fs.FS) (files []File, err error) {
	err = fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if entry.IsDir() {
			files = append(files, File{name + "/", 0o755, nil})
			return nil
		}
		text, err := fs.ReadFile(from, name)
		files = append(files, File{name, 0o644, text})
		return err
	})
	return files, err
}

// Tar writes the files as a tar archive. Returns an error if w does, or if a name is too long for the format.
func Tar(w io.Writer, modified time.Time, files []File) error {
	archive := tar.NewWriter(w)
	for _, f := range files {
		header := &tar.Header{Name: f.Name, Mode: f.Mode, Size: int64(len(f.Text)), ModTime: modified, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("add %s: %w", f.Name, err)
		}
		if _, err := archive.Write(f.Text); err != nil {
			return fmt.Errorf("add %s: %w", f.Name, err)
		}
	}
	return archive.Close()
}

// TarGz returns the files as a compressed tar archive. Returns an error if a name is too long for the format.
func TarGz(modified time.Time, files []File) ([]byte, error) {
	var text bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&text, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	err = errors.Join(Tar(compressed, modified, files), compressed.Close())
	return text.Bytes(), err
}

// Zip returns the files as a zip archive. Returns an error if one has a name that the format does not allow.
func Zip(modified time.Time, files []File) ([]byte, error) {
	var text bytes.Buffer
	archive := zip.NewWriter(&text)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, f := range files {
		header := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: modified.UTC()}
		header.SetMode(fs.FileMode(f.Mode))
		w, err := archive.CreateHeader(header)
		if err != nil {
			return nil, fmt.Errorf("add %s: %w", f.Name, err)
		}
		if _, err := w.Write(f.Text); err != nil {
			return nil, fmt.Errorf("add %s: %w", f.Name, err)
		}
	}
	err := archive.Close()
	return text.Bytes(), err
}
