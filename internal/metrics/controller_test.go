package metrics_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"plimsoll.dev/plimsoll/internal/metrics"
)

// sampleCluster has two zones, one of them without a name.
var sampleCluster = metrics.Cluster{
	Nodes: 7, Pods: 210, EvictedPods: 4, Leading: true, ScheduledPodEvictions: 30, Suspected: 2, Renewals: 1 << 40, BreakerOpen: true, BudgetExceeded: true, Replacing: true,
	Zones: []metrics.Zone{
		{Name: "", State: "Normal", Rate: 0.1, Size: 3},
		{Name: "r/z", State: "PartialDisruption", Rate: 0.01, Size: 4, Unready: 3, Waiting: 2},
	},
}

func openController() *metrics.Controller {
	return controllerOf(func() (metrics.Cluster, bool) { return sampleCluster, true })
}

func controllerOf(cluster func() (metrics.Cluster, bool)) *metrics.Controller {
	return metrics.NewController(metrics.ControllerSettings{
		Version: "v1", Revision: "abc", LinesDropped: func() int64 { return 3 }, Config: sampleConfig,
		States: []string{"Normal", "PartialDisruption", "FullDisruption"}, Classes: []string{"protect", "tidy"}, Results: []string{"ok", "declined", "failed"}, Decisions: []string{"taint", "evict"},
		Cluster: cluster,
	})
}

// recordController records one of everything.
func recordController(m *metrics.Controller) {
	m.Decided("taint", true)
	m.Decided("evict", false)
	m.Tainted("r/z")
	m.PodDeleted(300 * time.Millisecond)
	m.Request("protect", "ok", 3*time.Millisecond, 20*time.Millisecond)
	m.Request("tidy", "declined", 2*time.Second, time.Millisecond)
	m.EventDropped()
	m.Checked(40 * time.Microsecond)
	m.Leading(true)
}

func TestController_ServesRecordedMetrics(t *testing.T) {
	m := openController()
	recordController(m)
	lines := strings.Split(served(t, m.Handler()), "\n")
	for _, want := range []string{
		`node_collector_zone_health{zone="r/z"} 25`,
		`node_collector_zone_health{zone=""} 100`,
		`node_collector_zone_size{zone="r/z"} 4`,
		`node_collector_unhealthy_nodes_in_zone{zone="r/z"} 3`,
		`node_collector_unhealthy_nodes_in_zone{zone=""} 0`,
		`node_collector_evictions_total{zone="r/z"} 1`,
		`node_collector_update_node_health_duration_seconds_bucket{le="0.016"} 0`,
		`node_collector_update_node_health_duration_seconds_bucket{le="0.064"} 1`,
		`node_collector_update_node_health_duration_seconds_count 1`,
		`node_collector_update_all_nodes_health_duration_seconds_bucket{le="0.01"} 1`,
		`taint_eviction_controller_pod_deletions_total 1`,
		`taint_eviction_controller_pod_deletion_duration_seconds_sum 0.3`,
		`taint_eviction_controller_pod_deletion_duration_seconds_bucket{le="0.1"} 0`,
		`taint_eviction_controller_pod_deletion_duration_seconds_bucket{le="0.5"} 1`,
		`plimsoll_controller_zone_state{state="PartialDisruption",zone="r/z"} 1`,
		`plimsoll_controller_zone_state{state="Normal",zone="r/z"} 0`,
		`plimsoll_controller_zone_rate{zone="r/z"} 0.01`,
		`plimsoll_controller_zone_queued_nodes{zone="r/z"} 2`,
		`plimsoll_controller_nodes 7`,
		`plimsoll_controller_pods 210`,
		`plimsoll_controller_evicted_pods 4`,
		`plimsoll_controller_scheduled_pod_evictions 30`,
		`plimsoll_controller_lease_renewals_observed_total 1.099511627776e+12`,
		`plimsoll_controller_suspected_nodes 2`,
		`plimsoll_controller_breaker_open 1`,
		`plimsoll_controller_max_unhealthy_exceeded 1`,
		`plimsoll_controller_leader 1`,
		`plimsoll_controller_replacing 1`,
		`plimsoll_controller_decisions_total{decision="taint",dry_run="true"} 1`,
		`plimsoll_controller_decisions_total{decision="taint",dry_run="false"} 0`,
		`plimsoll_controller_decisions_total{decision="evict",dry_run="false"} 1`,
		`plimsoll_controller_requests_total{class="protect",result="ok"} 1`,
		`plimsoll_controller_requests_total{class="protect",result="failed"} 0`,
		`plimsoll_controller_requests_total{class="tidy",result="declined"} 1`,
		`plimsoll_controller_requests_total{class="tidy",result="failed"} 0`,
		`plimsoll_controller_request_wait_seconds_bucket{class="tidy",le="1"} 0`,
		`plimsoll_controller_request_wait_seconds_bucket{class="tidy",le="2.5"} 1`,
		`plimsoll_controller_request_duration_seconds_bucket{class="tidy",le="0.001"} 1`,
		`plimsoll_controller_events_dropped_total 1`,
		`plimsoll_log_lines_dropped_total 3`,
		`plimsoll_config_last_reload_successful 0`,
		`plimsoll_config_info{sha256="0abc"} 1`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is not served", want)
		}
	}
}

// Before the first complete lists no value is known; a removed zone has no series.
func TestController_OmitsUnknownCluster(t *testing.T) {
	var known atomic.Pointer[metrics.Cluster]
	m := controllerOf(func() (metrics.Cluster, bool) {
		if c := known.Load(); c != nil {
			return *c, true
		}
		return metrics.Cluster{}, false
	})
	has := func(series string) bool { return strings.Contains(served(t, m.Handler()), "\n"+series) }
	if has("plimsoll_controller_nodes") || has("plimsoll_controller_breaker_open") || has("node_collector_zone_size") {
		t.Error("an unknown cluster is served")
	}
	known.Store(&sampleCluster)
	if !has(`node_collector_zone_size{zone="r/z"}`) {
		t.Error("a zone is not served")
	}
	known.Store(&metrics.Cluster{Nodes: 3, Leading: true, Zones: sampleCluster.Zones[:1]})
	if has(`node_collector_zone_size{zone="r/z"}`) || !has("plimsoll_controller_nodes 3") {
		t.Error("a removed zone is served")
	}
	known.Store(&metrics.Cluster{Nodes: 5})
	if has("plimsoll_controller_breaker_open") || has("node_collector_zone_size") || !has("plimsoll_controller_nodes 5") {
		t.Error("a standby replica serves metrics of the leader, or omits its own")
	}
}

// A counter that begins at 1 has no increase.
func TestController_CountsTaintsOfZoneFromZero(t *testing.T) {
	m := openController()
	served(t, m.Handler()) // parts of a page are collected at the same time
	if page := served(t, m.Handler()); !strings.Contains(page, "\nnode_collector_evictions_total{zone=\"r/z\"} 0\n") {
		t.Errorf("a zone without a tainted node has no count:\n%s", page)
	}
}

func TestController_NamesPassPromlint(t *testing.T) {
	m := openController()
	recordController(m)
	problems, err := promlint.New(strings.NewReader(served(t, m.Handler()))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
