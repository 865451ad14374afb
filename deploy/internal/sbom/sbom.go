// Package sbom lists the parts of a Go program, as the linker recorded them in it, in the form of CycloneDX. Modules in
// go.mod that are not linked are not in the list. It reads no clock and no file: the same program gives the same list.
package sbom

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// Program is a program of a release.
type Program struct {
	Name    string
	Version string
	Created time.Time
	Text    []byte // of the file
	Info    *debug.BuildInfo
}

// JSON returns the list of a program's parts. Returns an error if one of them has no sum in go.sum.
func (p Program) JSON() ([]byte, error) {
	bom, err := p.bom()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	// 1.6, not the latest: tools that read these lists support new versions late.
	err = cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return text.Bytes(), err
}

func (p Program) bom() (*cdx.BOM, error) {
	product := p.component()
	parts := []cdx.Component{standardLibrary(p.Info)}
	for _, m := range p.Info.Deps {
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
	bom.SerialNumber = p.serial()
	bom.Metadata = &cdx.Metadata{Timestamp: p.Created.Format(time.RFC3339), Component: &product}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: product.BOMRef, Dependencies: &refs}}
	// The linker lists every module that it took code from.
	bom.Compositions = &[]cdx.Composition{{Aggregate: cdx.CompositionAggregateComplete, Dependencies: &[]cdx.BOMReference{cdx.BOMReference(product.BOMRef)}}}
	return bom, nil
}

// serial returns a UUID of version 8 derived from the program: one list, one number.
func (p Program) serial() string {
	id := sha256.Sum256(p.Text)
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// component returns the program itself. The settings of its build are properties, by the names that
// CycloneDX has reserved for Go.
func (p Program) component() cdx.Component {
	properties := []cdx.Property{}
	for _, s := range p.Info.Settings {
		if key := strings.TrimLeft(s.Key, "-"); strings.ToUpper(key) == key { // from the environment
			properties = append(properties, cdx.Property{Name: "cdx:gomod:build:env:" + key, Value: s.Value})
		}
	}
	purl := PackageURL(p.Info.Main.Path, p.Version)
	return cdx.Component{
		BOMRef: purl, Type: cdx.ComponentTypeApplication, Name: p.Name, Version: p.Version, PackageURL: purl,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(p.Text))}},
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Properties: &properties,
	}
}

// standardLibrary returns the standard library of Go, under its name in databases of
// vulnerabilities.
func standardLibrary(info *debug.BuildInfo) cdx.Component {
	purl := StandardLibrary(info)
	_, version, _ := strings.Cut(purl, "@")
	return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: "stdlib", Version: version, PackageURL: purl}
}

// StandardLibrary returns the name of Go's standard library in a program, in the notation of scanners.
func StandardLibrary(info *debug.BuildInfo) string {
	version, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	return PackageURL("stdlib", version)
}

// module returns a dependency as it was linked: its replacement, if any. Its hash is that of
// go.sum, over the module's tree: no file has it.
func module(m *debug.Module) (cdx.Component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	purl := PackageURL(m.Path, m.Version)
	part := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl}
	tree, err := Sum(m)
	if err != nil {
		return part, err
	}
	part.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: tree}}
	return part, nil
}

// Sum returns the sum of a module's tree in hexadecimal digits. Returns an error if it has none: then the module is a
// directory of this machine.
func Sum(m *debug.Module) (string, error) {
	sum, found := strings.CutPrefix(m.Sum, "h1:")
	if !found {
		return "", fmt.Errorf("module %s %s has the sum %q: only modules that go.sum vouches for go into a release", m.Path, m.Version, m.Sum)
	}
	tree, err := base64.StdEncoding.DecodeString(sum)
	if err != nil {
		return "", fmt.Errorf("read the sum of module %s %s: %w", m.Path, m.Version, err)
	}
	return hex.EncodeToString(tree), nil
}

// PackageURL returns a module's name in the notation of scanners.
func PackageURL(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}
