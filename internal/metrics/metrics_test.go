package metrics_test

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/metrics"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md instead of comparing it")

const mebi = 1 << 20

func open() *metrics.Metrics {
	var configured signals.Set
	configured.Add(signals.MemoryAvailable)
	configured.Add(signals.PIDAvailable)
	return metrics.New(metrics.Settings{
		Version: "v1", Revision: "abc", Configured: configured,
		Limits: []string{"emptydirfs.limit"}, OOMLimits: []string{"container", "unknown"}, LinesDropped: func() int64 { return 3 },
		Recording: func() (dropped, bytes int64) { return 5, 64 << 20 },
		Config:    sampleConfig,
		Threshold: func(s signals.Signal, hard bool, capacity signals.Amount) (signals.Amount, bool) {
			return capacity / 4, hard && s == signals.MemoryAvailable
		},
	})
}

func sampleConfig() metrics.Config {
	return metrics.Config{Refused: true, Sum: "0abc", Since: time.UnixMilli(1_700_000_000_500), Applied: 2, Refusals: 1}
}

// recordAll records one of everything.
func recordAll(m *metrics.Metrics) {
	now := time.Now()
	m.Check(signals.Periodic, 42*time.Microsecond)
	m.Check(signals.Early, 7*time.Microsecond)
	m.Observed(&signals.Observations{
		signals.MemoryAvailable: signals.Observed(100*mebi, 512*mebi, now),
		signals.PIDAvailable:    signals.Unknown("no such file"),
		signals.NodefsAvailable: signals.Observed(1, 2, now), // not configured
	})
	var pressed signals.ConditionSet
	pressed.Add(signals.MemoryPressure)
	m.Conditions(pressed)
	m.Evicted("memory.available")
	m.Evicted("emptydirfs.limit")
	m.StatsAge(signals.MemoryAvailable, 20*time.Millisecond)
	m.EvictionFailed()
	m.Spared("memory.available", 3, true)
	m.Spared("memory.available", 2, false)
	m.NoPodHelps(signals.MemoryAvailable, true)
	m.SoftEvictionRefused()
	m.ThresholdToKill(3 * time.Millisecond)
	m.DecisionToExit(30 * time.Millisecond)
	m.Woken(0)
	m.Woken(signals.ByCrossing | signals.ByStall)
	m.Source("psi", "/proc/pressure/memory", true)
	m.Freed(metrics.Images, 10*mebi)
	m.Freed(metrics.Eviction, -mebi)
	m.ImagesCollected(metrics.Space, 2)
	m.PendingStatuses(1)
	m.OOMKilled("container", 2)
	m.PendingEvictionRecords(2)
	m.DryRun("memory.available")
	m.Armed(true)
	m.RuntimeFailed()
	m.APIFailed(metrics.PatchPodStatus)
	m.APIFailed(metrics.WriteRecord)
}

func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
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

// ours returns the scraped samples of Plimsoll's own metrics, without comments.
func ours(text string) (samples []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "plimsoll_") {
			samples = append(samples, strings.TrimSpace(line))
		}
	}
	return samples
}

