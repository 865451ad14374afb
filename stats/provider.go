package stats

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// A Provider measures what pods use. Whichever is chosen, the same node gives
// the same ranking; they differ in what they cost, and in how old the figures
// are (docs/internals/decisions/013). None is safe for concurrent use, and none waits for
// another program.
type Provider interface {
	// Prepare does beforehand what a measurement of these pods will need.
	Prepare(pods []signals.Pod)
	// Measure appends a candidate for each pod, in their order. Usage is nil for
	// a pod of which nothing is known, and says when it was measured. Candidates
	// point into pods; their usages are valid until the next measurement.
	Measure(pods []signals.Pod, into []signals.Candidate) []signals.Candidate
	// MeasureMemory may leave out the processes, if that is cheaper.
	MeasureMemory(pods []signals.Pod, into []signals.Candidate) []signals.Candidate
	// Err is the first failure behind the last measurement, or nil.
	Err() error
	// Close ends what the provider has begun.
	Close()
}

// The three providers.
var (
	_ Provider = (*Pods)(nil)
	_ Provider = (*CRI)(nil)
	_ Provider = (*CAdvisor)(nil)
)

// Sampling is how a provider that asks another program does so.
type Sampling struct {
	// Period between two samples; 0 is 10 s, the kubelet's housekeeping. Figures
	// of pods that are older than two periods are not used.
	Period time.Duration
	// Capacity of the machine's memory: a pod that is said to use more is not
	// known to use anything. 0 believes everything.
	Capacity signals.Bytes
	// Otherwise measures the pods that the last sample does not tell of, or not
	// all: a runtime that hangs when memory is short does not leave the agent
	// without a ranking. nil leaves their usage nil or not known. Its owner
	// closes it.
	Otherwise Provider
}

const defaultPeriod = 10 * time.Second
