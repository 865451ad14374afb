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
		Evidence: confirm.Policy{
			LiveReads:      c.LiveLeaseReads,
			ReadsPerSecond: c.LiveLeaseReadsPerSecond,
			Outage:         c.OutageGrace,
			StormNodes:     int(c.MassFailureMinNodes),
			StormShare:     c.MassFailureFraction,
			StormWindow:    c.MassFailureWindow,
			StormLongest:   c.MassFailureMaxDuration,
		},
		Zones: zones.Policy{
			Rate:          c.NodeEvictionRate,
			SecondaryRate: c.SecondaryNodeEvictionRate,
			FullRate:      c.FullyDisruptedRate,
			LargeZone:     int(c.LargeClusterSizeThreshold),
			Unhealthy:     c.UnhealthyZoneThreshold,
		},
		Agents: agents.Policy{Grace: c.AgentGrace},

		NoExecute:           c.TaintBasedEvictions,
		TaintEvictions:      c.TaintEvictions,
		LegacyEvictions:     !c.TaintBasedEvictions,
		PodEvictionTimeout:  c.PodEvictionTimeout,
		AutonomyLongest:     c.MaxAutonomyDuration,
		SecondOpinion:       c.AgentAliveGrace,
		MostUnhealthy:       core.Bound{Set: c.MaxUnhealthy.Set, Nodes: int(c.MaxUnhealthy.Nodes), Percent: c.MaxUnhealthy.Share},
		StormCooldown:       c.MaxUnhealthyCooldown,
		PauseDisrupted:      c.PauseDisrupted,
		RecoveriesPerSecond: c.UntaintRate,
		EvictedPodTTL:       c.EvictedPodTTL,
	}
}
