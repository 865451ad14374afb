// Image builds Plimsoll's container image from static binaries, one for each architecture. It
// writes an OCI image layout as a tar file, its digest, and a list of the parts of each binary
// (CycloneDX). It needs neither a container engine nor a registry, and does not read the clock: the
// same binaries, version, revision and time always give the same bytes. It is a module of its own,
// so that the libraries for images are no dependency of the product.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const usage = `usage: image -name NAME -version VERSION -out DIRECTORY ARCHITECTURE=BINARY…

It writes plimsoll.tar, plimsoll.digest and, for each architecture,
sbom.ARCHITECTURE.cdx.json. SOURCE_DATE_EPOCH, in seconds, is the image's time.
`

// release is the metadata of an image.
type release struct {
	name     string // of the repository, with its registry
	version  string // also the tag
	revision string // of the source; empty if unknown
	created  time.Time
}

// reference returns the name that a node resolves.
func (r release) reference() string { return r.name + ":" + r.version }

func main() {
	var r release
	flag.StringVar(&r.name, "name", "registry.plimsoll.dev/plimsoll", "the image's `NAME` without a tag")
	flag.StringVar(&r.version, "version", "", "the release's `VERSION`, which becomes the tag")
	flag.StringVar(&r.revision, "revision", "", "the source's `REVISION`")
	out := flag.String("out", "", "`DIRECTORY` to write to")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if r.version == "" || *out == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := fromArguments(r, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func fromArguments(r release, out string, args []string) error {
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("read SOURCE_DATE_EPOCH %q: %w: set it to the commit's time, as git log -1 --format=%%ct prints it", epoch, err)
	}
	r.created = time.Unix(seconds, 0).UTC()
	var binaries []*binary
	for _, arg := range args {
		arch, path, _ := strings.Cut(arg, "=")
		b, err := readBinary(arch, path)
		if err != nil {
			return err
		}
		binaries = append(binaries, b)
	}
	digest, err := write(r, binaries, out)
	if err != nil {
		return err
	}
	fmt.Println(r.reference(), digest)
	return nil
}

// write creates all files of a release and returns the image's digest: that of its index, which
// covers every architecture.
func write(r release, binaries []*binary, out string) (digest string, err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	index, err := makeIndex(r, binaries)
	if err != nil {
		return "", err
	}
	if err := writeArchive(filepath.Join(out, "plimsoll.tar"), r, index); err != nil {
		return "", fmt.Errorf("write the image: %w", err)
	}
	for _, b := range binaries {
		if err := writeBOM(filepath.Join(out, "sbom."+b.arch+".cdx.json"), r, b); err != nil {
			return "", fmt.Errorf("write what the binary for %s is made of: %w", b.arch, err)
		}
	}
	hash, err := index.Digest()
	if err != nil {
		return "", err
	}
	return hash.String(), os.WriteFile(filepath.Join(out, "plimsoll.digest"), []byte(hash.String()+"\n"), 0o644)
}
