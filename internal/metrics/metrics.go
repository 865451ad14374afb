package metrics

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Settings configure the agent's instruments.
type Settings struct {
	Version  string
	Revision string // of the source; "unknown" if it is not known
	// Configured signals have series. No decision depends on the others.
	Configured signals.Set
	// Threshold returns the amount below which the signal first meets a threshold of a kind, hard or
	// soft, at a capacity, and whether there is one. Every scrape calls it for the
	// known signals. nil: no threshold is served.
	Threshold func(s signals.Signal, hard bool, capacity signals.Amount) (signals.Amount, bool)
	// Limits are the names of the local-storage limits, which replace the name of a signal.
	Limits []string
	// OOMLimits are the names of the limits at which the kernel kills.
	OOMLimits []string
	// LinesDropped returns the number of dropped log lines since the start. Every scrape calls it.
	LinesDropped func() int64
	// Config, if set, returns the state of the configuration. Every scrape calls it.
	Config func() Config
	// Recording, if set, returns the number of values that were not recorded since the start, and
	// the size of the recording. Every scrape calls it.
	Recording func() (dropped, bytes int64)
}

// Metrics holds the instruments of the agent. Its methods are safe for concurrent use and do not
// block.
type Metrics struct {
	registry   *prometheus.Registry
	configured atomic.Uint32 // a signals.Set

	checks                       [2]prometheus.Observer                    // by signal.Kind
	available, capacity, unknown *readings                                 // by signal.Signal
	noPodHelps                   *readings                                 // likewise
	conditions                   *readings                                 // by signal.Condition
	wakes                        [signals.WakeCount + 1]prometheus.Counter // the timer first
	sources                      *prometheus.GaugeVec

	evictions                       *prometheus.CounterVec
	dryRun                          *prometheus.CounterVec
	statsAge                        *prometheus.HistogramVec
	evictionsFailed                 prometheus.Counter
	evictionsLimited                *prometheus.CounterVec
	podsSpared, choicesDiffer       *prometheus.CounterVec
	softRefused                     prometheus.Counter
	oomKills                        *prometheus.CounterVec
	thresholdToKill, decisionToExit prometheus.Observer
	freed                           [len(freerNames)]prometheus.Counter
	images                          [len(reasonNames)]prometheus.Counter
	pendingStatuses                 prometheus.Gauge
	pendingRecords                  prometheus.Gauge
	armed                           *prometheus.GaugeVec
	runtimeErrors                   prometheus.Counter
	apiErrors                       [len(requestNames)]prometheus.Counter
}

// New returns instruments at zero. All counters exist from the start, so that their first increment
// is visible as an increase.
func New(s Settings) *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{
		registry:  r,
		available: table[available].readings(r, signals.Names()), capacity: table[capacity].readings(r, signals.Names()), unknown: table[unknown].readings(r, signals.Names()),
		conditions: table[condition].readings(r, conditionNames()), noPodHelps: table[noPodHelps].readings(r, signals.Names()),
		evictions: table[evictions].counters(r), statsAge: table[statsAge].histograms(r),
		evictionsLimited: table[evictionsLimited].counters(r),
		podsSpared:       table[podsSpared].counters(r), choicesDiffer: table[choicesDiffer].counters(r),
		evictionsFailed: table[evictionsFailed].counters(r).WithLabelValues(), softRefused: table[softRefused].counters(r).WithLabelValues(),
		thresholdToKill: table[thresholdToKill].histograms(r).WithLabelValues(), decisionToExit: table[decisionToExit].histograms(r).WithLabelValues(),
		sources: table[sources].gauges(r),
		dryRun:  table[dryRun].counters(r), armed: table[armed].gauges(r),
		pendingStatuses: table[pendingStatuses].gauges(r).WithLabelValues(), oomKills: table[oomKills].counters(r),
		pendingRecords: table[pendingRecords].gauges(r).WithLabelValues(),
		runtimeErrors:  table[runtimeErrors].counters(r).WithLabelValues(),
	}
	if s.Threshold != nil {
		r.MustRegister(&thresholds{table[threshold].desc(), m.capacity, s.Threshold})
	}
	for _, by := range limitNames {
		m.evictionsLimited.WithLabelValues(by)
	}
	for _, limit := range s.OOMLimits {
		m.oomKills.WithLabelValues(limit)
	}
	checks := table[checkDuration].histograms(r)
	for k := range m.checks {
		m.checks[k] = checks.WithLabelValues(signals.Kind(k).String())
	}
	for _, limit := range s.Limits {
		m.evictions.WithLabelValues(limit)
		m.dryRun.WithLabelValues(limit)
	}
	m.Configure(s.Configured)
	prepare(m.wakes[:], table[wakes].counters(r), append([]string{"timer"}, signals.WakeNames()...))
	prepare(m.freed[:], table[freed].counters(r), freerNames[:])
	prepare(m.images[:], table[imagesCollected].counters(r), reasonNames[:])
	prepare(m.apiErrors[:], table[apiErrors].counters(r), requestNames[:])
	if s.Recording != nil {
		r.MustRegister(table[recordingDropped].counterFunc(func() float64 { dropped, _ := s.Recording(); return float64(dropped) }),
			table[recordingBytes].gaugeFunc(func() float64 { _, bytes := s.Recording(); return float64(bytes) }))
	}
	ofConfig(r, s.Config)
	ofProcess(r, &table[buildInfo], &table[linesDropped], s.Version, s.Revision, s.LinesDropped)
	return m
}

