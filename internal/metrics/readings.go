package metrics

import (
	"math"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// readings is a gauge with one label. Its series exist only while their value is known. A gauge of
// the library would show 0 instead, and NaN would invalidate every sum over nodes.
type readings struct {
	desc   *prometheus.Desc
	values []reading
	names  []string // values of the label
}

// reading is a float64, NaN while it is unknown.
type reading struct{ bits atomic.Uint64 }

func (r *reading) set(v float64) { r.bits.Store(math.Float64bits(v)) }

func (r *reading) get() float64 { return math.Float64frombits(r.bits.Load()) }

func (r *reading) forget() { r.set(math.NaN()) }

func (d *definition) readings(r prometheus.Registerer, names []string) *readings {
	g := &readings{d.desc(), make([]reading, len(names)), names}
	for i := range g.values {
		g.values[i].forget()
	}
	r.MustRegister(g)
	return g
}

// Describe implements prometheus.Collector.
func (g *readings) Describe(descs chan<- *prometheus.Desc) { descs <- g.desc }

// Collect implements prometheus.Collector.
func (g *readings) Collect(series chan<- prometheus.Metric) {
	for i := range g.values {
		if v := g.values[i].get(); !math.IsNaN(v) {
			series <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, v, g.names[i])
		}
	}
}
