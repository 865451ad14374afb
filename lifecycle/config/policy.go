package config

import (
	"plimsoll.dev/plimsoll/lifecycle/agents"
	"plimsoll.dev/plimsoll/lifecycle/confirm"
	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/heartbeat"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// Policy returns the policy of all decisions. The configuration must be valid.
func (c *Controller) Policy() core.Policy {
	return core.Policy{
		Health: heartbeat.Policy{
			Grace:        c.NodeMonitorGracePeriod,
			StartupGrace: c.NodeStartupGracePeriod,
			Renewal:      c.NodeRenewInterval,
		},
		Confirmation: confirm.Policy{
			LiveReads:              c.LiveLeaseReads,
			ReadsPerSecond:         c.LiveLeaseReadsPerSecond,
			Outage:                 c.OutageGrace,
			MassFailureMinNodes:    int(c.MassFailureMinNodes),
			MassFailureFraction:    c.MassFailureFraction,
			MassFailureWindow:      c.MassFailureWindow,
			MassFailureMaxDuration: c.MassFailureMaxDuration,
		},
		Zones: zones.Policy{
			Rate:          c.NodeEvictionRate,
			SecondaryRate: c.SecondaryNodeEvictionRate,
			FullRate:      c.FullyDisruptedRate,
			LargeZone:     int(c.LargeClusterSizeThreshold),
			Unhealthy:     c.UnhealthyZoneThreshold,
		},
		Agents: agents.Policy{Grace: c.AgentGrace},

		NoExecute:            c.TaintBasedEvictions,
		TaintEvictions:       c.TaintEvictions,
		LegacyEvictions:      !c.TaintBasedEvictions,
		PodEvictionTimeout:   c.PodEvictionTimeout,
		MaxAutonomy:          c.MaxAutonomyDuration,
		AgentAliveGrace:      c.AgentAliveGrace,
		MaxUnhealthy:         core.Bound{Set: c.MaxUnhealthy.Set, Nodes: int(c.MaxUnhealthy.Nodes), Percent: c.MaxUnhealthy.Share},
		MaxUnhealthyCooldown: c.MaxUnhealthyCooldown,
		PauseDisrupted:       c.PauseDisrupted,
		UntaintRate:          c.UntaintRate,
		EvictedPodTTL:        c.EvictedPodTTL,
	}
}