func TestMetrics_ServesRecordedMetrics(t *testing.T) {
	m := open()
	recordAll(m)
	got := ours(scrape(t, m))
	for _, want := range []string{
		`plimsoll_check_duration_seconds_bucket{check="periodic",le="2.5e-05"} 0`,
		`plimsoll_check_duration_seconds_bucket{check="periodic",le="5e-05"} 1`,
		`plimsoll_check_duration_seconds_bucket{check="early",le="1e-05"} 1`,
		`plimsoll_signal_available{signal="memory.available"} 1.048576e+08`,
		`plimsoll_signal_capacity{signal="memory.available"} 5.36870912e+08`,
		`plimsoll_signal_threshold{kind="hard",signal="memory.available"} 1.34217728e+08`,
		`plimsoll_signal_unknown{signal="memory.available"} 0`,
		`plimsoll_signal_unknown{signal="pid.available"} 1`,
		`plimsoll_condition{condition="DiskPressure"} 0`,
		`plimsoll_condition{condition="MemoryPressure"} 1`,
		`plimsoll_condition{condition="PIDPressure"} 0`,
		`plimsoll_evictions{eviction_signal="memory.available"} 1`,
		`plimsoll_evictions{eviction_signal="emptydirfs.limit"} 1`,
		`plimsoll_evictions{eviction_signal="pid.available"} 0`,
		`plimsoll_eviction_stats_age_seconds_bucket{eviction_signal="memory.available",le="0.025"} 1`,
		`plimsoll_evictions_failed_total 1`,
		`plimsoll_oom_kills_total{limit="container"} 2`,
		`plimsoll_oom_kills_total{limit="unknown"} 0`,
		`plimsoll_pods_spared_total{eviction_signal="memory.available"} 5`,
		`plimsoll_pods_spared_total{eviction_signal="pid.available"} 0`,
		`plimsoll_eviction_choices_differ_total{eviction_signal="memory.available"} 1`,
		`plimsoll_no_pod_helps{signal="memory.available"} 1`,
		`plimsoll_no_pod_helps{signal="pid.available"} 0`,
		`plimsoll_soft_evictions_refused_total 1`,
		`plimsoll_threshold_to_kill_duration_seconds_bucket{le="0.005"} 1`,
		`plimsoll_eviction_exit_duration_seconds_bucket{le="0.05"} 1`,
		`plimsoll_reclaimed_bytes_total{source="images"} 1.048576e+07`,
		`plimsoll_reclaimed_bytes_total{source="eviction"} 0`,
		`plimsoll_image_garbage_collected_total{reason="space"} 2`,
		`plimsoll_image_garbage_collected_total{reason="age"} 0`,
		`plimsoll_pending_pod_statuses 1`,
		`plimsoll_runtime_errors_total 1`,
		`plimsoll_api_errors_total{request="patch_pod_status"} 1`,
		`plimsoll_api_errors_total{request="write_lease"} 0`,
		`plimsoll_api_errors_total{request="write_record"} 1`,
		`plimsoll_log_lines_dropped_total 3`,
		`plimsoll_recording_dropped_total 5`,
		`plimsoll_recording_bytes 6.7108864e+07`,
		`plimsoll_config_last_reload_successful 0`,
		`plimsoll_config_last_reload_success_timestamp_seconds 1.7000000005e+09`,
		`plimsoll_config_reloads_total{result="applied"} 2`,
		`plimsoll_config_reloads_total{result="refused"} 1`,
		`plimsoll_config_info{sha256="0abc"} 1`,
		`plimsoll_wakeups_total{source="timer"} 1`,
		`plimsoll_wakeups_total{source="crossing"} 1`,
		`plimsoll_wakeups_total{source="stall"} 1`,
		`plimsoll_wakeups_total{source="oom"} 0`,
		`plimsoll_notification_source{source="psi",where="/proc/pressure/memory"} 1`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not served", want)
		}
	}
	for _, line := range got {
		if strings.Contains(line, "NaN") || strings.Contains(line, "nodefs") || strings.Contains(line, `kind="soft"`) || strings.HasPrefix(line, `plimsoll_signal_available{signal="pid`) {
			t.Errorf("%s is served, but unknown or not configured", line)
		}
	}
}

