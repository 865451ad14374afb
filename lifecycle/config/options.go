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
	{Field: "nodeMonitorPeriod", Live: true, Flag: "node-monitor-period", Default: "5s", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.NodeMonitorPeriod }),
		Help: "Accepted for compatibility and unused: deadlines replace periodic scans."},
	{Field: "nodeMonitorGracePeriod", Live: true, Flag: "node-monitor-grace-period", Default: "50s", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.NodeMonitorGracePeriod }),
		Help: "Time after the last heartbeat of a node until its Ready condition becomes Unknown. It should cover three renewals of the node lease (nodeRenewInterval)."},
	{Field: "nodeStartupGracePeriod", Live: true, Flag: "node-startup-grace-period", Default: "1m", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.NodeStartupGracePeriod }),
		Help: "Time after its creation until a node that never reported the condition Ready becomes Unknown."},
	{Field: "podEvictionTimeout", Live: true, Flag: "pod-eviction-timeout", Default: "5m", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.PodEvictionTimeout }),
		Help: "Without taint-based evictions: time for which a node is unready or unreachable before its pods are deleted."},
	{Field: "enableTaintManager", Flag: "enable-taint-manager", Shape: options.Boolean, Default: "true", Bool: func(c *Controller) *bool { return &c.TaintEvictions },
		Help: "Evict pods according to NoExecute taints and tolerations."},
	{Field: "taintBasedEvictions", Flag: "taint-based-evictions", Shape: options.Boolean, Bool: func(c *Controller) *bool { return &c.TaintBasedEvictions },
		Help: "Taint unready and unreachable nodes NoExecute. Default: the value of enableTaintManager. If false, podEvictionTimeout applies."},
	{Field: "nodeEvictionRate", Live: true, Flag: "node-eviction-rate", Default: "0.1", Set: options.Rate(func(c *Controller) *float64 { return &c.NodeEvictionRate }),
		Help: "Nodes per second of one healthy zone that are tainted NoExecute, or emptied without taint-based evictions."},
	{Field: "secondaryNodeEvictionRate", Live: true, Flag: "secondary-node-eviction-rate", Default: "0.01", Set: options.Rate(func(c *Controller) *float64 { return &c.SecondaryNodeEvictionRate }),
		Help: "Nodes per second that are tainted NoExecute in a partially disrupted zone with more nodes than largeClusterSizeThreshold. Smaller zones stop."},
	{Field: "largeClusterSizeThreshold", Live: true, Flag: "large-cluster-size-threshold", Default: "50", Set: options.Count(func(c *Controller) *int64 { return &c.LargeClusterSizeThreshold }),
		Help: "Number of nodes above which a zone counts as large."},
	{Field: "unhealthyZoneThreshold", Live: true, Flag: "unhealthy-zone-threshold", Default: "0.55", Set: options.Ratio(func(c *Controller) *float64 { return &c.UnhealthyZoneThreshold }),
		Help: "Fraction of unready nodes, at least three, from which on a zone is partially disrupted. 0: three unready nodes are enough. Above 1: never."},

	{Field: "fullyDisruptedRate", Live: true, Flag: "fully-disrupted-rate", Set: options.OptionalRate(func(c *Controller) *float64 { return &c.FullyDisruptedRate }),
		Help: "Nodes per second that are tainted NoExecute in a zone without any ready node while another zone has some. Empty: nodeEvictionRate. 0 moves nothing out of a zone that is cut off."},
	{Field: "maxUnhealthy", Live: true, Flag: "max-unhealthy", Set: bound(func(c *Controller) *Bound { return &c.MaxUnhealthy }),
		Help: "Number, or percentage such as 20%, of unready nodes in the cluster above which no node is tainted NoExecute and no eviction begins. Empty: no limit."},
	{Field: "maxUnhealthyCooldown", Live: true, Flag: "max-unhealthy-cooldown", Default: "0s", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.MaxUnhealthyCooldown }),
		Help: "Time for which maxUnhealthy keeps blocking evictions after the number of unready nodes drops below it."},
	{Field: "pauseDisruptedZones", Live: true, Flag: "pause-disrupted-zones", Shape: options.Boolean, Default: "false", Bool: func(c *Controller) *bool { return &c.PauseDisrupted },
		Help: "Pause the toleration timers of pods while the zone of their node is disrupted."},

	{Field: "liveLeaseReads", Live: true, Flag: "live-lease-reads", Shape: options.Boolean, Default: "true", Bool: func(c *Controller) *bool { return &c.LiveLeaseReads },
		Help: "Read the lease of a node from the API server before the node becomes Unknown. Without that read, a delayed watch looks like a dead node."},
	{Field: "liveLeaseReadsPerSecond", Live: true, Flag: "live-lease-reads-per-second", Default: "50", Set: options.Rate(func(c *Controller) *float64 { return &c.LiveLeaseReadsPerSecond }),
		Help: "Maximum rate of live lease reads. 0: no limit."},
	{Field: "outageGrace", Live: true, Flag: "outage-grace", Default: "40s", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.OutageGrace }),
		Help: "Time after an outage of the API server during which no node is considered to have missed its heartbeat. Nodes need it to renew their leases."},
	{Field: "massFailureMinNodes", Live: true, Flag: "mass-failure-min-nodes", Default: "10", Set: options.Count(func(c *Controller) *int64 { return &c.MassFailureMinNodes }),
		Help: "Number of nodes above which the breaker opens, if their heartbeats are lost within massFailureWindow. While the breaker is open no node becomes Unknown. 0: no breaker."},
	{Field: "massFailureFraction", Live: true, Flag: "mass-failure-fraction", Default: "0.05", Set: options.Fraction(func(c *Controller) *float64 { return &c.MassFailureFraction }),
		Help: "Fraction of all nodes above which the breaker opens, if their heartbeats are lost within massFailureWindow. massFailureMinNodes must be exceeded too."},
	{Field: "massFailureWindow", Live: true, Flag: "mass-failure-window", Default: "20s", Set: options.PositiveDuration(func(c *Controller) *time.Duration { return &c.MassFailureWindow }),
		Help: "Time window in which lost heartbeats count towards massFailureMinNodes and massFailureFraction."},
	{Field: "massFailureMaxDuration", Live: true, Flag: "mass-failure-max-duration", Default: "5m", Set: options.PositiveDuration(func(c *Controller) *time.Duration { return &c.MassFailureMaxDuration }),
		Help: "Maximum time for which the breaker stays open. It closes earlier when live reads show that the nodes are dead."},
	{Field: "untaintRate", Live: true, Flag: "untaint-rate", Default: "10", Set: options.Rate(func(c *Controller) *float64 { return &c.UntaintRate }),
		Help: "Nodes per second that lose their NoExecute taints after the breaker was open. 0: all at once."},

	{Field: "agentAliveGrace", Live: true, Flag: "agent-alive-grace", Default: "30m", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.AgentAliveGrace }),
		Help: "Time for which the lease of a living Plimsoll agent protects the pods of a node with an unreachable kubelet. The node is Unknown and tainted NoSchedule, but not NoExecute. 0s: never."},
	{Field: "agentGrace", Live: true, Flag: "agent-grace", Default: "40s", Set: options.PositiveDuration(func(c *Controller) *time.Duration { return &c.AgentGrace }),
		Help: "Time after the last renewal of its lease until an agent counts as dead."},
	{Field: "maxAutonomyDuration", Live: true, Flag: "max-autonomy-duration", Default: "24h", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.MaxAutonomyDuration }),
		Help: "Maximum time for which an unreachable node keeps its pods because of its annotation plimsoll.dev/autonomy-duration or node.openyurt.io/autonomy-duration. 0s: the annotations are ignored."},
	{Field: "evictedPodTTL", Live: true, Flag: "evicted-pod-ttl", Default: "1h", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.EvictedPodTTL }),
		Help: "Time for which the object of a pod evicted by the Plimsoll agent of its node is kept before it is deleted. Such a pod is Failed and has the condition plimsoll.dev/Evicted. 0s: for ever."},
}

