package chart_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// targets are labels of scraped programs, by their name in the series of this file.
var targets = map[string]map[string]string{
	"@agent":      {"job": "plimsoll-agent", "instance": "10.0.0.1:10350", "node": "worker-1"},
	"@other":      {"job": "plimsoll-agent", "instance": "10.0.0.6:10350", "node": "worker-2"},
	"@controller": {"job": "plimsoll-controller", "instance": "10.0.0.2:10360", "node": "control-1"},
	"@standby":    {"job": "plimsoll-controller", "instance": "10.0.0.3:10360", "node": "control-2"},
	"@bare":       {"job": "static", "instance": "10.0.0.4:10350"}, // scraped without the label node
	"@state":      {"job": "kube-state-metrics", "instance": "10.0.0.5:8080", "namespace": namespace, "daemonset": "plimsoll-agent"},
}

// ruleCase is one way for an alert to fire. Series are in promtool's notation, with a sample a
// minute.
type ruleCase struct {
	alert       string
	fires       []string // series of the alert
	at          string   // first minute at which it fires
	target      string   // of the alert's labels
	labels      map[string]string
	description string
	quiet       []string // series without the alert at that minute
}

type labelled = map[string]string

var ruleCases = []ruleCase{
	{"PlimsollNoAgents", []string{`plimsoll_armed{@agent} 1x2 stale`}, "13m", "", nil,
		"Prometheus has had no metrics of any agent for 10 minutes. Either the agents are gone, or Prometheus does not reach them.",
		[]string{`plimsoll_armed{@agent} 0x20`}},
	{"PlimsollAgentAbsent", []string{`up{@agent} 1x4 0x30`, `plimsoll_armed{@agent} 1x4 stale`}, "20m", "@agent", nil,
		"The agent of worker-1 does not answer. If the agent is gone, only the kubelet evicts on that node.",
		[]string{`up{@agent} 1x4 0x9 1x20`, `plimsoll_armed{@agent} 1x4`, `up{job="node-exporter", instance="10.0.0.1:9100"} 0x30`}},
	{"PlimsollAgentAbsent", []string{`kube_daemonset_status_number_unavailable{@state} 0 2x30`}, "16m", "@state", nil,
		"Pods of the DaemonSet plimsoll-agent that are not available: 2. If the agent is gone, only the kubelet evicts on that node.",
		[]string{`kube_daemonset_status_number_unavailable{namespace="plimsoll-system", daemonset="other"} 0 2x30`}},
	{"PlimsollDisarmedForLong", []string{`plimsoll_armed{@agent} 1 0x800`}, "12h1m", "@agent", nil,
		"The agent of worker-1 reports its decisions and changes nothing. Only the kubelet evicts there.",
		[]string{`plimsoll_armed{@agent} 1 0x700 1 0x100`}},
	{"PlimsollDisarmedForLong", []string{`plimsoll_armed{@bare} 0x800`}, "12h", "@bare", nil,
		"The agent of 10.0.0.4:10350 reports its decisions and changes nothing. Only the kubelet evicts there.",
		[]string{`plimsoll_armed{@bare} 1x800`}},
	{"PlimsollAgentRestarts", []string{`process_start_time_seconds{@agent} 100 200 300 400x60`, `plimsoll_armed{@agent} 1x60`}, "3m", "@agent", nil,
		"The agent of worker-1 started 3 times within an hour. Between two processes only the kubelet evicts.",
		[]string{`process_start_time_seconds{@agent} 100 200 300x60`, `plimsoll_armed{@agent} 1x60`, `process_start_time_seconds{job="other", instance="10.0.0.1:80"} 1+1x60`}},
	{"PlimsollEvicts", []string{`plimsoll_evictions{@agent, eviction_signal="memory.available"} 0 0 1x20`}, "2m", "@agent", labelled{"eviction_signal": "memory.available"},
		"The agent of worker-1 evicted pods within 10 minutes, for memory.available.",
		[]string{`plimsoll_evictions{@agent, eviction_signal="memory.available"} 5x20`}},
	{"PlimsollEvictionsFail", []string{`plimsoll_evictions_failed_total{@agent} 0 0 1x20`}, "2m", "@agent", nil,
		"The agent of worker-1 chose a pod and could not evict it. The key failed of the decision log has the error.",
		[]string{`plimsoll_evictions_failed_total{@agent} 3x20`}},
	{"PlimsollEvictionsLimited", []string{`plimsoll_evictions_limited_total{@agent, reason="quota"} 0 0 1x20`}, "2m", "@agent", labelled{"reason": "quota"},
		"On worker-1 the limit quota began to prevent evictions within the last hour, while a threshold was met. The runbook has the cause of each limit.",
		[]string{`plimsoll_evictions_limited_total{@agent, reason="quota"} 1x20`}},
	{"PlimsollNoPodHelps", []string{`plimsoll_no_pod_helps{@agent, signal="nodefs.available"} 0 1x20`}, "6m", "@agent", labelled{"signal": "nodefs.available"},
		"On worker-1 the threshold of nodefs.available has been met for 5 minutes, and no pod frees enough of it.",
		[]string{`plimsoll_no_pod_helps{@agent, signal="nodefs.available"} 0 1x3 0 1x20`}},
	{"PlimsollSignalUnknown", []string{`plimsoll_signal_unknown{@agent, signal="memory.available"} 0 1x20`}, "6m", "@agent", labelled{"signal": "memory.available"},
		"On worker-1 the signal memory.available has not been observed for 5 minutes.",
		[]string{`plimsoll_signal_unknown{@agent, signal="memory.available"} 0 1x3 0 1x20`}},
	{"PlimsollStatusPending", []string{`plimsoll_pending_pod_statuses{@agent} 0 3x20`}, "11m", "@agent", nil,
		"Evicted pods of worker-1 without their status in the API server: 3. Their owners create no replacements.",
		[]string{`plimsoll_pending_pod_statuses{@agent} 0 3x8 0 3x20`}},
	{"PlimsollRecordsPending", []string{`plimsoll_pending_eviction_records{@agent} 0 2x40`}, "31m", "@agent", nil,
		"Evictions of worker-1 without their record in the API server: 2. `kubectl plimsoll why` and `plimsoll why` do not know them.",
		[]string{`plimsoll_pending_eviction_records{@agent} 0 2x20 0 2x20`}},
	{"PlimsollConfigRefused", []string{`plimsoll_config_last_reload_successful{@agent} 1 0x20`}, "16m", "@agent", nil,
		"The program at worker-1 has refused its configuration file for 15 minutes, and works by the one before.",
		[]string{`plimsoll_config_last_reload_successful{@agent} 1 0x10 1 0x10`}},
	{"PlimsollConfigRefused", []string{`plimsoll_config_last_reload_successful{@controller} 0x20`}, "15m", "@controller", nil,
		"The program at control-1 has refused its configuration file for 15 minutes, and works by the one before.",
		[]string{`plimsoll_config_last_reload_successful{@controller} 1x20`}},
	{"PlimsollKillsSlow", []string{
		`plimsoll_eviction_exit_duration_seconds_bucket{@agent, le="0.5"} 0x20`,
		`plimsoll_eviction_exit_duration_seconds_bucket{@agent, le="1"} 0 0 1x20`,
		`plimsoll_eviction_exit_duration_seconds_bucket{@agent, le="+Inf"} 0 0 1x20`}, "2m", "@agent", nil,
		"On worker-1 one in a hundred evictions of the last day took 995ms or longer until no process was left.",
		[]string{
			`plimsoll_eviction_exit_duration_seconds_bucket{@agent, le="0.25"} 0x20`,
			`plimsoll_eviction_exit_duration_seconds_bucket{@agent, le="0.5"} 0 0 1x20`,
			`plimsoll_eviction_exit_duration_seconds_bucket{@agent, le="1"} 0 0 1x20`,
			`plimsoll_eviction_exit_duration_seconds_bucket{@agent, le="+Inf"} 0 0 1x20`}},
	{"PlimsollDecisionsLost", []string{`plimsoll_log_lines_dropped_total{@agent} 0 0 40x20`}, "2m", "@agent", nil,
		"On worker-1 standard error is read too slowly. Checks and evictions are not affected.",
		[]string{`plimsoll_log_lines_dropped_total{@agent} 40x20`}},
	{"PlimsollDecisionsLost", []string{`plimsoll_log_lines_dropped_total{@controller} 0 0 40x20`}, "2m", "@controller", nil,
		"On control-1 standard error is read too slowly. Checks and evictions are not affected.",
		[]string{`plimsoll_log_lines_dropped_total{@controller} 40x20`}},

	{"PlimsollNotOneLeader", []string{`plimsoll_controller_leader{@controller} 1x20`, `plimsoll_controller_leader{@standby} 0 1x20`}, "2m", "", nil,
		"Without a leader no lost node is handled. Agents continue to protect their nodes.",
		[]string{`plimsoll_controller_leader{@controller} 1 0x20`, `plimsoll_controller_leader{@standby} 0 1x20`}},
	{"PlimsollNotOneLeader", []string{`plimsoll_controller_leader{@controller} 1 0x20`, `plimsoll_controller_leader{@standby} 0x20`}, "2m", "", nil,
		"Without a leader no lost node is handled. Agents continue to protect their nodes.",
		[]string{`plimsoll_controller_leader{@controller} 1x20`, `plimsoll_controller_leader{@standby} 0x20`}},
	{"PlimsollNotOneLeader", []string{`plimsoll_controller_leader{@controller} 1 stale`}, "2m", "", nil,
		"Without a leader no lost node is handled. Agents continue to protect their nodes.",
		[]string{`plimsoll_controller_leader{@controller} 1 0 1x20`}},
	{"PlimsollNotReplacing", []string{`plimsoll_controller_leader{@controller} 1x30`, `plimsoll_controller_replacing{@controller} 1 0x30`}, "16m", "@controller", nil,
		"Mode replace is set, and decisions have only been reported for 15 minutes. If the other controller stops, lost nodes wait until conflictWindow (10 minutes) has passed.",
		[]string{`plimsoll_controller_leader{@controller} 0x30`, `plimsoll_controller_replacing{@controller} 0x30`}},
	{"PlimsollBreakerOpen", []string{`plimsoll_controller_breaker_open{@controller} 0 1x5`, `plimsoll_controller_replacing{@controller} 1x40`}, "1m", "@controller", nil,
		"None of these nodes is marked Unknown while the breaker is open, for at most massFailureMaxDuration (5 minutes).",
		[]string{`plimsoll_controller_breaker_open{@controller} 0 1x5`, `plimsoll_controller_replacing{@controller} 0x40`}},
	{"PlimsollZoneDisrupted", []string{`plimsoll_controller_zone_state{@controller, zone="eu/a", state="FullDisruption"} 0 1x20`, `plimsoll_controller_replacing{@controller} 1x40`}, "6m", "@controller", labelled{"zone": "eu/a", "state": "FullDisruption"},
		"Zone eu/a is in FullDisruption. The metric plimsoll_controller_zone_rate has the present rate of evictions from its nodes.",
		[]string{`plimsoll_controller_zone_state{@controller, zone="eu/a", state="Normal"} 1x20`, `plimsoll_controller_zone_state{@controller, zone="eu/a", state="FullDisruption"} 0x20`, `plimsoll_controller_replacing{@controller} 1x40`}},
	{"PlimsollZoneDisrupted", []string{`plimsoll_controller_zone_state{@controller, zone="eu/a", state="PartialDisruption"} 0 1x20`, `plimsoll_controller_replacing{@controller} 1x40`}, "6m", "@controller", labelled{"zone": "eu/a", "state": "PartialDisruption"},
		"Zone eu/a is in PartialDisruption. The metric plimsoll_controller_zone_rate has the present rate of evictions from its nodes.",
		[]string{`plimsoll_controller_zone_state{@controller, zone="eu/a", state="PartialDisruption"} 0 1x20`, `plimsoll_controller_replacing{@controller} 0x40`}},
	{"PlimsollNodesWait", []string{`plimsoll_controller_zone_queued_nodes{@controller, zone=""} 0 4x40`, `plimsoll_controller_replacing{@controller} 1x40`}, "31m", "@controller", nil,
		"Dead nodes that are queued in zone without a name: 4. Their pods are not replaced yet.",
		[]string{`plimsoll_controller_zone_queued_nodes{@controller, zone=""} 0 4x20 0 4x20`, `plimsoll_controller_replacing{@controller} 1x40`}},
	{"PlimsollNodesWait", []string{`plimsoll_controller_zone_queued_nodes{@controller, zone="eu/a"} 0 1x40`, `plimsoll_controller_replacing{@controller} 1x40`}, "31m", "@controller", labelled{"zone": "eu/a"},
		"Dead nodes that are queued in zone eu/a: 1. Their pods are not replaced yet.",
		[]string{`plimsoll_controller_zone_queued_nodes{@controller, zone="eu/a"} 0 1x40`, `plimsoll_controller_replacing{@controller} 0x40`}},
	{"PlimsollBudgetExceeded", []string{`plimsoll_controller_max_unhealthy_exceeded{@controller} 0 1x5`, `plimsoll_controller_replacing{@controller} 1x40`}, "1m", "@controller", nil,
		"No node is tainted NoExecute and no eviction begins, until fewer nodes are unready and maxUnhealthyCooldown has passed.",
		[]string{`plimsoll_controller_max_unhealthy_exceeded{@controller} 0 1x5`, `plimsoll_controller_replacing{@controller} 0x40`}},
	{"PlimsollRequestsFail", []string{`plimsoll_controller_requests_total{@controller, class="evict", result="failed"} 0+1x20`}, "11m", "@controller", labelled{"class": "evict", "result": "failed"},
		"Requests of class evict have failed for 10 minutes. They are retried.",
		[]string{`plimsoll_controller_requests_total{@controller, class="evict", result="failed"} 0 1x20`, `plimsoll_controller_requests_total{@controller, class="evict", result="declined"} 0+1x20`}},
	{"PlimsollRequestsWait", []string{
		`plimsoll_controller_request_wait_seconds_bucket{@controller, class="protect", le="1"} 0x20`,
		`plimsoll_controller_request_wait_seconds_bucket{@controller, class="protect", le="2.5"} 0+1x20`,
		`plimsoll_controller_request_wait_seconds_bucket{@controller, class="protect", le="+Inf"} 0+1x20`}, "11m", "@controller", labelled{"class": "protect"},
		"One in a hundred urgent requests waits for 2.485s or longer. In mode replace, conditions and taints of lost nodes come late.",
		[]string{
			`plimsoll_controller_request_wait_seconds_bucket{@controller, class="protect", le="1"} 0+1x20`,
			`plimsoll_controller_request_wait_seconds_bucket{@controller, class="protect", le="+Inf"} 0+1x20`,
			`plimsoll_controller_request_wait_seconds_bucket{@controller, class="tidy", le="1"} 0x20`,
			`plimsoll_controller_request_wait_seconds_bucket{@controller, class="tidy", le="2.5"} 0+1x20`,
			`plimsoll_controller_request_wait_seconds_bucket{@controller, class="tidy", le="+Inf"} 0+1x20`}},
}

