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
			StormNodes:     int(c.StormNodes),
			StormShare:     c.StormShare,
			StormWindow:    c.StormWindow,
			StormLongest:   c.StormLongest,
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
		AutonomyLongest:     c.AutonomyLongest,
		SecondOpinion:       c.SecondOpinion,
		MostUnhealthy:       core.Bound{Set: c.MaxUnhealthy.Set, Nodes: int(c.MaxUnhealthy.Nodes), Percent: c.MaxUnhealthy.Share},
		StormCooldown:       c.StormCooldown,
		PauseDisrupted:      c.PauseDisrupted,
		RecoveriesPerSecond: c.RecoveriesPerSecond,
		EvictedPodTTL:       c.EvictedPodTTL,
	}
}
