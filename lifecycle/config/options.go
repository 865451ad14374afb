package config

import (
	"strings"
	"time"

	"plimsoll.dev/plimsoll/internal/options"
)

var controllerEndpoints = options.EndpointOptions(func(c *Controller) *options.Endpoints { return &c.Endpoints })

// lifecycleOptions are the options of [Lifecycle]. The first ten are those of
// kube-controller-manager; the ones that it removed keep their last defaults.
var lifecycleOptions = []options.Option[Controller]{
	{Field: "nodeMonitorPeriod", Flag: "node-monitor-period", Default: "5s", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.NodeMonitorPeriod }),
		Help: "accepted and not used: deadlines replace scans"},
	{Field: "nodeMonitorGracePeriod", Flag: "node-monitor-grace-period", Default: "50s", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.NodeMonitorGracePeriod }),
		Help: "how long after its last sign of life a node is Unknown. It should span three renewals of the node's lease (nodeRenewInterval), or one that is lost makes a healthy node Unknown"},
	{Field: "nodeStartupGracePeriod", Flag: "node-startup-grace-period", Default: "1m", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.NodeStartupGracePeriod }),
		Help: "the same for a node that never reported the condition Ready"},
	{Field: "podEvictionTimeout", Flag: "pod-eviction-timeout", Default: "5m", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.PodEvictionTimeout }),
		Help: "without taints: how long a node is not ready or silent before its pods are deleted"},
	{Field: "enableTaintManager", Flag: "enable-taint-manager", Shape: options.Boolean, Default: "true", Bool: func(c *Controller) *bool { return &c.TaintEvictions },
		Help: "evict pods by NoExecute taints and tolerations"},
	{Field: "taintBasedEvictions", Flag: "taint-based-evictions", Shape: options.Boolean, Bool: func(c *Controller) *bool { return &c.TaintBasedEvictions },
		Help: "taint nodes NoExecute that are not ready or unreachable; if it is not given it is as enableTaintManager. If false, podEvictionTimeout decides"},
	{Field: "nodeEvictionRate", Flag: "node-eviction-rate", Default: "0.1", Set: options.Rate(func(c *Controller) *float64 { return &c.NodeEvictionRate }),
		Help: "nodes per second of one zone that are tainted NoExecute (without taints: emptied) while the zone is healthy"},
	{Field: "secondaryNodeEvictionRate", Flag: "secondary-node-eviction-rate", Default: "0.01", Set: options.Rate(func(c *Controller) *float64 { return &c.SecondaryNodeEvictionRate }),
		Help: "the same while a zone above largeClusterSizeThreshold is partially disrupted; a smaller one stops"},
	{Field: "largeClusterSizeThreshold", Flag: "large-cluster-size-threshold", Default: "50", Set: options.Count(func(c *Controller) *int64 { return &c.LargeClusterSizeThreshold }),
		Help: "nodes above which a zone is large"},
	{Field: "unhealthyZoneThreshold", Flag: "unhealthy-zone-threshold", Default: "0.55", Set: options.Ratio(func(c *Controller) *float64 { return &c.UnhealthyZoneThreshold }),
		Help: "share of nodes that are not ready, and more than two, from which on a zone is partially disrupted; 0: from three nodes on, above 1: never"},

	{Field: "fullyDisruptedRate", Flag: "fully-disrupted-rate", Set: options.OptionalRate(func(c *Controller) *float64 { return &c.FullyDisruptedRate }),
		Help: "nodeEvictionRate for a zone without any ready node while another zone has some; empty: as nodeEvictionRate. 0 is the careful choice: nothing is moved out of a zone that is cut off"},
	{Field: "maxUnhealthy", Flag: "max-unhealthy", Set: bound(func(c *Controller) *Bound { return &c.MaxUnhealthy }),
		Help: "while more nodes of the cluster than this are not ready, no node is tainted NoExecute and no eviction begins: a number, or a percentage such as 20%; empty: no bound"},
	{Field: "maxUnhealthyCooldown", Flag: "max-unhealthy-cooldown", Default: "0s", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.MaxUnhealthyCooldown }),
		Help: "how long that stays so after fewer are"},
	{Field: "pauseDisruptedZones", Flag: "pause-disrupted-zones", Shape: options.Boolean, Default: "false", Bool: func(c *Controller) *bool { return &c.PauseDisrupted },
		Help: "timers of pods that tolerate their node's taint for a time wait while their zone is disrupted"},

	{Field: "liveLeaseReads", Flag: "live-lease-reads", Shape: options.Boolean, Default: "true", Bool: func(c *Controller) *bool { return &c.LiveLeaseReads },
		Help: "ask the API server for the lease of a silent node before it is Unknown: a watch that lags is not a dead node"},
	{Field: "liveLeaseReadsPerSecond", Flag: "live-lease-reads-per-second", Default: "50", Set: options.Rate(func(c *Controller) *float64 { return &c.LiveLeaseReadsPerSecond }),
		Help: "how many of these reads are begun in a second; 0: not bounded"},
	{Field: "outageGrace", Flag: "outage-grace", Default: "40s", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.OutageGrace }),
		Help: "after the API server could not be reached no node is silent before this has passed: so long nodes may need to renew their leases again"},
	{Field: "massFailureMinNodes", Flag: "mass-failure-min-nodes", Default: "10", Set: options.Count(func(c *Controller) *int64 { return &c.MassFailureMinNodes }),
		Help: "the breaker opens when more nodes than this, and more than massFailureFraction of all, fall silent within massFailureWindow: while it is open no node becomes Unknown; 0: there is no breaker"},
	{Field: "massFailureFraction", Flag: "mass-failure-fraction", Default: "0.05", Set: options.Fraction(func(c *Controller) *float64 { return &c.MassFailureFraction }),
		Help: "see massFailureMinNodes; of all nodes"},
	{Field: "massFailureWindow", Flag: "mass-failure-window", Default: "20s", Set: options.PositiveDuration(func(c *Controller) *time.Duration { return &c.MassFailureWindow }),
		Help: "see massFailureMinNodes"},
	{Field: "massFailureMaxDuration", Flag: "mass-failure-max-duration", Default: "5m", Set: options.PositiveDuration(func(c *Controller) *time.Duration { return &c.MassFailureMaxDuration }),
		Help: "how long the breaker stays open at most; it closes sooner when live reads show that the nodes are dead"},
	{Field: "untaintRate", Flag: "untaint-rate", Default: "10", Set: options.Rate(func(c *Controller) *float64 { return &c.UntaintRate }),
		Help: "nodes per second that lose their NoExecute taints after the breaker was open; 0: all at once"},

	{Field: "agentAliveGrace", Flag: "agent-alive-grace", Default: "30m", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.AgentAliveGrace }),
		Help: "how long the lease of a living Plimsoll agent keeps the pods of a node whose kubelet is silent: it is Unknown and tainted NoSchedule, but not NoExecute; 0s: the agent is not asked"},
	{Field: "agentGrace", Flag: "agent-grace", Default: "40s", Set: options.PositiveDuration(func(c *Controller) *time.Duration { return &c.AgentGrace }),
		Help: "how long after the last renewal of its lease an agent is taken for dead"},
	{Field: "maxAutonomyDuration", Flag: "max-autonomy-duration", Default: "24h", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.MaxAutonomyDuration }),
		Help: "the longest time for which an unreachable node keeps its pods by its annotation plimsoll.dev/autonomy-duration or node.openyurt.io/autonomy-duration; 0s: the annotations are ignored"},
	{Field: "evictedPodTTL", Flag: "evicted-pod-ttl", Default: "1h", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.EvictedPodTTL }),
		Help: "how long the object of a pod is kept that the Plimsoll agent of its node evicted (it is Failed and has the condition plimsoll.dev/Evicted), before it is deleted; 0s: for ever"},
}

