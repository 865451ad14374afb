package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// A metric is a line of the agent's table; the order is that of the reference.
type metric uint8

const (
	evictions metric = iota
	statsAge
	imagesCollected
	rehearsed
	evictionsFailed
	evictionsHeld
	softRefused
	lookDuration
	wakes
	sources
	crossing
	dead
	freed
	debts
	available
	capacity
	unknown
	condition
	armed
	runtimeErrors
	apiErrors
	linesLost
	buildInfo
)

// A definition is what the table says of a metric.
type definition struct {
	name    string
	kind    string
	labels  []label
	buckets []float64 // of a histogram: upper bounds in seconds
	help    string
}

// A label, and its values as the reference tells them.
type label struct{ name, values string }

const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// Upper bounds in seconds. A look takes tens of microseconds on a quiet node, a
// kill tens of milliseconds; what is far above is what one wants to see.
var (
	lookBuckets = []float64{5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 100e-3, 1, 10}
	killBuckets = []float64{1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30}
)

// Labels that several metrics have.
var (
	ofEviction = label{"eviction_signal", "a signal, or the local-storage limit that was exceeded"}
	ofStats    = label{"eviction_signal", "a signal"}
	ofSignal   = label{"signal", "the configured ones: memory.available, …"}
)

var table = [...]definition{
	evictions: {"plimsoll_evictions", counter, []label{ofEviction}, nil,
		"Pods evicted, by what they were evicted for. The kubelet's is kubelet_evictions."},
	statsAge: {"plimsoll_eviction_stats_age_seconds", histogram, []label{ofStats}, prometheus.DefBuckets,
		"Age of the observation that a pod was evicted for. The kubelet's is kubelet_eviction_stats_age_seconds."},
	imagesCollected: {"plimsoll_image_garbage_collected_total", counter, []label{{"reason", valuesOf(reasonNames[:])}}, nil,
		"Images deleted because they were unused for too long, or to make space. The kubelet's is kubelet_image_garbage_collected_total."},
	rehearsed: {"plimsoll_evictions_rehearsed_total", counter, []label{ofEviction}, nil,
		"Evictions that were decided and not carried out, because the agent was disarmed, by what they were decided for."},
	evictionsFailed: {"plimsoll_evictions_failed_total", counter, nil, nil,
		"Pods that were chosen and could not be evicted; as a rule the next one in the ranking was tried."},
	evictionsHeld: {"plimsoll_evictions_held_total", counter, []label{{"by", valuesOf(holdNames[:])}}, nil,
		"How often evictions were held back: the bound of an hour was reached, they had stopped to help, or a pod's owner brings it back again and again. Counted when it begins."},
	softRefused: {"plimsoll_soft_evictions_refused_total", counter, nil, nil,
		"Soft evictions that the API server refused for a PodDisruptionBudget; they are tried again."},
	lookDuration: {"plimsoll_look_duration_seconds", histogram, []label{{"kind", "regular, extra"}}, lookBuckets,
		"Time that it took to observe the node."},
	wakes: {"plimsoll_wakes_total", counter, []label{{"by", "timer, " + valuesOf(signals.WakeNames())}}, nil,
		"Looks by what woke the agent for them: the timer, the agent itself (request), or a notification of the kernel."},
	sources: {"plimsoll_notification_source", gauge, []label{{"source", "what notifies"}, {"where", "the cgroup or file"}}, nil,
		"1 while the kernel's notifications from there are waited for, 0 while they can not be had; the log says why."},
	crossing: {"plimsoll_crossing_to_kill_seconds", histogram, nil, killBuckets,
		"Time from the first look that found a hard threshold crossed to the last SIGKILL."},
	dead: {"plimsoll_decision_to_dead_seconds", histogram, nil, killBuckets,
		"Time from the look that decided an immediate eviction until no process of the pod was left."},
	freed: {"plimsoll_freed_bytes_total", counter, []label{{"by", valuesOf(freerNames[:])}}, nil,
		"Bytes that were measured to be free afterwards, by what freed them."},
	debts: {"plimsoll_status_debts", gauge, nil, nil,
		"Evicted pods whose status is still owed to the API server."},
	available: {"plimsoll_signal_available", gauge, []label{ofSignal}, nil,
		"What is available, in the signal's unit: bytes, inodes or PIDs. No series while it is unknown."},
	capacity: {"plimsoll_signal_capacity", gauge, []label{ofSignal}, nil,
		"What a percentage of the signal refers to, in its unit. No series while it is unknown."},
	unknown: {"plimsoll_signal_unknown", gauge, []label{ofSignal}, nil,
		"1 while the signal can not be observed, 0 while it can. No series before the first look."},
	condition: {"plimsoll_condition", gauge, []label{{"condition", "DiskPressure, MemoryPressure, PIDPressure"}}, nil,
		"1 while the agent holds the pressure condition True, whoever reports it to the API server. No series before the first look."},
	armed: {"plimsoll_armed", gauge, nil, nil,
		"1 while the agent acts, 0 while it only tells what it would do. No series before it knows."},
	runtimeErrors: {"plimsoll_runtime_errors_total", counter, nil, nil,
		"Requests to the container runtime that failed or were given up."},
	apiErrors: {"plimsoll_api_errors_total", counter, []label{{"request", valuesOf(requestNames[:])}}, nil,
		"Requests to the API server that failed, by what was asked for. A refused soft eviction is none."},
	linesLost: {"plimsoll_log_lines_lost_total", counter, nil, nil,
		"Lines of the log and decisions that were dropped because standard error was read too slowly."},
	buildInfo: {"plimsoll_build_info", gauge, []label{{"version", "of the release"}, {"revision", "of the source"}, {"goversion", "of the compiler"}}, nil,
		"1; the labels say what is running."},
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
