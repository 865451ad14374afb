package stats

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Provider measures the usage of pods. On the same node every provider gives the same ranking;
// they differ in cost and in the age of the figures (docs/internals/decisions/013). None is
// safe for concurrent use, and none waits for another program.
type Provider interface {
	// Prepare does work in advance for a measurement of these pods.
	Prepare(pods []signals.Pod)
	// Measure appends a candidate for each pod, in their order. Usage is nil for a pod without
	// figures, and contains the time of measurement. Candidates point into pods; their usages
	// are valid until the next measurement.
	Measure(pods []signals.Pod, into []signals.Candidate) []signals.Candidate
	// MeasureMemory may omit the processes if that is cheaper.
	MeasureMemory(pods []signals.Pod, into []signals.Candidate) []signals.Candidate
	// Err returns the first failure behind the last measurement, or nil.
	Err() error
	// Close stops the provider and releases its resources.
	Close()
}

// The three providers.
var (
	_ Provider = (*Pods)(nil)
	_ Provider = (*CRI)(nil)
	_ Provider = (*CAdvisor)(nil)
)

// Sampling configures a provider that queries another program.
type Sampling struct {
	// Period is the time between two samples; 0 is 10 s, the kubelet's housekeeping. Figures
	// older than two periods are not used.
	Period time.Duration
	// Capacity is the machine's memory in bytes. A larger reported usage makes the pod's usage
	// unknown. 0 disables the check.
	Capacity signals.Bytes
	// Fallback measures the pods that are missing or incomplete in the last sample. It
	// provides a ranking even if a runtime hangs under memory pressure. If it is nil, their
	// usage stays nil or unknown. The caller closes it.
	Fallback Provider
}

const defaultPeriod = 10 * time.Second
