package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// clusterReader exports the state of the cluster at the time of a scrape. Unknown values have no
// series: those before the first complete lists, those of a removed zone, and, in a standby
// replica, those that only the leader knows.
type clusterReader struct {
	read   func() (Cluster, bool)
	states []string
	descs  map[controllerMetric]*prometheus.Desc
	// tainted has a series of each zone from its first scrape on, so that the first tainted node
	// is an increase.
	tainted *prometheus.CounterVec
}

// single is a metric of the cluster as a whole.
type single struct {
	metric controllerMetric
	kind   prometheus.ValueType
	value  func(*Cluster) float64
}

// anybodys are known to each replica, leaders to the leading one only.
var (
	ofAnyReplica = []single{
		{nodes, prometheus.GaugeValue, func(c *Cluster) float64 { return float64(c.Nodes) }},
		{boundPods, prometheus.GaugeValue, func(c *Cluster) float64 { return float64(c.Pods) }},
		{keptPods, prometheus.GaugeValue, func(c *Cluster) float64 { return float64(c.EvictedPods) }},
		{renewals, prometheus.CounterValue, func(c *Cluster) float64 { return float64(c.Renewals) }},
	}
	ofLeader = []single{
		{podTimers, prometheus.GaugeValue, func(c *Cluster) float64 { return float64(c.ScheduledPodEvictions) }},
		{suspects, prometheus.GaugeValue, func(c *Cluster) float64 { return float64(c.Suspected) }},
		{breakerOpen, prometheus.GaugeValue, func(c *Cluster) float64 { return oneIf(c.BreakerOpen) }},
		{budgetExceeded, prometheus.GaugeValue, func(c *Cluster) float64 { return oneIf(c.BudgetExceeded) }},
		{replacing, prometheus.GaugeValue, func(c *Cluster) float64 { return oneIf(c.Replacing) }},
	}
)

// ofZones are the gauges of each zone.
var ofZones = []struct {
	metric controllerMetric
	value  func(*Zone) float64
}{
	{zoneHealth, func(z *Zone) float64 { return 100 * float64(z.Size-z.Unready) / float64(max(z.Size, 1)) }},
	{zoneSize, func(z *Zone) float64 { return float64(z.Size) }},
	{zoneUnhealthy, func(z *Zone) float64 { return float64(z.Unready) }},
	{zoneRate, func(z *Zone) float64 { return z.Rate }},
	{zoneWaiting, func(z *Zone) float64 { return float64(z.Waiting) }},
}

func newClusterReader(s ControllerSettings, tainted *prometheus.CounterVec) *clusterReader {
	r := &clusterReader{s.Cluster, s.States, map[controllerMetric]*prometheus.Desc{}, tainted}
	r.descs[zoneState] = controllerTable[zoneState].desc()
	for _, one := range slices.Concat(ofAnyReplica, ofLeader) {
		r.descs[one.metric] = controllerTable[one.metric].desc()
	}
	for _, one := range ofZones {
		r.descs[one.metric] = controllerTable[one.metric].desc()
	}
	return r
}

// Describe implements prometheus.Collector.
func (r *clusterReader) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range r.descs {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (r *clusterReader) Collect(series chan<- prometheus.Metric) {
	c, known := r.read()
	if !known {
		return
	}
	r.collect(ofAnyReplica, &c, series)
	if !c.Leading {
		return
	}
	r.collect(ofLeader, &c, series)
	for i := range c.Zones {
		z := &c.Zones[i]
		r.tainted.WithLabelValues(z.Name)
		for _, one := range ofZones {
			series <- prometheus.MustNewConstMetric(r.descs[one.metric], prometheus.GaugeValue, one.value(z), z.Name)
		}
		for _, state := range r.states {
			series <- prometheus.MustNewConstMetric(r.descs[zoneState], prometheus.GaugeValue, oneIf(state == z.State), z.Name, state)
		}
	}
}

func (r *clusterReader) collect(all []single, c *Cluster, series chan<- prometheus.Metric) {
	for _, one := range all {
		series <- prometheus.MustNewConstMetric(r.descs[one.metric], one.kind, one.value(c))
	}
}
