package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// isSignature reports whether a file of a release is made by sign. The checksums do not have it.
func isSignature(name string) bool {
	return name == checksumsFile+".sig" || name == envelopeFile || strings.HasSuffix(name, signatureEnding)
}

// checksums returns the digest of every file in a directory, signatures and the checksums themselves excepted. Returns
// an error if there is something else than files.
func checksums(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, e := range entries {
		if e.Name() == checksumsFile || isSignature(e.Name()) {
			continue
		}
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

// checkChecksums returns an error with every file of a release that is missing, changed or not listed.
func checkChecksums(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, checksumsFile))
	if err != nil {
		return err
	}
	got, err := checksums(dir)
	if err != nil {
		return err
	}
	var faults []error
	for line := range strings.Lines(string(text)) {
		sum, name, valid := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		switch {
		case !valid || name == "":
			faults = append(faults, fmt.Errorf("%s: line %q must have the form DIGEST  FILE", checksumsFile, line))
		case got[name] == "":
			faults = append(faults, fmt.Errorf("%s is missing", name))
		case got[name] != sum:
			faults = append(faults, fmt.Errorf("%s has the digest %s, not %s", name, got[name], sum))
		}
		delete(got, name)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		faults = append(faults, fmt.Errorf("%s is not in %s", name, checksumsFile))
	}
	return errors.Join(faults...)
}