// TestAlerts_FireWhenTheyShould runs promtool over the rules of the chart: each alert fires at the
// expected minute and not one earlier, with all labels and annotations, and otherwise not.
func TestAlerts_FireWhenTheyShould(t *testing.T) {
	promtool, groups := needTool(t, "promtool"), ruleGroups(t)
	rules := filepath.Join(promtool.home, "rules.json")
	writeJSON(t, rules, map[string]any{"groups": groups})
	promtool.must(t, "check", "rules", "--lint=all", "--lint-fatal", rules)

	all := byName(t, groups)
	untested := maps.Clone(all)
	var tests []promtoolTest
	for _, c := range ruleCases {
		rule := all[c.alert]
		if rule == nil {
			t.Fatalf("there is no alert %s", c.alert)
		}
		delete(untested, c.alert)
		tests = append(tests, c.tests(t, rule)...)
	}
	for name := range untested {
		t.Errorf("no case here makes %s fire", name)
	}
	promtool.test(t, rules, tests)
}

// tests returns promtool's form of the case: the series of the alert, and those without it.
func (c *ruleCase) tests(t *testing.T, rule map[string]any) []promtoolTest {
	t.Helper()
	at, err := time.ParseDuration(c.at)
	if err != nil {
		t.Fatal(err)
	}
	labels := maps.Clone(targets[c.target])
	if labels == nil {
		labels = labelled{}
	}
	maps.Copy(labels, c.labels)
	labels["severity"] = rule["labels"].(map[string]any)["severity"].(string)
	annotations := rule["annotations"].(map[string]any)
	alert := expectedAlert{labels, map[string]any{
		"summary": annotations["summary"], "runbook_url": annotations["runbook_url"], "description": c.description}}
	before := (at - time.Minute).String()
	return []promtoolTest{
		{Name: c.alert + " fires", Interval: "1m", Series: series(c.fires), Alerts: []alertTest{
			{Name: c.alert, At: before, Expected: []expectedAlert{}}, {Name: c.alert, At: c.at, Expected: []expectedAlert{alert}}}},
		{Name: c.alert + " stays quiet", Interval: "1m", Series: series(c.quiet), Alerts: []alertTest{{Name: c.alert, At: c.at, Expected: []expectedAlert{}}}},
	}
}

