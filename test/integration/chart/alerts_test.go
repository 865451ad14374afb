package chart_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var (
	docs   = filepath.Join("..", "..", "..", "docs")
	metric = regexp.MustCompile(`plimsoll_[a-z_]+`)
	// Sections of single alerts, not the common ones.
	runbook = regexp.MustCompile(`(?m)^## (\w+)$`)
	row     = regexp.MustCompile("(?m)^\\| `([^`]*plimsoll_[^`]*)`[^|]*\\|")
)

// alerts returns the chart's alerting rules by name.
func alerts(t *testing.T) map[string]map[string]any {
	t.Helper()
	all := needTool(t, "helm").made(t, `metrics.rules.enabled=true`, `controller.config.mode="replace"`, "--api-versions=monitoring.coreos.com/v1/PrometheusRule")
	rule := find[*unstructured.Unstructured](t, all, "PrometheusRule/plimsoll")
	groups, _, err := unstructured.NestedSlice(rule.Object, "spec", "groups")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]any{}
	for _, group := range groups {
		rules, _, err := unstructured.NestedSlice(group.(map[string]any), "rules")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			rule := r.(map[string]any)
			found[rule["alert"].(string)] = rule
		}
	}
	return found
}

// TestAlerts checks that every alert uses existing metrics and links to an existing section of
// the documentation. Every metric documented as worth an alert must have one.
func TestAlerts(t *testing.T) {
	known := text(t, filepath.Join(docs, "metrics.md"))
	var expressions strings.Builder
	all := alerts(t)
	for name, rule := range all {
		expression := rule["expr"].(string)
		expressions.WriteString(expression + "\n")
		for _, m := range metric.FindAllString(expression, -1) {
			if !strings.Contains(known, "| `"+strings.TrimSuffix(m, "_bucket")+"` |") {
				t.Errorf("%s: there is no metric %s", name, m)
			}
		}
		annotations := rule["annotations"].(map[string]any)
		if annotations["summary"] == nil || rule["labels"].(map[string]any)["severity"] == nil {
			t.Errorf("%s has no summary or severity", name)
		}
		file, heading, _ := strings.Cut(strings.TrimPrefix(annotations["runbook_url"].(string), "https://plimsoll.dev/docs/"), "#")
		if file != "runbooks.md" || heading != strings.ToLower(name) || !hasHeading(text(t, filepath.Join(docs, file)), heading) {
			t.Errorf("%s: its runbook %s#%s is not its own, or is not there", name, file, heading)
		}
	}
	for _, worth := range row.FindAllStringSubmatch(text(t, filepath.Join(docs, "operations.md")), -1) {
		if strings.ContainsAny(worth[1], ">=") && !strings.Contains(expressions.String(), worth[1]) {
			t.Errorf("no alert for %s, which docs/operations.md calls worth one", worth[1])
		}
	}
	for _, heading := range runbook.FindAllStringSubmatch(text(t, filepath.Join(docs, "runbooks.md")), -1) {
		if all[heading[1]] == nil {
			t.Errorf("docs/runbooks.md has a section of an alert %s, which there is not", heading[1])
		}
	}
	if len(all) < 18 {
		t.Errorf("%d alerts, want 18 at least", len(all))
	}
}

// TestAlerts_WhatIsGoneIsNoticed covers an ended process. It has no series, so no
// comparison matches.
func TestAlerts_WhatIsGoneIsNoticed(t *testing.T) {
	all := alerts(t)
	for name, want := range map[string][]string{
		"PlimsollNotOneLeader":    {"sum(plimsoll_controller_leader) != 1", "or absent(plimsoll_controller_leader)"},
		"PlimsollNoAgents":        {"absent(plimsoll_armed)"},
		"PlimsollAgentAbsent":     {"up == 0", `daemonset="plimsoll-agent"`},
		"PlimsollDisarmedForLong": {"plimsoll_armed == 0"},
		"PlimsollAgentRestarts":   {"process_start_time_seconds"},
	} {
		for _, words := range want {
			if expression, _ := all[name]["expr"].(string); !strings.Contains(expression, words) {
				t.Errorf("%s: no %q in %q", name, words, expression)
			}
		}
	}
}

// hasHeading reports whether a document has a heading with the anchor.
func hasHeading(document, anchor string) bool {
	for line := range strings.Lines(document) {
		if heading, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); is && strings.HasPrefix(line, "#") &&
			strings.ReplaceAll(strings.ToLower(strings.TrimSpace(heading)), " ", "-") == anchor {
			return true
		}
	}
	return false
}