func TestMetrics_OmitsUnknownSignals(t *testing.T) {
	m := open()
	has := func(series string) bool {
		return slices.ContainsFunc(ours(scrape(t, m)), func(line string) bool { return strings.HasPrefix(line, series) })
	}
	const memory = `plimsoll_signal_available{signal="memory.available"}`
	if has("plimsoll_signal_") || has("plimsoll_condition") {
		t.Error("signals or conditions are served before the first check")
	}
	seen := signals.Observations{signals.MemoryAvailable: signals.Observed(0, 512*mebi, time.Now())}
	if m.Observed(&seen); !has(memory + " 0") {
		t.Error("an available amount of 0 is not served")
	}
	if m.Observed(&signals.Observations{}); !has(memory + " 0") {
		t.Error("a signal without a new observation is not served")
	}
	seen[signals.MemoryAvailable] = signals.Unknown("gone")
	if m.Observed(&seen); has(memory) || has("plimsoll_signal_threshold") || !has(`plimsoll_signal_unknown{signal="memory.available"} 1`) {
		t.Error("an unknown signal is served")
	}
}

// Another set of configured signals has series at once, and those of the others end; counters stay.
func TestMetrics_ConfigureChangesSeries(t *testing.T) {
	m := open()
	recordAll(m)
	var memory, disk signals.Set
	memory.Add(signals.MemoryAvailable)
	disk.Add(signals.NodefsAvailable)
	seen := signals.Observations{signals.MemoryAvailable: signals.Observed(1, 2, time.Now()), signals.NodefsAvailable: signals.Observed(3, 4, time.Now())}
	for _, tc := range []struct {
		set             signals.Set
		served, omitted string
	}{{disk, `plimsoll_signal_available{signal="nodefs.available"} 3`, `plimsoll_signal_available{signal="memory.available"} 1`},
		{memory, `plimsoll_signal_available{signal="memory.available"} 1`, `plimsoll_signal_available{signal="nodefs.available"} 3`}} {
		m.Configure(tc.set)
		m.Observed(&seen)
		lines := ours(scrape(t, m))
		if !slices.Contains(lines, tc.served) || slices.Contains(lines, tc.omitted) {
			t.Errorf("%v: served\n%s", tc.set.Names(), strings.Join(lines, "\n"))
		}
		for _, line := range []string{`plimsoll_evictions{eviction_signal="memory.available"} 1`, `plimsoll_evictions{eviction_signal="nodefs.available"} 0`} {
			if !slices.Contains(lines, line) {
				t.Errorf("%v: %s is not served", tc.set.Names(), line)
			}
		}
		if slices.ContainsFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, `plimsoll_no_pod_helps{signal="pid`) || strings.HasPrefix(l, `plimsoll_signal_unknown{signal="pid`)
		}) {
			t.Errorf("%v: a signal that is not configured is served", tc.set.Names())
		}
	}
}

func parsed(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// TestReference_IsUpToDate compares the reference with the table and with the served metrics.
func TestReference_IsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "metrics.md")
	want := metrics.Reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("docs/reference/metrics.md differs from the table of metrics (%v): run go test ./internal/metrics -update", err)
	}
	agent, controller, parted := strings.Cut(want, "\n## The controller\n")
	if !parted {
		t.Fatal("the reference has no section about the controller")
	}
	m := open()
	recordAll(m)
	documented(t, agent, scrape(t, m))
	c := openController()
	recordController(c)
	documented(t, controller, served(t, c.Handler()))
}

// documented compares a part of the reference with the served metrics.
func documented(t *testing.T, part, text string) {
	t.Helper()
	served := 0
	for name, family := range parsed(t, text) {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		served++
		row := rowOf(part, name)
		if !strings.Contains(row, "| "+strings.ToLower(family.GetType().String())+" |") || !strings.Contains(row, family.GetHelp()) {
			t.Errorf("%s is served as a %s (%s), but documented as %q", name, family.GetType(), family.GetHelp(), row)
		}
		for _, l := range family.GetMetric()[0].GetLabel() {
			if !strings.Contains(row, "`"+l.GetName()+"`: ") {
				t.Errorf("label %s of %s is not documented", l.GetName(), name)
			}
		}
	}
	if rows := strings.Count(part, "\n| `"); rows != served {
		t.Errorf("%d metrics are documented, %d served: this test does not record all, or the table has an unused entry", rows, served)
	}
}