// Configure sets the signals that have series, after a change of the thresholds. Counters of a signal stay.
// All calls must come from one goroutine.
func (m *Metrics) Configure(configured signals.Set) {
	before := signals.Set(m.configured.Load())
	m.configured.Store(uint32(configured))
	for s := range signals.All {
		switch is := configured.Has(s); {
		case is == before.Has(s):
		case is:
			m.noPodHelps.values[s].set(0)
			for _, counters := range []*prometheus.CounterVec{m.podsSpared, m.choicesDiffer, m.evictions, m.dryRun} {
				counters.WithLabelValues(s.String())
			}
		default:
			for _, of := range []*readings{m.available, m.capacity, m.unknown, m.noPodHelps} {
				of.values[s].forget()
			}
		}
	}
}

// ofProcess registers the metrics that every process of the program has.
func ofProcess(r *prometheus.Registry, build, lost *definition, version, revision string, linesDropped func() int64) {
	build.gauges(r).WithLabelValues(version, revision, runtime.Version()).Set(1)
	r.MustRegister(
		lost.counterFunc(func() float64 { return float64(linesDropped()) }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

func prepare(into []prometheus.Counter, from *prometheus.CounterVec, names []string) {
	for i, name := range names {
		into[i] = from.WithLabelValues(name)
	}
}

func conditionNames() []string {
	var all signals.ConditionSet
	for c := range signals.Condition(signals.ConditionCount) {
		all.Add(c)
	}
	return all.Names() // the constants are in the order of their names
}

// scrapeLimit bounds the memory of concurrent scrapes; further ones get status 503.
const scrapeLimit = 4

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler { return handler(m.registry) }

// handler serves a registry. Responses are not compressed: a compressor's buffers are larger than
// the text, and the client is near. OpenMetrics is disabled: it would add _total to the kubelet's
// name for evictions.
func handler(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		DisableCompression: true, MaxRequestsInFlight: scrapeLimit, CoalesceGather: true, ErrorHandling: promhttp.ContinueOnError,
	})
}

// Check records the duration of an observation of the node. It does not allocate.
func (m *Metrics) Check(kind signals.Kind, took time.Duration) {
	m.checks[kind].Observe(took.Seconds())
}

// Woken counts the sources that started a check.
func (m *Metrics) Woken(by signals.Wakes) {
	if by == 0 {
		m.wakes[0].Inc()
	}
	for i := range signals.WakeCount {
		if by.Has(1 << i) {
			m.wakes[i+1].Inc()
		}
	}
}

// Source sets whether kernel notifications of a source are active.
func (m *Metrics) Source(name, where string, watched bool) {
	value := 0.0
	if watched {
		value = 1
	}
	m.sources.WithLabelValues(name, where).Set(value)
}

// Observed records the observations of the configured signals. A signal without an observation in
// this check, neither known nor with a cause, stays unchanged. It does not allocate.
func (m *Metrics) Observed(seen *signals.Observations) {
	configured := signals.Set(m.configured.Load())
	for s := range signals.All {
		o := &seen[s]
		switch {
		case !configured.Has(s):
		case o.Known:
			m.available.values[s].set(float64(o.Available))
			m.capacity.values[s].set(float64(o.Capacity))
			m.unknown.values[s].set(0)
		case o.Cause != "":
			m.available.values[s].forget()
			m.capacity.values[s].forget()
			m.unknown.values[s].set(1)
		}
	}
}

// Conditions records the conditions that the agent considers True. It does not allocate.
func (m *Metrics) Conditions(set signals.ConditionSet) {
	for c := range signals.Condition(signals.ConditionCount) {
		value := 0.0
		if set.Has(c) {
			value = 1
		}
		m.conditions.values[c].set(value)
	}
}

// Evicted counts an eviction, by the name of its signal or of its local-storage limit.
func (m *Metrics) Evicted(cause string) { m.evictions.WithLabelValues(cause).Inc() }

// StatsAge records the age of the observation that led to an eviction. Evictions for a
// local-storage limit have none.
func (m *Metrics) StatsAge(s signals.Signal, age time.Duration) {
	m.statsAge.WithLabelValues(s.String()).Observe(age.Seconds())
}

// EvictionFailed counts a selected pod that could not be evicted.
func (m *Metrics) EvictionFailed() { m.evictionsFailed.Inc() }

// EvictionsLimited counts that evictions are limited from now on, by quota, ineffective or owner.
func (m *Metrics) EvictionsLimited(by string) { m.evictionsLimited.WithLabelValues(by).Inc() }

// Spared counts the pods that a decision passed over because their end would free too little, and
// the decision if it differs from the kubelet's.
func (m *Metrics) Spared(signal string, pods int, differs bool) {
	m.podsSpared.WithLabelValues(signal).Add(float64(pods))
	if differs {
		m.choicesDiffer.WithLabelValues(signal).Inc()
	}
}

// NoPodHelps records whether a threshold of the signal is met and no pod helps. It does not allocate.
func (m *Metrics) NoPodHelps(s signals.Signal, is bool) { m.noPodHelps.values[s].set(oneIf(is)) }

// SoftEvictionRefused counts a refusal by the API server, mostly because of a PodDisruptionBudget.
func (m *Metrics) SoftEvictionRefused() { m.softRefused.Inc() }

// ThresholdToKill records the time from the first check that found a hard threshold crossed to the
// last SIGKILL.
func (m *Metrics) ThresholdToKill(d time.Duration) { m.thresholdToKill.Observe(d.Seconds()) }

// DecisionToExit records the time from the check that decided a hard eviction until no process of
// the pod was left.
func (m *Metrics) DecisionToExit(d time.Duration) { m.decisionToExit.Observe(d.Seconds()) }

// Freed adds the measured increase of free bytes. A decrease, after concurrent allocations by
// others, counts as 0.
func (m *Metrics) Freed(by Freer, bytes int64) { m.freed[by].Add(float64(max(bytes, 0))) }

// ImagesCollected counts deleted images; n is not negative.
func (m *Metrics) ImagesCollected(why Reason, n int) { m.images[why].Add(float64(n)) }

// OOMKilled counts processes that the kernel's OOM killer ended at a limit.
func (m *Metrics) OOMKilled(limit string, n int) { m.oomKills.WithLabelValues(limit).Add(float64(n)) }

// DryRun counts an eviction decided by a disarmed agent.
func (m *Metrics) DryRun(cause string) { m.dryRun.WithLabelValues(cause).Inc() }

// Armed records whether the agent is armed.
func (m *Metrics) Armed(armed bool) { m.armed.WithLabelValues().Set(oneIf(armed)) }

// PendingStatuses records the number of pending pod statuses.
func (m *Metrics) PendingStatuses(n int) { m.pendingStatuses.Set(float64(n)) }

// PendingEvictionRecords records the number of evictions that the record in the cluster does not have yet.
func (m *Metrics) PendingEvictionRecords(n int) { m.pendingRecords.Set(float64(n)) }

// RuntimeFailed counts a failed request to the container runtime.
func (m *Metrics) RuntimeFailed() { m.runtimeErrors.Inc() }

// APIFailed counts a failed request to the API server.
func (m *Metrics) APIFailed(what Request) { m.apiErrors[what].Inc() }
