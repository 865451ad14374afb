package main

import (
	"bytes"
	_ "embed"
	"path/filepath"
	"text/template"
)

// krewFile is the manifest of the client for krew, which installs plugins of kubectl.
const krewFile = "krew.yaml"

//go:embed krew.yaml.tmpl
var krewText string

var krewTemplate = template.Must(template.New(krewFile).Parse(krewText))

// platform is an archive of a plugin, as krew names it.
type platform struct{ OS, Arch, Archive, SHA256, Program string }

// writeKrew writes the manifest with the digests of the plugin's archives. Without a plugin there is none.
func (o *order) writeKrew(all []*binary) error {
	var platforms []platform
	for _, b := range all {
		if !b.plugin {
			continue
		}
		name := b.fileName(o.version) + b.ending()
		sum, err := fileSum(filepath.Join(o.out, name))
		if err != nil {
			return err
		}
		platforms = append(platforms, platform{b.os, b.arch, name, sum, b.executable(b.name)})
	}
	if len(platforms) == 0 {
		return nil
	}
	var text bytes.Buffer
	err := krewTemplate.Execute(&text, struct {
		Version   string
		Platforms []platform
	}{o.version, platforms})
	if err != nil {
		return err
	}
	return o.put(krewFile, text.Bytes())
}