// rowOf returns the line of the reference about a metric.
func rowOf(reference, name string) string {
	for line := range strings.Lines(reference) {
		if strings.HasPrefix(line, "| `"+name+"` |") {
			return line
		}
	}
	return ""
}

// kubelet are names of the kubelet with our prefix: its counter of evictions is older
// than the rule that names of counters end in _total.
var kubelet = map[string]string{"plimsoll_evictions": "counter metrics should have"}

func TestMetrics_NamesPassPromlint(t *testing.T) {
	m := open()
	recordAll(m)
	problems, err := promlint.New(strings.NewReader(scrape(t, m))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if excused, known := kubelet[p.Metric]; strings.HasPrefix(p.Metric, "plimsoll_") && (!known || !strings.Contains(p.Text, excused)) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// TestMetrics_UsesOwnRegistry: metrics that a library registers globally are not served.
func TestMetrics_UsesOwnRegistry(t *testing.T) {
	stray := prometheus.NewCounter(prometheus.CounterOpts{Name: "stray_total", Help: "Registered globally."})
	prometheus.MustRegister(stray)
	defer prometheus.Unregister(stray)
	if text := scrape(t, open()); strings.Contains(text, "stray_total") {
		t.Error("a metric of the global registry is served")
	}
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "plimsoll_") {
			t.Errorf("%s is registered globally", f.GetName())
		}
	}
}

func TestHandler_ServesTextToOpenMetricsClient(t *testing.T) {
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	request.Header.Set("Accept-Encoding", "gzip")
	response := httptest.NewRecorder()
	open().Handler().ServeHTTP(response, request)
	if kind := response.Header().Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") || response.Header().Get("Content-Encoding") != "" {
		t.Errorf("served as %s, encoded %q", kind, response.Header().Get("Content-Encoding"))
	}
	if !strings.Contains(response.Body.String(), "\nplimsoll_evictions{") {
		t.Error("the kubelet's name for evictions is not served")
	}
}

func TestMetrics_RecordingDoesNotAllocate(t *testing.T) {
	m := open()
	seen := signals.Observations{signals.MemoryAvailable: signals.Observed(100*mebi, 512*mebi, time.Now()), signals.PIDAvailable: signals.Unknown("gone")}
	var pressed signals.ConditionSet
	allocated := testing.AllocsPerRun(1000, func() {
		m.Check(signals.Early, 42*time.Microsecond)
		m.Check(signals.Periodic, 42*time.Microsecond)
		m.Observed(&seen)
		m.Conditions(pressed)
	})
	if allocated != 0 {
		t.Errorf("recording a check allocates %.0f times, want 0", allocated)
	}
}

func TestMetrics_ConcurrentWithScrapes(t *testing.T) {
	m := open()
	var all sync.WaitGroup
	const each = 50
	for range 4 {
		all.Go(func() {
			for range each {
				recordAll(m)
			}
		})
	}
	for range 20 {
		if text := scrape(t, m); !strings.Contains(text, "plimsoll_check_duration_seconds_count") {
			t.Error("a scrape during recording is incomplete")
		}
	}
	all.Wait()
	if got := ours(scrape(t, m)); !slices.Contains(got, "plimsoll_evictions_failed_total 200") {
		t.Error("the counter of failed evictions is not 200")
	}
}

func BenchmarkMetrics_Check(b *testing.B) {
	m := open()
	seen := signals.Observations{signals.MemoryAvailable: signals.Observed(100*mebi, 512*mebi, time.Now())}
	b.ReportAllocs()
	for b.Loop() {
		m.Check(signals.Early, 42*time.Microsecond)
		m.Observed(&seen)
	}
}

func BenchmarkScrape(b *testing.B) {
	m := open()
	recordAll(m)
	handler, request := m.Handler(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(httptest.NewRecorder(), request)
	}
}
