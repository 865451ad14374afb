package chart_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var (
	docs   = filepath.Join("..", "..", "..", "docs")
	metric = regexp.MustCompile(`plimsoll_[a-z_]+`)
	row    = regexp.MustCompile("(?m)^\\| `([^`]*plimsoll_[^`]*)`[^|]*\\|")
)

// ruleGroups returns the groups of rules that the chart makes, in mode replace unless a value says otherwise.
func ruleGroups(t *testing.T, values ...string) []any {
	t.Helper()
	values = append([]string{`metrics.rules.enabled=true`, `controller.config.mode="replace"`}, values...)
	values = append(values, "--api-versions=monitoring.coreos.com/v1/PrometheusRule")
	all := needTool(t, "helm").made(t, values...)
	rule := find[*unstructured.Unstructured](t, all, "PrometheusRule/plimsoll")
	groups, _, err := unstructured.NestedSlice(rule.Object, "spec", "groups")
	if err != nil {
		t.Fatal(err)
	}
	return groups
}

// byName returns the rules of some groups by the name of the alert.
func byName(t *testing.T, groups []any) map[string]map[string]any {
	t.Helper()
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

// alerts are the rules that the chart makes, by name.
func alerts(t *testing.T) map[string]map[string]any {
	t.Helper()
	return byName(t, ruleGroups(t))
}

// TestAlerts_UseKnownMetrics: every alert uses metrics that exist and links to its own runbook, and
// the documentation lists every expression.
func TestAlerts_UseKnownMetrics(t *testing.T) {
	known := text(t, filepath.Join(docs, "reference", "metrics.md"))
	var expressions strings.Builder
	all := alerts(t)
	for name, rule := range all {
		expression := rule["expr"].(string)
		expressions.WriteString(expression + "\n")
		for _, m := range metric.FindAllString(expression, -1) {
			if !strings.Contains(known, "| `"+strings.TrimSuffix(m, "_bucket")+"` |") {
				t.Errorf("%s: unknown metric %s", name, m)
			}
		}
		annotations := rule["annotations"].(map[string]any)
		if annotations["summary"] == nil || annotations["description"] == nil || rule["labels"].(map[string]any)["severity"] == nil {
			t.Errorf("%s has no summary, description or severity", name)
		}
		if url := annotations["runbook_url"]; url != "https://plimsoll.dev/docs/runbooks/"+name+".md" {
			t.Errorf("%s has the runbook %v", name, url)
		}
	}
	for _, worth := range row.FindAllStringSubmatch(text(t, filepath.Join(docs, "how-to", "monitor.md")), -1) {
		if strings.ContainsAny(worth[1], ">=") && !strings.Contains(expressions.String(), worth[1]) {
			t.Errorf("no alert for %s, which docs/how-to/monitor.md lists", worth[1])
		}
	}
	checkRunbooks(t, all)
	if len(all) < 18 {
		t.Errorf("got %d alerts, want at least 18", len(all))
	}
}

// TestAlerts_DetectAbsentSeries covers an ended process. It has no series, so no
// comparison matches.
func TestAlerts_DetectAbsentSeries(t *testing.T) {
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

// TestAlerts_OfBothProgramsNeedNoAgent: a controller without agents refuses files and drops lines too.
func TestAlerts_OfBothProgramsNeedNoAgent(t *testing.T) {
	all := byName(t, ruleGroups(t, `agent.enabled=false`))
	for _, name := range []string{"PlimsollConfigRefused", "PlimsollDecisionsLost"} {
		if all[name] == nil {
			t.Errorf("%s is missing without agents", name)
		}
	}
}

// TestAlerts_NotReplacingNeedsMode: without the mode, and in a dry run, no other writer is the cause.
func TestAlerts_NotReplacingNeedsMode(t *testing.T) {
	if all := byName(t, ruleGroups(t, `controller.config.dryRun=true`)); all["PlimsollNotReplacing"] != nil {
		t.Error("PlimsollNotReplacing is there in a dry run")
	}
}

// TestAlerts_MissingLeaderIsUrgentInModeReplace: otherwise a missing leader changes nothing.
func TestAlerts_MissingLeaderIsUrgentInModeReplace(t *testing.T) {
	for mode, want := range map[string]string{"observe": "warning", "replace": "critical"} {
		rule := byName(t, ruleGroups(t, fmt.Sprintf(`controller.config.mode=%q`, mode)))["PlimsollNotOneLeader"]
		if got := rule["labels"].(map[string]any)["severity"]; got != want {
			t.Errorf("mode %s: %v, want %s", mode, got, want)
		}
	}
}

// runbookForm matches a runbook: its four sections, in this order.
var runbookForm = regexp.MustCompile(`(?s)^# \w+\n\n\*\*Meaning\.\*\* .+\n\n\*\*Impact\.\*\* .+\n## Check\n.+\n## Fix\n.+`)

// checkRunbooks: every alert has a runbook of its own with every section and a row in the index, and
// every runbook has an alert.
func checkRunbooks(t *testing.T, all map[string]map[string]any) {
	t.Helper()
	runbooks := filepath.Join(docs, "runbooks")
	index := text(t, filepath.Join(runbooks, "README.md"))
	for name, rule := range all {
		page := text(t, filepath.Join(runbooks, name+".md"))
		if head, _, _ := strings.Cut(page, "\n"); head != "# "+name {
			t.Errorf("the runbook of %s begins with %q", name, head)
		}
		if !runbookForm.MatchString(page) || strings.Count(page, "\n## ") != 2 {
			t.Errorf("the runbook of %s needs Meaning, Impact, ## Check and ## Fix, in this order and no other section", name)
		}
		severity := rule["labels"].(map[string]any)["severity"]
		if row := fmt.Sprintf("| [%s](%s.md) | %s | ", name, name, severity); !strings.Contains(index, row) {
			t.Errorf("docs/runbooks/README.md has no row %q", row)
		}
	}
	for _, name := range names(t, runbooks, ".md") {
		if name != "README" && all[name] == nil {
			t.Errorf("docs/runbooks has a page for the alert %s, which does not exist", name)
		}
	}
}
