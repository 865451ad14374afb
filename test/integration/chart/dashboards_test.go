package chart_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/metrics"
)

// A dashboard has the fields that the files use. An export of Grafana has many more.
type dashboard struct {
	UID, Title, Description, Refresh string
	Tags                             []string
	SchemaVersion, GraphTooltip      int
	Time                             struct{ From, To string }
	Links                            []dashboardLink
	Templating                       struct{ List []variable }
	Panels                           []panel
}

type variable struct {
	Type, Name, Label string
	Query             any
	Datasource        datasource
	Refresh, Sort     int
}

type datasource struct{ Type, UID string }

type dashboardLink struct {
	Type, Title, URL      string
	Tags                  []string
	IncludeVars, KeepTime bool
	TargetBlank           bool
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Interval                 string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               datasource
	Targets                  []target
	FieldConfig              fieldConfig
	Options                  map[string]any
	Transformations          []map[string]any
	Links                    []dashboardLink
	Collapsed                bool    // of a row: false
	Panels                   []panel // of a collapsed row
}

type target struct {
	RefID, Expr, LegendFormat, Format string
	Instant                           bool
}

type fieldConfig struct {
	Defaults struct {
		Unit, NoValue string
		Min, Max      *float64
		Decimals      *int
		Thresholds    struct {
			Mode  string
			Steps []struct {
				Color string
				Value *float64
			}
		}
		Mappings []map[string]any
		Custom   map[string]any
	}
	Overrides []struct {
		Matcher    map[string]string
		Properties []map[string]any
	}
}

// dashboards returns the dashboards of the chart by the name of the file. Unknown fields are errors.
func dashboards(t *testing.T) map[string]*dashboard {
	t.Helper()
	all := map[string]*dashboard{}
	for _, name := range names(t, filepath.Join(chart, "dashboards"), ".json") {
		d := &dashboard{}
		decoder := json.NewDecoder(strings.NewReader(text(t, filepath.Join(chart, "dashboards", name+".json"))))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(d); err != nil {
			t.Fatalf("%s: %v: remove what an export adds, or add the field to the test", name, err)
		}
		all[name] = d
	}
	if len(all) != 3 {
		t.Fatalf("found %d dashboards, want 3", len(all))
	}
	return all
}

// selected is the data source that the reader selects.
var selected = datasource{"prometheus", "${datasource}"}

const docsURL = "https://plimsoll.dev/docs/"

// docLink matches a link into the documentation.
var docLink = regexp.MustCompile(regexp.QuoteMeta(docsURL) + `([^"\s]+)`)

// TestDashboards_AreComplete checks what a reader needs: a title and a description for each panel, a
// unit, the data source as a variable, and links that lead somewhere. Every runbook is linked to.
func TestDashboards_AreComplete(t *testing.T) {
	linked := map[string]bool{}
	for name, d := range dashboards(t) {
		if d.UID != name || !strings.HasPrefix(d.Title, "Plimsoll / ") || d.Description == "" {
			t.Errorf("%s has the UID %q, the title %q and the description %q", name, d.UID, d.Title, d.Description)
		}
		if v := d.Templating.List[0]; v.Type != "datasource" || v.Name != "datasource" || v.Query != "prometheus" {
			t.Errorf("%s: the first variable is not the data source: %+v", name, v)
		}
		for _, v := range d.Templating.List[1:] {
			if v.Datasource != selected {
				t.Errorf("%s: the variable %s has the data source %v", name, v.Name, v.Datasource)
			}
		}
		seen, places := map[string]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			what := fmt.Sprintf("%s: panel %d, %q", name, p.ID, p.Title)
			if id := fmt.Sprint(p.ID); p.Title == "" || p.ID == 0 || seen[id] || seen[p.Title] {
				t.Errorf("%s: its ID or title is missing, or there twice", what)
			} else {
				seen[id], seen[p.Title] = true, true
			}
			p.checkPlace(t, what, places)
			if p.Type != "row" {
				p.check(t, what)
			}
		}
		for _, found := range docLink.FindAllStringSubmatch(text(t, filepath.Join(chart, "dashboards", name+".json")), -1) {
			linked[found[1]] = true
		}
	}
	for page := range linked {
		if _, err := os.Stat(filepath.Join(docs, page)); err != nil && !strings.Contains(page, "${") {
			t.Errorf("a dashboard links to docs/%s: %v", page, err)
		}
	}
	for _, name := range names(t, filepath.Join(docs, "runbooks"), ".md") {
		if !linked["runbooks/"+name+".md"] {
			t.Errorf("no panel links to docs/runbooks/%s.md", name)
		}
	}
}

