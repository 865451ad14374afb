package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/plimsoll/deploy/internal/sbom"
)

const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
	// buildType names the meaning of the parameters, which RELEASING.md describes.
	buildType = "https://plimsoll.dev/plimsoll/RELEASING.md#build-type"
	// byHand is the builder of a release that no workflow made.
	byHand = "https://plimsoll.dev/plimsoll/RELEASING.md#by-hand"
	source = "https://plimsoll.dev/plimsoll"
)

// statement is the provenance of a release: in-toto's statement with SLSA's predicate of version 1. It has no times of
// the build and no number of it, so that two builds of a commit by one builder are equal.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type predicate struct {
	BuildDefinition definition `json:"buildDefinition"`
	RunDetails      details    `json:"runDetails"`
}

type definition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	InternalParameters   map[string]string `json:"internalParameters"`
	ResolvedDependencies []resource        `json:"resolvedDependencies"`
}

type details struct {
	Builder builder `json:"builder"`
}

type builder struct {
	ID string `json:"id"`
}

// resource is a file with its digests, or what a URI names.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// writeProvenance writes what all files so far, and the images in a registry, were built from.
func (o *order) writeProvenance(all []*binary, images []pushed) error {
	sums, err := checksums(o.out)
	if err != nil {
		return err
	}
	s := statement{Type: statementType, PredicateType: predicateType}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		s.Subject = append(s.Subject, resource{Name: name, Digest: map[string]string{"sha256": sums[name]}})
	}
	for _, i := range images {
		s.Subject = append(s.Subject, resource{Name: i.name, Digest: map[string]string{"sha256": strings.TrimPrefix(i.digest, "sha256:")}})
	}
	s.Predicate.RunDetails.Builder.ID = cmp.Or(o.builder, byHand)
	s.Predicate.BuildDefinition = definition{
		BuildType:          buildType,
		ExternalParameters: map[string]string{"source": "git+" + source, "version": o.version, "image": o.image, "chart": o.chart},
		InternalParameters: map[string]string{
			"SOURCE_DATE_EPOCH": strconv.FormatInt(o.created.Unix(), 10), "GOFLAGS": os.Getenv("GOFLAGS"), "ldflags": o.ldflags,
		},
	}
	if s.Predicate.BuildDefinition.ResolvedDependencies, err = o.dependencies(all); err != nil {
		return err
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return o.put(provenanceFile, append(text, '\n'))
}

// dependencies returns the commit, the standard libraries and the modules that the programs are made of.
func (o *order) dependencies(all []*binary) ([]resource, error) {
	found := map[string]resource{}
	for _, b := range all {
		library := sbom.StandardLibrary(b.info)
		found[library] = resource{URI: library}
		for _, m := range b.info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			tree, err := sbom.Sum(m)
			if err != nil {
				return nil, err
			}
			uri := sbom.PackageURL(m.Path, m.Version)
			found[uri] = resource{URI: uri, Digest: map[string]string{"dirHash": tree}}
		}
	}
	modules := slices.SortedFunc(maps.Values(found), func(a, b resource) int { return cmp.Compare(a.URI, b.URI) })
	uri := "git+" + source
	if o.tag != "" {
		uri += "@refs/tags/" + o.tag
	}
	return append([]resource{{URI: uri, Digest: map[string]string{"gitCommit": o.revision}}}, modules...), nil
}
