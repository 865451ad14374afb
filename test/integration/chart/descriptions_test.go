package chart_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// description matches the description of a value in the schema: on a line of its own, or before other members.
var description = regexp.MustCompile(`(\n *)?"description": "(?:[^"\\]|\\.)*",? ?`)

// described writes the comments of values.yaml into the schema, as the first member of each value's
// schema.
func described(t *testing.T, schema string) string {
	t.Helper()
	schema = description.ReplaceAllLiteralString(schema, "")
	begins := objectsIn(t, schema)
	texts := map[int64]string{}
	values, _ := documented(t)
	for _, v := range values {
		path := "/properties/" + strings.Join(v.path, "/properties/")
		at, found := begins[path]
		if !found {
			t.Errorf("values.schema.json has no %s", path)
			continue
		}
		texts[at] = v.comment
	}
	var b strings.Builder
	last := int64(0)
	for _, at := range slices.Sorted(maps.Keys(texts)) {
		b.WriteString(schema[last:at])
		b.WriteString(member(t, schema[at:], texts[at]))
		last = at
	}
	return b.String() + schema[last:]
}

// member returns the description of a schema that continues with rest.
func member(t *testing.T, rest, text string) string {
	t.Helper()
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		t.Fatal(err)
	}
	line := `"description": ` + strings.TrimSpace(quoted.String()) + ","
	if indent := regexp.MustCompile(`^\n *`).FindString(rest); indent != "" {
		return indent + line
	}
	return line + " "
}

// objectsIn returns the place after the opening brace of each object in a JSON text, by the keys that
// lead to it.
func objectsIn(t *testing.T, text string) map[string]int64 {
	t.Helper()
	decoder, begins := json.NewDecoder(strings.NewReader(text)), map[string]int64{}
	next := func() json.Token {
		token, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	var walk func(path string)
	walk = func(path string) {
		switch next() {
		case json.Delim('{'):
			for begins[path] = decoder.InputOffset(); decoder.More(); {
				walk(fmt.Sprintf("%s/%v", path, next()))
			}
			next()
		case json.Delim('['):
			for decoder.More() {
				walk(path + "/*")
			}
			next()
		}
	}
	walk("")
	return begins
}

// TestDescribed_IsRepeatable checks that descriptions are replaced and not added again, in both layouts.
func TestDescribed_IsRepeatable(t *testing.T) {
	schema := text(t, filepath.Join(chart, "values.schema.json"))
	once := described(t, schema)
	if twice := described(t, once); twice != once {
		t.Error("a second run changes the descriptions")
	}
	if plain := description.ReplaceAllLiteralString(once, ""); plain != description.ReplaceAllLiteralString(schema, "") {
		t.Error("more than descriptions has changed")
	}
	var all map[string]any
	if err := json.Unmarshal([]byte(once), &all); err != nil {
		t.Fatal(err)
	}
	account := lookup(t, all, strings.Fields("properties agent properties serviceAccount properties name"))
	if got := account.(map[string]any)["description"]; got != "Name. Empty: plimsoll-agent, with the prefix of fullnameOverride." {
		t.Errorf("description of agent.serviceAccount.name: %v", got)
	}
}

const readmeIntroduction = `## Install

No chart and no image is published yet: build the image from a checkout, and install from there.

    helm install plimsoll deploy/helm/plimsoll --namespace plimsoll-system --create-namespace --set image.repository=registry.example/plimsoll
    helm test plimsoll --namespace plimsoll-system

Agents are disarmed: they decide and report, and change nothing. [Install](../../../docs/how-to/install.md) has the steps,
[presets](presets) are for platforms, and [upgrade](../../../docs/how-to/upgrade.md) and
[uninstall](../../../docs/how-to/uninstall.md) describe the rest of a release's life.
[Helm values](../../../docs/reference/helm-values.md) has the values by subject.
`

// TestGeneratedReadme_IsUpToDate compares the README of the chart with Chart.yaml and with the comments of
// values.yaml. It has the parts and the table of helm-docs.
func TestGeneratedReadme_IsUpToDate(t *testing.T) {
	var about struct{ Name, Version, Type, AppVersion, Description, Home, KubeVersion string }
	if err := yaml.Unmarshal([]byte(text(t, filepath.Join(chart, "Chart.yaml"))), &about); err != nil {
		t.Fatal(err)
	}
	badge := func(name, value string) string {
		return fmt.Sprintf("![%s: %s](https://img.shields.io/badge/%[1]s-%[2]s-informational?style=flat-square)", name, value)
	}
	values, defaults := documented(t)
	var rows []string
	for _, v := range values {
		if v.hasRows(values) {
			continue
		}
		standard := lookup(t, defaults, v.path)
		data, err := json.Marshal(standard)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | `%s` | %s |\n", strings.Join(v.path, "."), typeOf(standard), data, strings.ReplaceAll(v.comment, "|", `\|`)))
	}
	slices.Sort(rows)
	agrees(t, filepath.Join(chart, "README.md"), "# "+about.Name+`

<!-- Made from Chart.yaml and values.yaml by make manifests: do not edit. -->

`+badge("Version", about.Version)+" "+badge("Type", about.Type)+" "+badge("AppVersion", about.AppVersion)+"\n\n"+about.Description+
		"\n\n**Homepage:** <"+about.Home+">\n\n"+readmeIntroduction+"\n## Requirements\n\nKubernetes: `"+about.KubeVersion+
		"`\n\n## Values\n\n| Key | Type | Default | Description |\n|-----|------|---------|-------------|\n"+strings.Join(rows, ""))
}

// typeOf returns the type of a default, in the words of helm-docs.
func typeOf(standard any) string {
	switch standard.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case float64:
		return "int"
	case []any:
		return "list"
	case map[string]any:
		return "object"
	}
	return "nil"
}
