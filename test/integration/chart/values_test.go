package chart_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const valuesHead = `# Helm values

<!-- Made from deploy/helm/plimsoll/values.yaml by make manifests: do not edit. -->

Every value of the chart in ` + "`deploy/helm/plimsoll`" + `, with its default. An unknown key is refused.
[Install](../how-to/install.md#configure) has examples, and [configuration](configuration.md) the fields of
` + "`agent.config` and `controller.config`" + `.
`

// TestGeneratedValuesReference_IsUpToDate compares docs/reference/helm-values.md with the comments of
// values.yaml. Every key has a comment, or is part of one that has.
func TestGeneratedValuesReference_IsUpToDate(t *testing.T) {
	values, defaults := documented(t)
	general, sections := "", ""
	for _, v := range values {
		_, below := lookup(t, defaults, v.path).(map[string]any)
		switch row := v.row(t, defaults, values); {
		case v.path[0] != strings.Join(v.path, "."):
			sections += row
		case below && v.hasRows(values):
			sections += fmt.Sprintf("\n## %s\n\n%s\n\n| value | default | meaning |\n|---|---|---|\n", v.path[0], v.comment)
		default:
			general += row
		}
	}
	agrees(t, filepath.Join(docs, "reference", "helm-values.md"),
		valuesHead+"\n## General\n\n| value | default | meaning |\n|---|---|---|\n"+general+sections)
	for name := range defaults {
		if !slices.ContainsFunc(values, func(v value) bool { return v.path[0] == name }) {
			t.Errorf("values.yaml: %s has no comment", name)
		}
	}
}

// documented returns the values with a comment in values.yaml, and all defaults.
func documented(t *testing.T) (values []value, defaults map[string]any) {
	t.Helper()
	text := text(t, filepath.Join(chart, "values.yaml"))
	if err := yaml.Unmarshal([]byte(text), &defaults); err != nil {
		t.Fatal(err)
	}
	if values = commented(text); len(values) < 60 {
		t.Fatalf("only %d values have a comment", len(values))
	}
	return values, defaults
}

// A value is a key of values.yaml with a comment right before it.
type value struct {
	path    []string
	comment string
}

// hasRows reports whether a key below the value has a comment of its own.
func (v value) hasRows(all []value) bool {
	return slices.ContainsFunc(all, func(other value) bool {
		return len(other.path) > len(v.path) && slices.Equal(other.path[:len(v.path)], v.path)
	})
}

// row returns the value's row of a table. What has rows of its own has no default here.
func (v value) row(t *testing.T, defaults map[string]any, all []value) string {
	standard := ""
	if !v.hasRows(all) {
		data, err := json.Marshal(lookup(t, defaults, v.path))
		if err != nil {
			t.Fatal(err)
		}
		standard = "`" + strings.ReplaceAll(string(data), "|", `\|`) + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", strings.Join(v.path, "."), standard, strings.ReplaceAll(v.comment, "|", `\|`))
}

// lookup returns the default at a path.
func lookup(t *testing.T, in map[string]any, path []string) any {
	t.Helper()
	found, there := in[path[0]]
	if !there {
		t.Fatalf("values.yaml has no %v", path)
	}
	if len(path) == 1 {
		return found
	}
	below, _ := found.(map[string]any)
	return lookup(t, below, path[1:])
}

var (
	yamlComment = regexp.MustCompile(`^ *# ?(.*)$`)
	yamlKey     = regexp.MustCompile(`^( *)([A-Za-z][A-Za-z0-9]*):( |$)`)
)

// commented returns the keys of values.yaml that have a comment right before them.
func commented(text string) (found []value) {
	var path, comment []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if c := yamlComment.FindStringSubmatch(line); c != nil {
			comment = append(comment, c[1])
			continue
		}
		if key := yamlKey.FindStringSubmatch(line); key != nil && len(key[1])%2 == 0 && len(key[1])/2 <= len(path) {
			path = append(slices.Clone(path[:len(key[1])/2]), key[2])
			if len(comment) > 0 {
				found = append(found, value{path, strings.Join(strings.Fields(strings.Join(comment, " ")), " ")})
			}
		}
		comment = nil
	}
	return found
}
