package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/deploy/internal/archive"
	"plimsoll.dev/plimsoll/deploy/internal/image"
)

// Files of a release beside those of programs, image and chart.
const (
	imagesFile     = "images.txt"
	notesFile      = "notes.md"
	provenanceFile = "provenance.json"
	checksumsFile  = "checksums.txt"
)

// order is what a release is made from, and for.
type order struct {
	*tree
	out          string
	version, tag string
	revision     string
	created      time.Time
	image, chart string // their names in a registry
	builder      string
	ldflags      string
}

// file returns the name of a file of the release that is named after it.
func (o *order) file(ending string) string { return "plimsoll-" + o.version + ending }

// put writes a file of the release.
func (o *order) put(name string, text []byte) error {
	return os.WriteFile(filepath.Join(o.out, name), text, 0o644)
}

// check returns the notes of the release. Returns an error if the tree is not of the ordered version, or if the
// directory for the release contains something.
func (o *order) check() (string, error) {
	if o.revision == "" {
		return "", errors.New("there is no commit: a release is built from a clone, by its owner")
	}
	if o.tag != "" && o.tag != "v"+o.version {
		return "", fmt.Errorf("the tag %s does not name the version of the tree, %s", o.tag, o.version)
	}
	if err := o.checkVersion(o.version); err != nil {
		return "", err
	}
	if entries, err := os.ReadDir(o.out); err == nil && len(entries) > 0 {
		return "", fmt.Errorf("the directory %s is not empty: remove it first", o.out)
	}
	changelog, err := os.ReadFile(o.path(changelogFile))
	if err != nil {
		return "", err
	}
	return notes(string(changelog), o.version, o.tag != "")
}

// build makes the release, and returns what of it goes into a registry. After an error the directory has a part of it,
// without checksums.
func (o *order) build(ctx context.Context) ([]pushed, error) {
	text, err := o.check()
	if err != nil {
		return nil, fmt.Errorf("check the tree: %w", err)
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return nil, err
	}
	licences, err := o.licences(ctx)
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	var all []*binary
	for _, p := range o.programs {
		for _, s := range p.systems {
			b, err := o.compile(ctx, p, s, work)
			if err != nil {
				return nil, err
			}
			all = append(all, b)
			if err := o.write(b, licences); err != nil {
				return nil, fmt.Errorf("write %s for %s: %w", b.name, b.system, err)
			}
		}
	}
	if err := o.writeKrew(all); err != nil {
		return nil, fmt.Errorf("write the manifest for krew: %w", err)
	}
	images, err := o.writeImages(all, licences)
	if err != nil {
		return nil, err
	}
	if err := o.put(notesFile, []byte(text)); err != nil {
		return nil, err
	}
	if err := o.writeProvenance(all, images); err != nil {
		return nil, fmt.Errorf("write the provenance: %w", err)
	}
	return images, writeChecksums(o.out)
}

// licences returns the licence of the project, and those of the modules that it links.
func (o *order) licences(ctx context.Context) ([]archive.File, error) {
	licence, err := os.ReadFile(o.path("LICENSE"))
	if err != nil {
		return nil, err
	}
	others, err := o.notice(ctx)
	return []archive.File{{Name: "LICENSE", Mode: 0o644, Text: licence}, {Name: noticeFile, Mode: 0o644, Text: others}}, err
}

// writeImages writes the image, the chart, and the list of both.
func (o *order) writeImages(all []*binary, licences []archive.File) ([]pushed, error) {
	var parts []*image.Binary
	for _, b := range all {
		if !b.image || b.os != "linux" {
			continue
		}
		part, err := image.ReadBinary(b.arch, b.path)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	r := image.Release{Name: o.image, Version: o.version, Revision: o.revision, Created: o.created, Licences: licences}
	digest, err := r.Write(filepath.Join(o.out, o.file("-image.tar")), parts)
	if err != nil {
		return nil, err
	}
	chart, err := o.writeChart()
	if err != nil {
		return nil, fmt.Errorf("package the chart: %w", err)
	}
	images := []pushed{
		{o.file("-image.tar"), o.image, o.version, digest},
		{o.file("-chart.tar"), o.chart, o.version, chart},
	}
	var list strings.Builder
	for _, i := range images {
		fmt.Fprintln(&list, i)
	}
	return images, o.put(imagesFile, []byte(list.String()))
}

// pushed is an archive with the name that it has in a registry.
type pushed struct {
	archive, name, tag, digest string
}

// String returns a line of the list of images.
func (p pushed) String() string { return p.archive + " " + p.name + ":" + p.tag + "@" + p.digest }
