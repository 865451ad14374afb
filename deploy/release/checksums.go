package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checksums returns the digest of every file in a directory. Returns an error if there is something else than files.
func checksums(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			return nil, fmt.Errorf("%s is no file: a release has files only", filepath.Join(dir, e.Name()))
		}
		if sums[e.Name()], err = fileSum(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

func fileSum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// writeChecksums writes the checksums of a release in the form of sha256sum.
func writeChecksums(dir string) error {
	sums, err := checksums(dir)
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&list, "%s  %s\n", sums[name], name)
	}
	return os.WriteFile(filepath.Join(dir, checksumsFile), []byte(list.String()), 0o644)
}