var (
	legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)
	aggregate   = regexp.MustCompile(`^(sum|max|min|count|quantile|histogram_quantile)\b`) // retains only the labels after by
)

// checkPlace checks that no other panel has a cell of this one.
func (p *panel) checkPlace(t *testing.T, what string, places map[[2]int]string) {
	t.Helper()
	g := p.GridPos
	if g.W < 3 || g.H < 1 || g.X+g.W > 24 {
		t.Errorf("%s lies at %+v, outside of 24 columns", what, g)
	}
	for x := g.X; x < g.X+g.W; x++ {
		for y := g.Y; y < g.Y+g.H; y++ {
			if other, taken := places[[2]int{x, y}]; taken {
				t.Errorf("%s lies over %s", what, other)
				return
			}
			places[[2]int{x, y}] = what
		}
	}
}

func (p *panel) check(t *testing.T, what string) {
	t.Helper()
	defaults := &p.FieldConfig.Defaults
	if len(p.Description) < 30 || !strings.HasSuffix(p.Description, ".") {
		t.Errorf("%s has the description %q", what, p.Description)
	}
	if defaults.Unit == "" || p.Datasource != selected || len(p.Targets) == 0 {
		t.Errorf("%s has the unit %q, the data source %v and %d queries", what, defaults.Unit, p.Datasource, len(p.Targets))
	}
	if p.Type == "stat" && len(defaults.Thresholds.Steps) == 0 {
		t.Errorf("%s has no thresholds", what)
	}
	for i, step := range defaults.Thresholds.Steps {
		if step.Color == "" || (step.Value == nil) != (i == 0) {
			t.Errorf("%s: threshold %d is %+v: the first one has no value, the others do", what, i, step)
		}
	}
	for _, q := range p.Targets {
		if q.RefID == "" || q.Expr == "" || q.LegendFormat == "" && len(p.Targets) > 1 && p.Type != "table" {
			t.Errorf("%s: incomplete query %+v", what, q)
		}
		for _, label := range legendLabel.FindAllStringSubmatch(q.LegendFormat, -1) {
			if aggregate.MatchString(q.Expr) && !regexp.MustCompile(`by \([^)]*\b`+label[1]+`\b`).MatchString(q.Expr) {
				t.Errorf("%s: the legend has the label %s, and %s has not", what, label[1], q.Expr)
			}
		}
	}
	for _, l := range p.Links {
		if l.URL == "" || l.Title == "" {
			t.Errorf("%s: incomplete link %+v", what, l)
		}
	}
}

// TestDashboards_QueriesHaveResults runs promtool over every query: it parses, and has a result for
// the metrics that the programs serve. A wrong name, label or matcher has none.
func TestDashboards_QueriesHaveResults(t *testing.T) {
	promtool := needTool(t, "promtool")
	all := append(scraped(t, "@agent", agentPage(t)), scraped(t, "@controller", controllerPage(t))...)
	all = append(all, scraped(t, "@other", agentPage(t))...) // a second node, so that a query has to match by node
	all = append(all, series([]string{
		`plimsoll_armed{@bare} 0x60`, `up{@bare} 0x60`, `up{@agent} 1x60`,
		`ALERTS{@agent, alertname="PlimsollEvicts", alertstate="firing", severity="info"} 1x60`,
	})...)
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$node", targets["@agent"]["node"])
	var queries []queryTest
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				query := strings.TrimSuffix(variables.Replace(q.Expr), " or vector(0)")
				// NaN is no result: it is not greater than -Inf.
				queries = append(queries, queryTest{"count((" + query + ") > -Inf) > bool 0", "30m", []expectedSample{{"{}", 1}}})
			}
		}
	}
	if len(queries) < 80 {
		t.Errorf("got %d queries, want at least 80", len(queries))
	}
	promtool.test(t, "", []promtoolTest{{Name: "dashboards", Interval: "1m", Series: all, Queries: queries}})
}

// agentPage returns the metrics of an agent after one of everything, as it serves them.
func agentPage(t *testing.T) string {
	t.Helper()
	var configured signals.Set
	for s := range signals.All {
		configured.Add(s)
	}
	m := metrics.New(metrics.Settings{Version: "v1", Revision: "abc", Configured: configured, LinesDropped: func() int64 { return 1 },
		Config: func() metrics.Config {
			return metrics.Config{Refused: true, Sum: "0abc", Since: time.Unix(1_700_000_000, 0)}
		},
		OOMLimits: []string{"container", "node"}, Recording: func() (dropped, bytes int64) { return 1, 64 << 20 },
		Threshold: func(_ signals.Signal, hard bool, capacity signals.Amount) (signals.Amount, bool) {
			return capacity / 10, true // of both kinds
		}})
	var node signals.Observations
	for s := range signals.All {
		node[s] = signals.Observed(1<<30, 4<<30, time.Now())
	}
	m.Observed(&node)
	node[signals.PIDAvailable] = signals.Unknown("no such file")
	m.Observed(&node)
	var pressed signals.ConditionSet
	pressed.Add(signals.MemoryPressure)
	m.Conditions(pressed)
	m.Armed(true)
	m.Check(signals.Periodic, time.Millisecond)
	m.StatsAge(signals.MemoryAvailable, time.Millisecond)
	m.Source("psi", "/proc/pressure/memory", true)
	return served(t, m.Handler())
}

