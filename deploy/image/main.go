// Image builds Plimsoll's container image from static binaries, one for each architecture. It
// writes an OCI image layout as a tar file, its digest, and a list of the parts of each binary
// (CycloneDX).
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/deploy/internal/archive"
	"plimsoll.dev/plimsoll/deploy/internal/image"
	"plimsoll.dev/plimsoll/deploy/internal/sbom"
)

const usage = `usage: image -name NAME -version VERSION -out DIRECTORY ARCHITECTURE=BINARY…

It writes plimsoll.tar, plimsoll.digest and, for each architecture,
sbom.ARCHITECTURE.cdx.json. SOURCE_DATE_EPOCH, in seconds, is the image's time.
`

func main() {
	var r image.Release
	var licences []string
	flag.StringVar(&r.Name, "name", "registry.plimsoll.dev/plimsoll", "the image's `NAME` without a tag")
	flag.StringVar(&r.Version, "version", "", "the release's `VERSION`, which becomes the tag")
	flag.StringVar(&r.Revision, "revision", "", "the source's `REVISION`")
	flag.Func("licence", "a `FILE` for the directory licenses of the image; can be repeated", func(file string) error {
		licences = append(licences, file)
		return nil
	})
	out := flag.String("out", "", "`DIRECTORY` to write to")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if r.Version == "" || *out == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := fromArguments(r, licences, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func fromArguments(r image.Release, licences []string, out string, args []string) error {
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("read SOURCE_DATE_EPOCH %q: %w: set it to the commit's time, as git log -1 --format=%%ct prints it", epoch, err)
	}
	r.Created = time.Unix(seconds, 0).UTC()
	for _, file := range licences {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read a licence: %w", err)
		}
		r.Licences = append(r.Licences, archive.File{Name: filepath.Base(file), Text: text})
	}
	var binaries []*image.Binary
	for _, arg := range args {
		arch, path, _ := strings.Cut(arg, "=")
		b, err := image.ReadBinary(arch, path)
		if err != nil {
			return err
		}
		binaries = append(binaries, b)
	}
	digest, err := write(r, binaries, out)
	if err != nil {
		return err
	}
	fmt.Println(r.Reference(), digest)
	return nil
}

// write creates the image, its digest and the lists, and returns the digest.
func write(r image.Release, binaries []*image.Binary, out string) (digest string, err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	digest, err = r.Write(filepath.Join(out, "plimsoll.tar"), binaries)
	if err != nil {
		return "", err
	}
	for _, b := range binaries {
		list, err := sbom.Program{Name: "plimsoll", Version: r.Version, Created: r.Created, Text: b.Text, Info: b.Info}.JSON()
		if err != nil {
			return "", fmt.Errorf("list what the binary for %s is made of: %w", b.Arch, err)
		}
		if err := os.WriteFile(filepath.Join(out, "sbom."+b.Arch+".cdx.json"), list, 0o644); err != nil {
			return "", err
		}
	}
	return digest, os.WriteFile(filepath.Join(out, "plimsoll.digest"), []byte(digest+"\n"), 0o644)
}
