package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ControllerSettings configure the controller's instruments.
type ControllerSettings struct {
	Version      string
	Revision     string // of the source; "unknown" if it is not known
	LinesDropped func() int64
	// Config, if set, returns the state of the configuration. Every scrape calls it.
	Config    func() Config
	States    []string // the states of a zone, by name
	Classes   []string // of requests, most urgent first
	Results   []string // of requests
	Decisions []string // the kinds of decisions
	// Cluster returns the present state. Every scrape calls it and waits for it. False: the state
	// is not known yet and has no series.
	Cluster func() (Cluster, bool)
}

// Cluster is the controller's knowledge at one time.
type Cluster struct {
	Nodes, Pods int
	EvictedPods int // of the pods: evicted by agents and stored until their TTL
	Renewals    uint64

	Leading               bool // this replica leads; otherwise all that follows is unknown
	ScheduledPodEvictions int  // pods with a scheduled eviction
	Suspected             int  // suspected nodes
	BreakerOpen           bool
	BudgetExceeded        bool
	Replacing             bool
	Zones                 []Zone
}

// Zone is one of the controller's zones.
type Zone struct {
	Name          string // region/zone
	State         string
	Rate          float64 // nodes per second
	Size, Unready int
	Waiting       int // queued nodes
}

// Controller holds the instruments of the controller. Its methods are safe for concurrent use and
// do not block; they can be passed as callbacks.
type Controller struct {
	registry *prometheus.Registry

	nodeEvictions            *prometheus.CounterVec
	nodeUpdates, allUpdates  prometheus.Observer
	podDeletions             prometheus.Counter
	podDeletionTime          prometheus.Observer
	leader                   prometheus.Gauge
	decisions, requests      *prometheus.CounterVec
	requestWait, requestTime prometheus.ObserverVec
	eventsDropped            prometheus.Counter
	maxUrgent                string
}

// NewController returns instruments at zero.
func NewController(s ControllerSettings) *Controller {
	r := prometheus.NewRegistry()
	t := &controllerTable
	m := &Controller{
		registry:      r,
		nodeEvictions: t[nodeEvictions].counters(r),
		nodeUpdates:   t[nodeUpdates].histograms(r).WithLabelValues(), allUpdates: t[allUpdates].histograms(r).WithLabelValues(),
		podDeletions: t[podDeletions].counters(r).WithLabelValues(), podDeletionTime: t[podDeletionTime].histograms(r).WithLabelValues(),
		leader:    t[leader].gauges(r).WithLabelValues(),
		decisions: t[decisions].counters(r), requests: t[requests].counters(r),
		requestWait: t[requestWait].histograms(r), requestTime: t[requestTime].histograms(r),
		eventsDropped: t[eventsDropped].counters(r).WithLabelValues(),
	}
	for _, kind := range s.Decisions {
		m.decisions.WithLabelValues(kind, strconv.FormatBool(true))
		m.decisions.WithLabelValues(kind, strconv.FormatBool(false))
	}
	for i, class := range s.Classes {
		if i == 0 {
			m.maxUrgent = class
		}
		for _, result := range s.Results {
			m.requests.WithLabelValues(class, result)
		}
		m.requestWait.WithLabelValues(class)
		m.requestTime.WithLabelValues(class)
	}
	r.MustRegister(newClusterReader(s, m.nodeEvictions))
	ofConfig(r, s.Config)
	ofProcess(r, &t[controllerBuildInfo], &t[controllerLinesDropped], s.Version, s.Revision, s.LinesDropped)
	return m
}

// Handler serves the metrics.
func (m *Controller) Handler() http.Handler { return handler(m.registry) }

// Decided counts a decision; dryRun: it was only reported.
func (m *Controller) Decided(kind string, dryRun bool) {
	m.decisions.WithLabelValues(kind, strconv.FormatBool(dryRun)).Inc()
}

// Tainted counts a lost node of a zone.
func (m *Controller) Tainted(zone string) { m.nodeEvictions.WithLabelValues(zone).Inc() }

// PodDeleted counts a deleted pod and records the time since the decision.
func (m *Controller) PodDeleted(late time.Duration) {
	m.podDeletions.Inc()
	m.podDeletionTime.Observe(late.Seconds())
}

// Request records a completed request.
func (m *Controller) Request(class, result string, waited, took time.Duration) {
	m.requests.WithLabelValues(class, result).Inc()
	m.requestWait.WithLabelValues(class).Observe(waited.Seconds())
	m.requestTime.WithLabelValues(class).Observe(took.Seconds())
	if class == m.maxUrgent {
		m.nodeUpdates.Observe((waited + took).Seconds())
	}
}

// EventDropped counts an event that was not sent.
func (m *Controller) EventDropped() { m.eventsDropped.Inc() }

// Checked records the duration of the decisions about all nodes.
func (m *Controller) Checked(took time.Duration) { m.allUpdates.Observe(took.Seconds()) }

// Leading sets whether this replica leads.
func (m *Controller) Leading(is bool) { m.leader.Set(oneIf(is)) }

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