// A promtoolTest is a test of a file for promtool test rules.
type promtoolTest struct {
	Name     string        `json:"name"`
	Interval string        `json:"interval"`
	Series   []inputSeries `json:"input_series"`
	Alerts   []alertTest   `json:"alert_rule_test,omitempty"`
	Queries  []queryTest   `json:"promql_expr_test,omitempty"`
}

type inputSeries struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

type alertTest struct {
	Name     string          `json:"alertname"`
	At       string          `json:"eval_time"`
	Expected []expectedAlert `json:"exp_alerts"`
}

type expectedAlert struct {
	Labels      map[string]string `json:"exp_labels"`
	Annotations map[string]any    `json:"exp_annotations"`
}

type queryTest struct {
	Query    string           `json:"expr"`
	At       string           `json:"eval_time"`
	Expected []expectedSample `json:"exp_samples"`
}

type expectedSample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

// series splits texts of the form NAME{LABELS} VALUES, with the names of targets among the labels.
func series(texts []string) []inputSeries {
	all := []inputSeries{}
	for _, text := range texts {
		for name, labels := range targets {
			var pairs []string
			for key, value := range labels {
				pairs = append(pairs, key+`="`+value+`"`)
			}
			text = strings.ReplaceAll(text, name, strings.Join(pairs, ", "))
		}
		name, values, _ := strings.Cut(text, "} ")
		all = append(all, inputSeries{name + "}", values})
	}
	return all
}

// test runs promtool test rules with a file of rules, or with none for queries. A JSON file is a YAML
// file.
func (p *tool) test(t *testing.T, rules string, tests []promtoolTest) {
	t.Helper()
	file, with := filepath.Join(p.home, "tests.json"), []string{}
	if rules != "" {
		with = append(with, rules)
	}
	writeJSON(t, file, map[string]any{"rule_files": with, "evaluation_interval": "1m", "tests": tests})
	p.must(t, "test", "rules", file)
}

func writeJSON(t *testing.T, file string, content any) {
	t.Helper()
	data, err := json.MarshalIndent(content, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
