package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// metric is a line of the agent's table; the order is that of the reference.
type metric uint8

const (
	evictions metric = iota
	statsAge
	imagesCollected
	dryRun
	evictionsFailed
	evictionsLimited
	podsSpared
	choicesDiffer
	noPodHelps
	softRefused
	checkDuration
	wakes
	sources
	thresholdToKill
	decisionToExit
	freed
	pendingStatuses
	pendingRecords
	oomKills
	available
	capacity
	threshold
	unknown
	condition
	armed
	runtimeErrors
	apiErrors
	linesDropped
	recordingDropped
	recordingBytes
	configOfAgent
	configSinceOfAgent
	configReloadsOfAgent
	configInfoOfAgent
	buildInfo
)

// definition is a metric in the table.
type definition struct {
	name    string
	kind    string
	labels  []label
	buckets []float64 // of a histogram: upper bounds in seconds
	help    string
}

// label is a label with the description of its values for the reference.
type label struct{ name, values string }

const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// Upper bounds in seconds. A check takes tens of microseconds on a quiet node, a kill tens of
// milliseconds. The higher buckets reveal outliers.
var (
	checkBuckets = []float64{5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 100e-3, 1, 10}
	killBuckets  = []float64{1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30}
)

// Labels that several metrics have.
var (
	ofEviction = label{"eviction_signal", "a signal, or the exceeded local-storage limit"}
	ofStats    = label{"eviction_signal", "a signal"}
	ofSignal   = label{"signal", "the configured ones: memory.available, …"}
)

