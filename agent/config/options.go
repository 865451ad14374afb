package config

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// nodeOptions are the options of the node itself and of its thresholds.
var nodeOptions = []options.Option[Agent]{
	{Field: "evictionHard", Flag: "eviction-hard", Shape: options.LessMap, Map: func(c *Agent) *options.Map { return &c.EvictionHard },
		Default: "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%",
		Help:    "hard eviction thresholds; a pod is evicted at once when one is met. An empty value means none"},
	{Field: "evictionSoft", Flag: "eviction-soft", Shape: options.LessMap, Map: func(c *Agent) *options.Map { return &c.EvictionSoft },
		Help: "soft eviction thresholds; a pod is evicted when one was met for its grace period"},
	{Field: "evictionSoftGracePeriod", Flag: "eviction-soft-grace-period", Shape: options.EqualMap, Map: func(c *Agent) *options.Map { return &c.EvictionSoftGracePeriod },
		Help: "how long each soft threshold has to be met; required for every soft threshold, 0s makes it a hard one"},
	{Field: "evictionMinimumReclaim", Flag: "eviction-minimum-reclaim", Shape: options.EqualMap, Map: func(c *Agent) *options.Map { return &c.EvictionMinimumReclaim },
		Help: "how much more than a threshold must be available before it counts as unmet again"},
	{Field: "mergeDefaultEvictionSettings", Flag: "-", Shape: options.Boolean, Default: "false", Bool: func(c *Agent) *bool { return &c.MergeDefaultEvictionSettings },
		Help: "signals left out of evictionHard keep their default thresholds"},
	{Field: "evictionMaxPodGracePeriod", Flag: "eviction-max-pod-grace-period", Default: "0", Set: options.Integer(func(c *Agent) *int64 { return &c.EvictionMaxPodGracePeriod }),
		Help: "longest grace period in seconds for a soft eviction; negative defers to the pod's own"},
	{Field: "evictionPressureTransitionPeriod", Flag: "eviction-pressure-transition-period", Default: "5m", Set: options.Duration(func(c *Agent) *time.Duration { return &c.EvictionPressureTransitionPeriod }),
		Help: "how long a pressure condition stays True at least; 0s means 5m"},
	{Field: "enforceNodeAllocatable", Flag: "enforce-node-allocatable", Shape: options.List, Default: "pods", List: func(c *Agent) *[]string { return &c.EnforceNodeAllocatable },
		Help: "with pods in it, hard memory thresholds also bind allocatableMemory.available"},
	{Field: "kubeReserved", Flag: "kube-reserved", Shape: options.EqualMap, Map: func(c *Agent) *options.Map { return &c.KubeReserved },
		Help: "resources reserved for Kubernetes daemons, such as memory=500Mi"},
	{Field: "systemReserved", Flag: "system-reserved", Shape: options.EqualMap, Map: func(c *Agent) *options.Map { return &c.SystemReserved },
		Help: "resources reserved for the system, such as memory=500Mi"},
	{Field: "localStorageCapacityIsolation", Flag: "local-storage-capacity-isolation", Shape: options.Boolean, Default: "true", Bool: func(c *Agent) *bool { return &c.LocalStorageCapacityIsolation },
		Help: "whether pods are evicted above their local-storage limits at all; by whom says localStorageLimits"},
	{Field: "nodeCgroup", Flag: "node-cgroup", Default: "/", Set: options.String(func(c *Agent) *string { return &c.NodeCgroup }),
		Help: "the cgroup that is the node, relative to the mount of each controller; / is the machine"},
	{Field: "podManifests", Flag: "pod-manifests", Set: options.String(func(c *Agent) *string { return &c.PodManifests }),
		Help: "directory with the node's pods as core/v1 manifests; metadata.uid names a pod's cgroup"},
	{Field: "dryRun", Flag: "dry-run", Shape: options.Boolean, Default: "true", Bool: func(c *Agent) *bool { return &c.DryRun },
		Help: "start disarmed: decide and report, but touch nothing until plimsoll arm. false starts armed, whatever the doctor finds"},
	{Field: "disarmFile", Flag: "disarm-file", Default: "/run/plimsoll/disarm", Set: options.String(func(c *Agent) *string { return &c.DisarmFile }),
		Help: "while this file exists the agent touches nothing, whatever anybody says; SIGUSR1 makes it. Its directory should be one of memory, and of the host; empty: there is none"},
	{Field: "monitoringPeriod", Flag: "monitoring-period", Default: "10s", Set: options.Duration(func(c *Agent) *time.Duration { return &c.MonitoringPeriod }),
		Help: "time between two regular looks, which decide as the kubelet does"},
	{Field: "earlyEviction", Flag: "early-eviction", Default: "imminent", Set: earlyEviction,
		Help: "what a check between two periodic ones may do: imminent (evict only when memory would be exhausted within earlyEvictionHorizon), immediate (decide as a periodic check), never"},
	{Field: "kernelNotifications", Flag: "kernel-notifications", Default: "auto", Set: options.OneOf(func(c *Agent) *string { return &c.KernelNotifications }, "auto", "off"),
		Help: "whether the kernel may ask for a look between two that are due: auto watches whatever this kernel offers (memcg thresholds, memory.events, pressure stall information), off leaves it to the timer alone"},
	{Field: "earlyEvictionHorizon", Flag: "early-eviction-horizon", Default: "500ms", Set: options.Duration(func(c *Agent) *time.Duration { return &c.ReactionReserve }),
		Help: "exhaustion is imminent when memory would be gone sooner than this at its present rate"},
	{Field: "maxFillRate", Flag: "max-fill-rate", Default: "0", Set: fillRate,
		Help: "fastest credible rate at which memory fills, in bytes per second, such as 8Gi; 0 means 2Gi for every processor, 4Gi at least"},
	{Field: "stateFile", Flag: "state-file", Default: "/var/lib/plimsoll/state.json", Set: options.String(func(c *Agent) *string { return &c.StateFile }),
		Help: "where timers, conditions and min-reclaim state survive a restart; empty keeps them in memory only"},
	{Field: "procRoot", Flag: "proc-root", Default: "/proc", Set: options.String(func(c *Agent) *string { return &c.ProcRoot }),
		Help: "where the host's /proc is mounted, such as /host/proc in a container"},
	{Field: "cgroupRoot", Flag: "cgroup-root", Default: "/sys/fs/cgroup", Set: options.String(func(c *Agent) *string { return &c.CgroupRoot }),
		Help: "where the host's cgroup file systems are mounted, such as /host/sys/fs/cgroup in a container"},
	{Field: "loggingFormat", Flag: "logging-format", Default: "text", Set: options.String(func(c *Agent) *string { return &c.LoggingFormat }),
		Help: "format of the log: text or json. Decisions are JSON lines in both"},
	{Field: "verbosity", Flag: "v", Default: "0", Set: options.Integer(func(c *Agent) *int64 { return &c.Verbosity }),
		Help: "verbosity of the log; from 2 on regular looks that led to nothing are told too"},
}

func earlyEviction(c *Agent, text string) (problem string) {
	choice, err := eviction.ParseExtraLooks(text)
	if err != nil {
		return err.Error()
	}
	c.ExtraLooks = choice
	return ""
}

func fillRate(c *Agent, text string) (problem string) {
	q, err := strictyaml.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		return "must be a quantity of bytes per second that is not negative, such as 8Gi"
	}
	c.MaxFillRate = signals.Bytes(strictyaml.Whole(q))
	return ""
}
