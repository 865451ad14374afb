package chart_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	agentconfig "plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	controllerconfig "plimsoll.dev/plimsoll/lifecycle/config"
)

var update = flag.Bool("update", false, "write generated files")

// agrees compares a file with the wanted content, or writes it with -update.
func agrees(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%v: run make manifests", err)
		return
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is out of date: run make manifests (-want +got):\n%s", file, diff)
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// names returns the files of a directory with a suffix, without the suffix.
func names(t *testing.T, dir, ending string) (all []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"+ending))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		all = append(all, strings.TrimSuffix(filepath.Base(p), ending))
	}
	return all
}

// TestGeneratedFiles_AreUpToDate checks the chart's copies of rights and policies. Helm reads nothing
// outside of a chart.
func TestGeneratedFiles_AreUpToDate(t *testing.T) {
	for _, dir := range []string{"rbac", "admission"} {
		inside := filepath.Join(chart, "files", dir)
		want := names(t, filepath.Join(deploy, dir), ".yaml")
		for _, name := range want {
			agrees(t, filepath.Join(inside, name+".yaml"), text(t, filepath.Join(deploy, dir, name+".yaml")))
		}
		for _, name := range names(t, inside, ".yaml") {
			if _, err := os.Stat(filepath.Join(deploy, dir, name+".yaml")); err != nil {
				t.Errorf("%s/%s.yaml is only in the chart: remove it", inside, name)
			}
		}
	}
}

var hyphen = regexp.MustCompile(`-[a-z]`)

// policyName returns the value that enables a file of deploy/admission.
func policyName(file string) string {
	return hyphen.ReplaceAllStringFunc(file, func(s string) string { return strings.ToUpper(s[1:]) })
}

// TestGeneratedSchema_IsUpToDate compares the schema's names of configuration fields with the program's
// tables, and its descriptions with the comments of values.yaml.
func TestGeneratedSchema_IsUpToDate(t *testing.T) {
	file := filepath.Join(chart, "values.schema.json")
	want := text(t, file)
	for name, values := range map[string][]string{
		"agentFields": agentconfig.Fields(), "controllerFields": controllerconfig.Fields(),
	} {
		line := regexp.MustCompile(fmt.Sprintf(`"%s": \{"enum": \[.*\]\}`, name))
		list, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		if !line.MatchString(want) {
			t.Fatalf("%s has no place for %s", file, name)
		}
		want = line.ReplaceAllLiteralString(want, fmt.Sprintf(`"%s": {"enum": %s}`, name, list))
	}
	// Not propertyNames: Helm reports a wrong position for those.
	for name, value := range map[string]string{"thresholds": "threshold", "gracePeriods": "gracePeriod"} {
		var properties []string
		for s := range signals.All {
			properties = append(properties, fmt.Sprintf(`"%s": {"$ref": "#/definitions/%s"}`, s, value))
		}
		line := regexp.MustCompile(fmt.Sprintf(`("%s": \{.*"properties": \{).*(\}\})`, name))
		if !line.MatchString(want) {
			t.Fatalf("%s has no place for %s", file, name)
		}
		parts := line.FindStringSubmatch(want)
		want = line.ReplaceAllLiteralString(want, parts[1]+strings.Join(properties, ", ")+parts[2])
	}
	agrees(t, file, described(t, want))
}
