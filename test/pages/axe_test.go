package pages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// axe-core, by its archive in the npm registry. It is fetched once, and has to have this checksum.
const (
	axeVersion = "4.14.1"
	axeArchive = "https://registry.npmjs.org/axe-core/-/axe-core-" + axeVersion + ".tgz"
	axeSHA512  = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// maxAxe bounds the archive, in bytes.
const maxAxe = 32 << 20

// axe returns the program of axe-core.
func axe(ctx context.Context) (program string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	file := filepath.Join(cache, "plimsoll", "axe-core-"+axeVersion+".tgz")
	archive, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		if archive, err = fetched(ctx, axeArchive); err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, archive, 0o644))
		}
	}
	if err != nil {
		return "", err
	}
	if sum := sha512.Sum512(archive); base64.StdEncoding.EncodeToString(sum[:]) != axeSHA512 {
		return "", fmt.Errorf("%s has another checksum than that of %s: remove it", file, axeArchive)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return "", err
	}
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if err != nil {
			return "", fmt.Errorf("find axe.min.js in %s: %w", file, err)
		}
		if header.Name == "package/axe.min.js" {
			text, err := io.ReadAll(r)
			return string(text), err
		}
	}
}

func fetched(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch %s: %s", address, answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, maxAxe))
}