// processOptions are the options of [Process] and the feature gates.
var processOptions = []options.Option[Controller]{
	{Field: "mode", Flag: "mode", Default: Observe, Set: options.OneOf(func(c *Controller) *string { return &c.Mode }, Observe, Replace),
		Help: "observe (decide and report, while kube-controller-manager acts) or replace (act). In replace, decisions are only reported while another controller still writes; conflictWindow applies."},
	{Field: "dryRun", Flag: "dry-run", Shape: options.Boolean, Default: "false", Bool: func(c *Controller) *bool { return &c.DryRun },
		Help: "Write nothing but the leader lease, whatever the mode."},
	{Field: "nodeRenewInterval", Live: true, Flag: "node-renew-interval", Default: "10s", Set: options.PositiveDuration(func(c *Controller) *time.Duration { return &c.NodeRenewInterval }),
		Help: "Interval at which kubelets renew their leases: a quarter of the kubelet's nodeLeaseDurationSeconds."},
	{Field: "podEvictionMethod", Flag: "pod-eviction-method", Default: Delete, Set: options.OneOf(func(c *Controller) *string { return &c.PodEvictionMethod }, Delete, EvictThenDelete),
		Help: "delete (as kube-controller-manager), or evict-then-delete: request a policy/v1 Eviction, which respects PodDisruptionBudgets, and delete after podEvictionWait."},
	{Field: "podEvictionWait", Flag: "pod-eviction-wait", Default: "2m", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.PodEvictionWait }),
		Help: "Maximum time for which a PodDisruptionBudget may delay a due eviction."},

	{Field: "kubeconfig", Flag: "kubeconfig", Set: options.String(func(c *Controller) *string { return &c.Kubeconfig }),
		Help: "Path of the kubeconfig for the API server. Empty: the service account of the pod."},
	{Field: "kubeAPIQPS", Flag: "kube-api-qps", Default: "100", Set: options.ClientQPS(func(c *Controller) *float64 { return &c.KubeAPIQPS }),
		Help: "Maximum requests per second to the API server. Conditions, taints and evictions take precedence over cleanup. Negative: no limit. 0: 5, as in client-go."},
	{Field: "kubeAPIBurst", Flag: "kube-api-burst", Default: "200", Set: options.ClientBurst(func(c *Controller) *int64 { return &c.KubeAPIBurst }),
		Help: "Maximum burst of requests to the API server. 0: 10, as in client-go."},
	{Field: "featureGates", Flag: "feature-gates", Shape: options.GateMap, Map: func(c *Controller) *options.Map { return &c.FeatureGates },
		Help: "Accepted for compatibility and unused. The behaviour behind the gates of kube-controller-manager's node controllers is always on, or has a flag."},
	{Field: "eventQPS", Flag: "event-qps", Default: "20", Set: options.Rate(func(c *Controller) *float64 { return &c.EventQPS }),
		Help: "Maximum events per second, independent of kubeAPIQPS. Further events are dropped and counted. 0: no events."},
	{Field: "conflictWindow", Flag: "conflict-window", Default: "10m", Set: options.NonNegativeDuration(func(c *Controller) *time.Duration { return &c.ConflictWindow }),
		Help: "In mode replace: time without a write of another controller to the condition Ready or the taints of any node before decisions are carried out. 0s: no such check."},
	{Field: "heartbeatNamespace", Flag: "heartbeat-namespace", Default: "plimsoll-system", Set: options.OptionalDNSLabel(func(c *Controller) *string { return &c.HeartbeatNamespace }),
		Help: "Namespace of the leases of the agents. Empty: agents are not consulted."},
	{Field: "evictionRecordNamespace", Flag: "eviction-record-namespace", Default: "plimsoll-evictions", Set: options.OptionalDNSLabel(func(c *Controller) *string { return &c.EvictionRecordNamespace }),
		Help: "Namespace of the agents' records of evictions. Those of nodes that are gone are deleted after 30 days, in any mode, and beyond 1000 nodes. Empty: never."},

	{Field: "leaderElect", Flag: "leader-elect", Shape: options.Boolean, Default: "true", Bool: func(c *Controller) *bool { return &c.LeaderElect },
		Help: "Act only while holding the leader lease. Other replicas keep their state up to date and take over."},
	{Field: "leaderElectLeaseDuration", Flag: "leader-elect-lease-duration", Default: "15s", Set: options.PositiveDuration(func(c *Controller) *time.Duration { return &c.LeaseDuration }),
		Help: "Time after the last renewal of the leader lease until another replica may take it over."},
	{Field: "leaderElectRenewDeadline", Flag: "leader-elect-renew-deadline", Default: "10s", Set: options.PositiveDuration(func(c *Controller) *time.Duration { return &c.RenewDeadline }),
		Help: "Time for which a leader retries to renew its lease before it steps down."},
	{Field: "leaderElectRetryPeriod", Flag: "leader-elect-retry-period", Default: "2s", Set: options.PositiveDuration(func(c *Controller) *time.Duration { return &c.RetryPeriod }),
		Help: "Interval between attempts to acquire or renew the leader lease."},
	{Field: "leaderElectResourceLock", Flag: "leader-elect-resource-lock", Default: "leases", Set: options.OneOf(func(c *Controller) *string { return &c.ResourceLock }, "leases"),
		Help: "Kind of the lock object. Only leases is supported."},
	{Field: "leaderElectResourceName", Flag: "leader-elect-resource-name", Default: "plimsoll-controller", Set: options.DNSLabel(func(c *Controller) *string { return &c.ResourceName }),
		Help: "Name of the leader lease."},
	{Field: "leaderElectResourceNamespace", Flag: "leader-elect-resource-namespace", Default: "plimsoll-system", Set: options.DNSLabel(func(c *Controller) *string { return &c.ResourceNamespace }),
		Help: "Namespace of the leader lease."},

	{Field: "healthzBindAddress", Flag: "healthz-bind-address", Default: "127.0.0.1:10360", Set: options.ListenAddress(func(c *Controller) *string { return &c.HealthzBindAddress }),
		Help: "IP:PORT of /livez, /readyz, /metrics and /explain?node=NAME. Beyond loopback they are served over HTTPS with token authentication. Empty: not served."},
	{Field: "loggingFormat", Flag: "logging-format", Default: "text", Set: options.OneOf(func(c *Controller) *string { return &c.LoggingFormat }, "text", "json"),
		Help: "Format of the log: text or json. Decisions are JSON lines in both."},
	{Field: "verbosity", Live: true, Flag: "v", Default: "0", Set: options.Count(func(c *Controller) *int64 { return &c.Verbosity }),
		Help: "Log verbosity."},
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