var table = [...]definition{
	evictions: {"plimsoll_evictions", counter, []label{ofEviction}, nil,
		"Evicted pods by the signal they were evicted for. The kubelet's counterpart is kubelet_evictions."},
	statsAge: {"plimsoll_eviction_stats_age_seconds", histogram, []label{ofStats}, prometheus.DefBuckets,
		"Age of the observation that led to an eviction. The kubelet's counterpart is kubelet_eviction_stats_age_seconds."},
	imagesCollected: {"plimsoll_image_garbage_collected_total", counter, []label{{"reason", valuesOf(reasonNames[:])}}, nil,
		"Images deleted because they were unused for too long, or to free space. The kubelet's counterpart is kubelet_image_garbage_collected_total."},
	dryRun: {"plimsoll_evictions_dry_run_total", counter, []label{ofEviction}, nil,
		"Evictions that a disarmed agent decided and did not carry out, by signal."},
	evictionsFailed: {"plimsoll_evictions_failed_total", counter, nil, nil,
		"Evictions that failed. Usually the next pod of the ranking is tried in the same check."},
	evictionsLimited: {"plimsoll_evictions_limited_total", counter, []label{{"reason", valuesOf(limitNames[:])}}, nil,
		"Times that evictions began to be limited: the quota of an hour was reached, evictions were ineffective, or a pod's owner recreates it repeatedly."},
	podsSpared: {"plimsoll_pods_spared_total", counter, []label{ofStats}, nil,
		"Pods that were passed over because their end would free too little, in all logged decisions except repeated ones. A pod counts in each of them."},
	choicesDiffer: {"plimsoll_eviction_choices_differ_total", counter, []label{ofStats}, nil,
		"Logged decisions that passed over the pod that the kubelet would have evicted, since its end would free too little."},
	noPodHelps: {"plimsoll_no_pod_helps", gauge, []label{ofSignal}, nil,
		"1 while a threshold of the signal is met and no pod is evicted because none helps, else 0. The event NoPodHelps and the decision log name the consumers."},
	softRefused: {"plimsoll_soft_evictions_refused_total", counter, nil, nil,
		"Requests for a soft eviction that the API server refused, mostly because of a PodDisruptionBudget. They are retried."},
	checkDuration: {"plimsoll_check_duration_seconds", histogram, []label{{"check", "periodic, early"}}, checkBuckets,
		"Time to observe the node in one check."},
	wakes: {"plimsoll_wakeups_total", counter, []label{{"source", "timer, " + valuesOf(signals.WakeNames())}}, nil,
		"Checks by the source that woke the agent: the timer, the agent itself (request), or a kernel notification."},
	sources: {"plimsoll_notification_source", gauge, []label{{"source", "kind of notification"}, {"where", "cgroup or file"}}, nil,
		"1 while kernel notifications of this source are active, 0 while they are unavailable. The log has the reason."},
	thresholdToKill: {"plimsoll_threshold_to_kill_duration_seconds", histogram, nil, killBuckets,
		"Time from the first check that found a hard threshold crossed to the last SIGKILL."},
	decisionToExit: {"plimsoll_eviction_exit_duration_seconds", histogram, nil, killBuckets,
		"Time from the check that decided a hard eviction until no process of the pod was left. After one minute it counts as one minute."},
	freed: {"plimsoll_reclaimed_bytes_total", counter, []label{{"source", valuesOf(freerNames[:])}}, nil,
		"Bytes that were measured to be free afterwards, by the source that freed them."},
	pendingStatuses: {"plimsoll_pending_pod_statuses", gauge, nil, nil,
		"Evicted pods with a status that has not reached the API server yet."},
	pendingRecords: {"plimsoll_pending_eviction_records", gauge, nil, nil,
		"Evictions that the record of the node in the cluster does not have yet."},
	oomKills: {"plimsoll_oom_kills_total", counter, []label{{"limit", "container, pod, qos, pods, node, unknown"}}, nil,
		"Processes that the kernel's OOM killer ended, by the limit that was met. Without access to the kernel's log all of them are unknown."},
	available: {"plimsoll_signal_available", gauge, []label{ofSignal}, nil,
		"Available amount in the unit of the signal: bytes, inodes or PIDs. No series while the signal is unknown."},
	capacity: {"plimsoll_signal_capacity", gauge, []label{ofSignal}, nil,
		"Capacity that percentages of the signal refer to, in its unit. No series while the signal is unknown."},
	threshold: {"plimsoll_signal_threshold", gauge, []label{ofSignal, {"kind", valuesOf(kindNames[:])}}, nil,
		"Amount below which the threshold of the signal is met, in its unit; of several, the highest. No series without such a threshold, or while the signal is unknown."},
	unknown: {"plimsoll_signal_unknown", gauge, []label{ofSignal}, nil,
		"1 while the signal cannot be observed, else 0. No series before the first check."},
	condition: {"plimsoll_condition", gauge, []label{{"condition", "DiskPressure, MemoryPressure, PIDPressure"}}, nil,
		"1 while the agent considers the pressure condition True, whether or not it is the agent that reports it. No series before the first check."},
	armed: {"plimsoll_armed", gauge, nil, nil,
		"1 while the agent is armed, 0 while it only reports decisions. No series before the state is known."},
	runtimeErrors: {"plimsoll_runtime_errors_total", counter, nil, nil,
		"Requests to the container runtime that failed or timed out."},
	apiErrors: {"plimsoll_api_errors_total", counter, []label{{"request", valuesOf(requestNames[:])}}, nil,
		"Failed attempts of requests to the API server by kind of request: without a response in time, or refused. A missing object, a concurrent write and an eviction that has to wait (429) are not counted."},
	linesDropped: {"plimsoll_log_lines_dropped_total", counter, nil, nil,
		"Lines of the log and of the decision log that were dropped because standard error was read too slowly."},
	recordingDropped: {"plimsoll_recording_dropped_total", counter, nil, nil,
		"Checks, usages and decisions that were not recorded, because the disk was full or too slow, or they were too large. No series with neither a recording nor stored decisions."},
	recordingBytes: {"plimsoll_recording_bytes", gauge, nil, nil,
		"Size of the recording and the stored decisions on disk, reserved space included. No series with neither of them."},
	configOfAgent: configSuccessful, configSinceOfAgent: configSince, configReloadsOfAgent: configReloads, configInfoOfAgent: configInfo,
	buildInfo: {"plimsoll_build_info", gauge, []label{{"version", "of the release"}, {"revision", "of the source"}, {"goversion", "of the compiler"}}, nil,
		"1. The labels describe the running program."},
}

func (d *definition) labelNames() []string {
	names := make([]string, 0, len(d.labels))
	for _, l := range d.labels {
		names = append(names, l.name)
	}
	return names
}

func (d *definition) desc() *prometheus.Desc {
	return prometheus.NewDesc(d.name, d.help, d.labelNames(), nil)
}

func (d *definition) counterFunc(value func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: d.name, Help: d.help}, value)
}

func (d *definition) gaugeFunc(value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: d.name, Help: d.help}, value)
}

func (d *definition) counters(r prometheus.Registerer) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.name, Help: d.help}, d.labelNames())
	r.MustRegister(v)
	return v
}

func (d *definition) histograms(r prometheus.Registerer) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.name, Help: d.help, Buckets: d.buckets}, d.labelNames())
	r.MustRegister(v)
	return v
}

func (d *definition) gauges(r prometheus.Registerer) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.name, Help: d.help}, d.labelNames())
	r.MustRegister(v)
	return v
}