// processOptions are the options of [Process] and the feature gates.
var processOptions = []options.Option[Controller]{
	{Field: "mode", Flag: "mode", Default: Observe, Set: options.OneOf(func(c *Controller) *string { return &c.Mode }, Observe, Replace),
		Help: "observe (decide and tell, while kube-controller-manager acts) or replace (act; while another controller still writes, see conflictWindow, decisions are only told)"},
	{Field: "dryRun", Flag: "dry-run", Shape: options.Boolean, Default: "false", Bool: func(c *Controller) *bool { return &c.DryRun },
		Help: "write nothing but the lease by which a leader is elected, whatever the mode"},
	{Field: "nodeRenewInterval", Flag: "node-renew-interval", Default: "10s", Set: options.PositiveDuration(func(c *Controller) *time.Duration { return &c.NodeRenewInterval }),
		Help: "how often kubelets renew their leases: a quarter of the kubelet's nodeLeaseDurationSeconds"},
	{Field: "podEvictionMethod", Flag: "pod-eviction-method", Default: Delete, Set: options.OneOf(func(c *Controller) *string { return &c.PodEvictionMethod }, Delete, EvictThenDelete),
		Help: "delete (as upstream), or evict-then-delete: ask by policy/v1 Eviction, which respects PodDisruptionBudgets, and delete when podEvictionWait has passed"},
	{Field: "podEvictionWait", Flag: "pod-eviction-wait", Default: "2m", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.PodEvictionWait }),
		Help: "how long a PodDisruptionBudget may hold back an eviction that is due"},

	{Field: "kubeconfig", Flag: "kubeconfig", Set: options.String(func(c *Controller) *string { return &c.Kubeconfig }),
		Help: "how to reach the API server; empty: as a pod does"},
	{Field: "kubeAPIQPS", Flag: "kube-api-qps", Default: "100", Set: options.ClientQPS(func(c *Controller) *float64 { return &c.KubeAPIQPS }),
		Help: "requests per second; what protects (Unknown, taints, evictions) goes before what tidies. kube-controller-manager has 20 and 30 for each of its two controllers, which a dead zone of 1 000 nodes keeps busy for long. Negative: not bounded; 0: 5, as in client-go"},
	{Field: "kubeAPIBurst", Flag: "kube-api-burst", Default: "200", Set: options.ClientBurst(func(c *Controller) *int64 { return &c.KubeAPIBurst }),
		Help: "requests at once; 0: 10, as in client-go"},
	{Field: "featureGates", Flag: "feature-gates", Shape: options.GateMap, Map: func(c *Controller) *options.Map { return &c.FeatureGates },
		Help: "accepted and not used: what gates of kube-controller-manager's node controllers switch is always on here, or has a flag"},
	{Field: "eventQPS", Flag: "event-qps", Default: "20", Set: options.Rate(func(c *Controller) *float64 { return &c.EventQPS }),
		Help: "events per second, of a budget of their own; more are dropped and counted. 0: none are sent"},
	{Field: "conflictWindow", Flag: "conflict-window", Default: "10m", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.ConflictWindow }),
		Help: "in mode replace: how long another controller must not have written the condition Ready or the taints of any node before decisions are carried out; 0s: nobody looks"},
	{Field: "heartbeatNamespace", Flag: "heartbeat-namespace", Default: "plimsoll-system", Set: options.OptionalDNSLabel(func(c *Controller) *string { return &c.HeartbeatNamespace }),
		Help: "where the leases of the agents are; empty: nowhere, and there is no second opinion"},

	{Field: "leaderElect", Flag: "leader-elect", Shape: options.Boolean, Default: "true", Bool: func(c *Controller) *bool { return &c.LeaderElect },
		Help: "act only while holding the lease; the others keep their state up to date and take over"},
	{Field: "leaderElectLeaseDuration", Flag: "leader-elect-lease-duration", Default: "15s", Set: options.PositiveDuration(func(c *Controller) *time.Duration { return &c.LeaseDuration }),
		Help: "how long after its last renewal a leader is taken for dead"},
	{Field: "leaderElectRenewDeadline", Flag: "leader-elect-renew-deadline", Default: "10s", Set: options.PositiveDuration(func(c *Controller) *time.Duration { return &c.RenewDeadline }),
		Help: "how long a leader goes on trying to renew before it steps down"},
	{Field: "leaderElectRetryPeriod", Flag: "leader-elect-retry-period", Default: "2s", Set: options.PositiveDuration(func(c *Controller) *time.Duration { return &c.RetryPeriod }),
		Help: "how often the lease is renewed, and tried to be had"},
	{Field: "leaderElectResourceLock", Flag: "leader-elect-resource-lock", Default: "leases", Set: options.OneOf(func(c *Controller) *string { return &c.ResourceLock }, "leases"),
		Help: "the kind of object that is held; there is one"},
	{Field: "leaderElectResourceName", Flag: "leader-elect-resource-name", Default: "plimsoll-controller", Set: options.DNSLabel(func(c *Controller) *string { return &c.ResourceName }),
		Help: "the name of that lease"},
	{Field: "leaderElectResourceNamespace", Flag: "leader-elect-resource-namespace", Default: "plimsoll-system", Set: options.DNSLabel(func(c *Controller) *string { return &c.ResourceNamespace }),
		Help: "where that lease is"},

	{Field: "healthzBindAddress", Flag: "healthz-bind-address", Default: "127.0.0.1:10360", Set: options.ListenAddress(func(c *Controller) *string { return &c.HealthzBindAddress }),
		Help: "IP:PORT of /livez, /readyz, /metrics and /explain?node=NAME, beyond loopback by HTTPS and with tokens; empty: nowhere"},
	{Field: "loggingFormat", Flag: "logging-format", Default: "text", Set: options.OneOf(func(c *Controller) *string { return &c.LoggingFormat }, "text", "json"),
		Help: "format of the log: text or json. Decisions are JSON lines in both"},
	{Field: "verbosity", Flag: "v", Default: "0", Set: options.Count(func(c *Controller) *int64 { return &c.Verbosity }),
		Help: "verbosity of the log"},
}

// Bound limits a number of nodes, absolutely or as a share of all nodes. The zero
// value is no limit.
type Bound struct {
	Set   bool
	Nodes int64
	Share float64 // between 0 and 1; 0 if Nodes is the limit
}

// bound returns a setter for a number of nodes or a percentage of them. Empty is no
// limit.
func bound(of func(*Controller) *Bound) options.Setter[Controller] {
	return options.Checked(of, func(text string) (Bound, bool) {
		if text == "" {
			return Bound{}, true
		}
		if percent, is := strings.CutSuffix(text, "%"); is {
			f, ok := options.ParseNumber(percent)
			return Bound{Set: true, Share: f / 100}, ok && f > 0 && f <= 100
		}
		n, ok := options.ParseInteger(1)(text)
		return Bound{Set: true, Nodes: n}, ok
	}, "must be a whole number of nodes above 0, a percentage above 0% and at most 100%, or empty")
}
