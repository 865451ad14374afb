package metrics

import "github.com/prometheus/client_golang/prometheus"

// A clusterReader shows what is known of the cluster at the moment of a scrape.
// A zone that is gone, and a cluster that is not known yet, have no series.
type clusterReader struct {
	read   func() (Cluster, bool)
	states []string
	descs  map[controllerMetric]*prometheus.Desc
}

// A single is a metric of the cluster as a whole.
var singles = []struct {
	metric controllerMetric
	kind   prometheus.ValueType
	value  func(*Cluster) float64
}{
	{nodes, prometheus.GaugeValue, func(c *Cluster) float64 { return float64(c.Nodes) }},
	{boundPods, prometheus.GaugeValue, func(c *Cluster) float64 { return float64(c.Pods) }},
	{podTimers, prometheus.GaugeValue, func(c *Cluster) float64 { return float64(c.Timers) }},
	{suspects, prometheus.GaugeValue, func(c *Cluster) float64 { return float64(c.Suspects) }},
	{renewals, prometheus.CounterValue, func(c *Cluster) float64 { return float64(c.Renewals) }},
	{breakerOpen, prometheus.GaugeValue, func(c *Cluster) float64 { return oneIf(c.BreakerOpen) }},
	{budgetExceeded, prometheus.GaugeValue, func(c *Cluster) float64 { return oneIf(c.BudgetExceeded) }},
	{replacing, prometheus.GaugeValue, func(c *Cluster) float64 { return oneIf(c.Replacing) }},
}

// ofZones are the gauges that each zone has.
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

func newClusterReader(s ControllerSettings) *clusterReader {
	r := &clusterReader{s.Cluster, s.States, map[controllerMetric]*prometheus.Desc{}}
	r.descs[zoneState] = controllerTable[zoneState].desc()
	for _, one := range singles {
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
	for _, one := range singles {
		series <- prometheus.MustNewConstMetric(r.descs[one.metric], one.kind, one.value(&c))
	}
	for i := range c.Zones {
		z := &c.Zones[i]
		for _, one := range ofZones {
			series <- prometheus.MustNewConstMetric(r.descs[one.metric], prometheus.GaugeValue, one.value(z), z.Name)
		}
		for _, state := range r.states {
			series <- prometheus.MustNewConstMetric(r.descs[zoneState], prometheus.GaugeValue, oneIf(state == z.State), z.Name, state)
		}
	}
}
