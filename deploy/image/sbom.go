package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBOM lists the parts of a binary, as the linker recorded them in it. Modules in go.mod that
// are not linked are not in the list.
func writeBOM(path string, r release, b *binary) error {
	bom, err := makeBOM(r, b)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	// 1.6, not the latest: tools that read these lists support new versions late.
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

func makeBOM(r release, b *binary) (*cdx.BOM, error) {
	product := product(r, b)
	parts := []cdx.Component{standardLibrary(b.info)}
	for _, m := range b.info.Deps {
		part, err := module(m)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	var refs []string
	for _, p := range parts {
		refs = append(refs, p.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = serial(b)
	bom.Metadata = &cdx.Metadata{Timestamp: r.created.Format(time.RFC3339), Component: &product}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: product.BOMRef, Dependencies: &refs}}
	// The linker lists every module that it took code from.
	bom.Compositions = &[]cdx.Composition{{Aggregate: cdx.CompositionAggregateComplete, Dependencies: &[]cdx.BOMReference{cdx.BOMReference(product.BOMRef)}}}
	return bom, nil
}

// serial returns a UUID of version 8 derived from the binary: one list, one number.
func serial(b *binary) string {
	id := b.digest()
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// product returns the program itself. The settings of its build are properties, by the names that
// CycloneDX has reserved for Go.
func product(r release, b *binary) cdx.Component {
	properties := []cdx.Property{}
	for _, s := range b.info.Settings {
		if key := strings.TrimLeft(s.Key, "-"); strings.ToUpper(key) == key { // from the environment
			properties = append(properties, cdx.Property{Name: "cdx:gomod:build:env:" + key, Value: s.Value})
		}
	}
	purl := packageURL(b.info.Main.Path, r.version)
	return cdx.Component{
		BOMRef: purl, Type: cdx.ComponentTypeApplication, Name: "plimsoll", Version: r.version, PackageURL: purl,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", b.digest())}},
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Properties: &properties,
	}
}

// standardLibrary returns the standard library of Go, under its name in databases of
// vulnerabilities.
func standardLibrary(info *debug.BuildInfo) cdx.Component {
	version, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	purl := packageURL("stdlib", version)
	return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: "stdlib", Version: version, PackageURL: purl}
}

// module returns a dependency as it was linked: its replacement, if any. Its hash is that of
// go.sum, over the module's tree: no file has it.
func module(m *debug.Module) (cdx.Component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	purl := packageURL(m.Path, m.Version)
	part := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl}
	sum, found := strings.CutPrefix(m.Sum, "h1:")
	if !found {
		return part, fmt.Errorf("module %s %s has the sum %q: only modules that go.sum vouches for go into an image", m.Path, m.Version, m.Sum)
	}
	tree, err := base64.StdEncoding.DecodeString(sum)
	if err != nil {
		return part, fmt.Errorf("read the sum of module %s %s: %w", m.Path, m.Version, err)
	}
	part.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(tree)}}
	return part, nil
}

// packageURL returns a module's name in the notation of scanners.
func packageURL(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}
