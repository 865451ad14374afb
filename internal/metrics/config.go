package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is the state of a program's configuration at one time.
type Config struct {
	Refused  bool      // the file differs from the configuration in force
	Sum      string    // SHA-256 of the file in force; empty without a file
	Since    time.Time // since when it is in force
	Applied  int       // changes since the start
	Refusals int       // likewise
}

// Definitions of the metrics of the configuration, which both programs have.
var (
	configSuccessful = definition{"plimsoll_config_last_reload_successful", gauge, nil, nil,
		"1 while the configuration file is the one in force, 0 while a change of it is refused. The log and /configz have the reason."}
	configSince = definition{"plimsoll_config_last_reload_success_timestamp_seconds", gauge, nil, nil,
		"Time since which the configuration is in force: that of the last applied change, or of the start."}
	configReloads = definition{"plimsoll_config_reloads_total", counter, []label{{"result", "applied, refused"}}, nil,
		"Changes of the configuration file."}
	configInfo = definition{"plimsoll_config_info", gauge, []label{{"sha256", "of the configuration file in force; empty without a file"}}, nil,
		"1. Programs with equal files have equal labels; flags are not part of it."}
)

// configReader exports the state of the configuration at the time of a scrape.
type configReader struct {
	read                             func() Config
	successful, since, reloads, info *prometheus.Desc
}

// ofConfig registers the metrics of the configuration. A nil read registers none.
func ofConfig(r *prometheus.Registry, read func() Config) {
	if read != nil {
		r.MustRegister(&configReader{read, configSuccessful.desc(), configSince.desc(), configReloads.desc(), configInfo.desc()})
	}
}

// Describe implements prometheus.Collector.
func (r *configReader) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{r.successful, r.since, r.reloads, r.info} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (r *configReader) Collect(series chan<- prometheus.Metric) {
	c := r.read()
	series <- prometheus.MustNewConstMetric(r.successful, prometheus.GaugeValue, oneIf(!c.Refused))
	series <- prometheus.MustNewConstMetric(r.since, prometheus.GaugeValue, float64(c.Since.UnixMilli())/1000)
	series <- prometheus.MustNewConstMetric(r.reloads, prometheus.CounterValue, float64(c.Applied), "applied")
	series <- prometheus.MustNewConstMetric(r.reloads, prometheus.CounterValue, float64(c.Refusals), "refused")
	series <- prometheus.MustNewConstMetric(r.info, prometheus.GaugeValue, 1, c.Sum)
}