// controllerPage is agentPage for a controller that leads.
func controllerPage(t *testing.T) string {
	t.Helper()
	m := metrics.NewController(metrics.ControllerSettings{Version: "v1", Revision: "abc", LinesDropped: func() int64 { return 1 },
		States: []string{"Normal", "PartialDisruption", "FullDisruption"}, Classes: []string{"protect", "evict", "repair", "tidy"},
		Results: []string{"ok", "declined", "failed"}, Decisions: []string{"taint", "evict"},
		Config: func() metrics.Config {
			return metrics.Config{Refused: true, Sum: "0abc", Since: time.Unix(1_700_000_000, 0)}
		},
		Cluster: func() (metrics.Cluster, bool) {
			return metrics.Cluster{Nodes: 3, Pods: 9, Leading: true, Zones: []metrics.Zone{{Name: "eu/a", State: "Normal", Rate: 0.1, Size: 3}}}, true
		}})
	m.Leading(true)
	m.Tainted("eu/a")
	return served(t, m.Handler())
}

func served(t *testing.T, handler http.Handler) string {
	t.Helper()
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if response.Code != http.StatusOK {
		t.Fatalf("status %d: %s", response.Code, response.Body)
	}
	return response.Body.String()
}

var sampleLine = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)$`)

// scraped returns the samples of a page as series of an hour. Counters grow, and gauges stay.
func scraped(t *testing.T, target, page string) []inputSeries {
	t.Helper()
	var texts []string
	kind := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if words := strings.Fields(line); strings.HasPrefix(line, "# TYPE ") {
			kind = words[3]
			continue
		}
		found := sampleLine.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		values := found[3] + "x60"
		if kind != "gauge" || found[1] == "process_start_time_seconds" {
			values = "0+1x60"
		}
		texts = append(texts, fmt.Sprintf("%s{%s, %s} %s", found[1], target, found[2], values))
	}
	if len(texts) < 100 {
		t.Fatalf("%s has %d samples", target, len(texts))
	}
	return series(texts)
}

// TestDashboards_AreInstalledOnRequest covers the ConfigMap: off by default, where and with which labels
// the sidecar looks, and links to another place.
func TestDashboards_AreInstalledOnRequest(t *testing.T) {
	helm := needTool(t, "helm")
	const name = "ConfigMap/plimsoll-dashboards"
	if helm.made(t)[name] != nil {
		t.Error("by default there are dashboards")
	}
	made := find[*corev1.ConfigMap](t, helm.made(t, `dashboards.enabled=true`), name)
	if made.Labels["grafana_dashboard"] != "1" || len(made.Annotations) != 0 {
		t.Errorf("labels %v, annotations %v", made.Labels, made.Annotations)
	}
	for file, content := range made.Data {
		if want := text(t, filepath.Join(chart, "dashboards", file)); content != want {
			t.Errorf("%s is not the file in the chart", file)
		}
	}
	if len(made.Data) != len(dashboards(t)) {
		t.Errorf("%d files, want every dashboard", len(made.Data))
	}
	all := helm.made(t, `dashboards={"enabled":true,"namespace":"grafana","labels":{"grafana_dashboard":null,"dashboards":"yes"},"annotations":{"grafana_folder":"Nodes"}}`,
		`metrics.rules.runbooks="https://docs.example/plimsoll"`)
	moved := find[*corev1.ConfigMap](t, all, "ConfigMap/grafana/plimsoll-dashboards")
	if _, kept := moved.Labels["grafana_dashboard"]; kept || moved.Labels["dashboards"] != "yes" || moved.Annotations["grafana_folder"] != "Nodes" {
		t.Errorf("labels %v, annotations %v", moved.Labels, moved.Annotations)
	}
	for file, content := range moved.Data {
		if strings.Contains(content, docsURL) || !strings.Contains(content, "https://docs.example/plimsoll/runbooks/") {
			t.Errorf("%s: the links do not follow metrics.rules.runbooks", file)
		}
		if err := json.Unmarshal([]byte(content), &dashboard{}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
