package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v2"

	"plimsoll.dev/plimsoll/deploy/internal/archive"
	"plimsoll.dev/plimsoll/deploy/internal/artifact"
)

const (
	chartDir   = "deploy/helm/plimsoll"
	chartFile  = "Chart.yaml"
	ignoreFile = ".helmignore"
)

// Media types of a chart in a registry, as Helm reads them.
const (
	chartConfig  = "application/vnd.cncf.helm.config.v1+json"
	chartContent = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// metadata is the content of Chart.yaml. A key that is not here is refused: it would be lost.
type metadata struct {
	APIVersion  string            `yaml:"apiVersion" json:"apiVersion"`
	Name        string            `yaml:"name" json:"name"`
	Version     string            `yaml:"version" json:"version"`
	AppVersion  string            `yaml:"appVersion" json:"appVersion"`
	KubeVersion string            `yaml:"kubeVersion" json:"kubeVersion,omitempty"`
	Description string            `yaml:"description" json:"description,omitempty"`
	Type        string            `yaml:"type" json:"type,omitempty"`
	Home        string            `yaml:"home" json:"home,omitempty"`
	Icon        string            `yaml:"icon" json:"icon,omitempty"`
	Keywords    []string          `yaml:"keywords" json:"keywords,omitempty"`
	Sources     []string          `yaml:"sources" json:"sources,omitempty"`
	Maintainers []maintainer      `yaml:"maintainers" json:"maintainers,omitempty"`
	Annotations map[string]string `yaml:"annotations" json:"annotations,omitempty"`
}

type maintainer struct {
	Name  string `yaml:"name" json:"name,omitempty"`
	Email string `yaml:"email" json:"email,omitempty"`
	URL   string `yaml:"url" json:"url,omitempty"`
}

// writeChart writes the chart twice: as the file that helm installs, and as an artifact for a registry. It returns the
// digest of the artifact.
func (o *order) writeChart() (string, error) {
	dir := o.path(chartDir)
	text, err := os.ReadFile(filepath.Join(dir, chartFile))
	if err != nil {
		return "", err
	}
	var m metadata
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		return "", fmt.Errorf("read %s: %w", chartFile, err)
	}
	if m.Version != o.version || m.AppVersion != o.version {
		return "", fmt.Errorf("%s has the versions %s and %s, not %s: run make release VERSION=%s", chartFile, m.Version, m.AppVersion, o.version, o.version)
	}
	files, err := chartFiles(dir, m.Name)
	if err != nil {
		return "", err
	}
	packed, err := archive.TarGz(o.created, files)
	if err != nil {
		return "", err
	}
	if err := o.put(o.file(".tgz"), packed); err != nil {
		return "", err
	}
	config, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	a := artifact.Artifact{
		Config:      artifact.Blob{MediaType: chartConfig, Text: config},
		Layers:      []artifact.Blob{{MediaType: chartContent, Text: packed}},
		Annotations: o.annotations(m),
	}
	return a.Write(filepath.Join(o.out, o.file("-chart.tar")), o.version, o.created)
}

// annotations returns what registries show of the chart.
func (o *order) annotations(m metadata) map[string]string {
	all := map[string]string{
		"org.opencontainers.image.title":       m.Name,
		"org.opencontainers.image.description": m.Description,
		"org.opencontainers.image.version":     m.Version,
		"org.opencontainers.image.url":         m.Home,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.created":     o.created.Format(time.RFC3339),
	}
	if o.revision != "" {
		all["org.opencontainers.image.revision"] = o.revision
	}
	return all
}

// chartFiles returns the files of a chart as helm packages them: in a directory with its name, and without those
// that .helmignore names.
func chartFiles(dir, name string) (files []archive.File, err error) {
	text, err := os.ReadFile(filepath.Join(dir, ignoreFile))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	ignored, err := ignorePatterns(string(text))
	if err != nil {
		return nil, err
	}
	all, err := archive.Tree(os.DirFS(dir))
	for _, f := range all {
		inside := strings.Split(strings.TrimSuffix(f.Name, "/"), "/")
		skip := slices.ContainsFunc(ignored, func(pattern string) bool {
			return slices.ContainsFunc(inside, func(part string) bool { matches, _ := path.Match(pattern, part); return matches })
		})
		if !skip && !strings.HasSuffix(f.Name, "/") {
			files = append(files, archive.File{Name: path.Join(name, f.Name), Mode: f.Mode, Text: f.Text})
		}
	}
	return files, err
}

// ignorePatterns returns the patterns of a .helmignore. Returns an error for those that are no pattern of a single name.
func ignorePatterns(text string) (all []string, err error) {
	for line := range strings.Lines(text) {
		pattern := strings.TrimSuffix(strings.TrimSpace(line), "/")
		if pattern == "" || strings.HasPrefix(pattern, "#") {
			continue
		}
		if _, err := path.Match(pattern, ""); err != nil || strings.ContainsAny(pattern, "/!") {
			return nil, fmt.Errorf("read %s: the pattern %q is not of a single name, such as *.swp", ignoreFile, pattern)
		}
		all = append(all, pattern)
	}
	return all, nil
}
