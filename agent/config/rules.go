package config

import (
	"fmt"
	"path/filepath"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// validate adds the faults of options that do not go together or are out of range, and
// replaces zeros that mean the default.
func (c *Agent) validate(faults *strictyaml.Faults) {
	c.thresholds(faults)
	c.validateReserved(faults)
	c.validateEnforce(faults)
	switch {
	case c.EvictionPressureTransitionPeriod < 0:
		faults.Add(c.Where("evictionPressureTransitionPeriod"), c.EvictionPressureTransitionPeriod.String(), "must not be negative")
	case c.EvictionPressureTransitionPeriod == 0:
		c.EvictionPressureTransitionPeriod = eviction.DefaultTransitionPeriod
	}
	if c.MonitoringPeriod < eviction.MinInterval {
		faults.Add(c.Where("monitoringPeriod"), c.MonitoringPeriod.String(), "must be at least %s", eviction.MinInterval)
	}
	if c.EarlyEvictionHorizon < 0 {
		faults.Add(c.Where("earlyEvictionHorizon"), c.EarlyEvictionHorizon.String(), "must not be negative")
	}
	if c.LoggingFormat != "text" && c.LoggingFormat != "json" {
		faults.Add(c.Where("loggingFormat"), c.LoggingFormat, "must be text or json")
	}
	if c.Verbosity < 0 {
		faults.Add(c.Where("verbosity"), fmt.Sprint(c.Verbosity), "must not be negative")
	}
	for _, p := range [][2]string{{"nodeCgroup", c.NodeCgroup}, {"procRoot", c.ProcRoot}, {"cgroupRoot", c.CgroupRoot}} {
		c.validatePath(p[0], p[1], faults)
	}
	c.validateLimits(faults)
	for _, p := range [][2]string{{"disarmFile", c.DisarmFile}, {"recordingDir", c.RecordingDir}, {"decisionLogDir", c.DecisionLogDir}} {
		if p[1] != "" {
			c.validatePath(p[0], p[1], faults)
		}
	}
	if c.DecisionLogDir != "" && c.DecisionLogDir == c.RecordingDir {
		faults.Add(c.Where("decisionLogDir"), c.DecisionLogDir, "must not be recordingDir: each has files of its own")
	}
	c.validateCluster(faults)
}

func (c *Agent) validatePath(field, path string, faults *strictyaml.Faults) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		faults.Add(c.Where(field), path, "must be an absolute path without . or .. or a slash at its end")
	}
}
