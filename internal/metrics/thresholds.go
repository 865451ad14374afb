package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// thresholds is the gauge of the configured thresholds. A scrape computes it from the capacities
// that were observed last, so that a check has no work for it.
type thresholds struct {
	desc     *prometheus.Desc
	capacity *readings // by signals.Signal
	of       func(s signals.Signal, hard bool, capacity signals.Amount) (signals.Amount, bool)
}

// Describe implements prometheus.Collector.
func (g *thresholds) Describe(descs chan<- *prometheus.Desc) { descs <- g.desc }

// Collect implements prometheus.Collector.
func (g *thresholds) Collect(series chan<- prometheus.Metric) {
	for s := range signals.All {
		capacity := g.capacity.values[s].get()
		if math.IsNaN(capacity) {
			continue
		}
		for i, kind := range kindNames {
			if at, configured := g.of(s, i == 0, signals.Amount(capacity)); configured {
				series <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(at), s.String(), kind)
			}
		}
	}
}
