package config

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// A shape is how an option's value is written.
type shape uint8

const (
	text shape = iota
	boolean
	list
	lessMap  // key<value on the command line
	equalMap // key=value on the command line
	gateMap  // key=true or key=false on the command line
)

// An option is one line of the table: its field in the file, its flag ("-" for
// none), its default and what it is for. Exactly one of the set functions is
// given, by shape. C is the configuration that it belongs to.
type option[C any] struct {
	field, flag string
	shape       shape
	preset      string
	help        string

	setText func(c *C, text string) (problem string)
	setBool func(c *C) *bool
	setList func(c *C) *[]string
	setMap  func(c *C) *Map
}

// nodeOptions are those of the node itself and of its thresholds.
var nodeOptions = []option[Agent]{
	{field: "evictionHard", flag: "eviction-hard", shape: lessMap, setMap: func(c *Agent) *Map { return &c.EvictionHard },
		preset: "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%",
		help:   "hard eviction thresholds; a pod is evicted at once when one is met. An empty value means none"},
	{field: "evictionSoft", flag: "eviction-soft", shape: lessMap, setMap: func(c *Agent) *Map { return &c.EvictionSoft },
		help: "soft eviction thresholds; a pod is evicted when one was met for its grace period"},
	{field: "evictionSoftGracePeriod", flag: "eviction-soft-grace-period", shape: equalMap, setMap: func(c *Agent) *Map { return &c.EvictionSoftGracePeriod },
		help: "how long each soft threshold has to be met; required for every soft threshold, 0s makes it a hard one"},
	{field: "evictionMinimumReclaim", flag: "eviction-minimum-reclaim", shape: equalMap, setMap: func(c *Agent) *Map { return &c.EvictionMinimumReclaim },
		help: "how much more than a threshold must be available before it counts as unmet again"},
	{field: "mergeDefaultEvictionSettings", flag: "-", shape: boolean, preset: "false", setBool: func(c *Agent) *bool { return &c.MergeDefaultEvictionSettings },
		help: "signals left out of evictionHard keep their default thresholds"},
	{field: "evictionMaxPodGracePeriod", flag: "eviction-max-pod-grace-period", preset: "0", setText: number(func(c *Agent) *int64 { return &c.EvictionMaxPodGracePeriod }),
		help: "longest grace period in seconds for a soft eviction; negative defers to the pod's own"},
	{field: "evictionPressureTransitionPeriod", flag: "eviction-pressure-transition-period", preset: "5m", setText: duration(func(c *Agent) *time.Duration { return &c.EvictionPressureTransitionPeriod }),
		help: "how long a pressure condition stays True at least; 0s means 5m"},
	{field: "enforceNodeAllocatable", flag: "enforce-node-allocatable", shape: list, preset: "pods", setList: func(c *Agent) *[]string { return &c.EnforceNodeAllocatable },
		help: "with pods in it, hard memory thresholds also bind allocatableMemory.available"},
	{field: "kubeReserved", flag: "kube-reserved", shape: equalMap, setMap: func(c *Agent) *Map { return &c.KubeReserved },
		help: "resources reserved for Kubernetes daemons, such as memory=500Mi"},
	{field: "systemReserved", flag: "system-reserved", shape: equalMap, setMap: func(c *Agent) *Map { return &c.SystemReserved },
		help: "resources reserved for the system, such as memory=500Mi"},
	{field: "localStorageCapacityIsolation", flag: "local-storage-capacity-isolation", shape: boolean, preset: "true", setBool: func(c *Agent) *bool { return &c.LocalStorageCapacityIsolation },
		help: "whether pods are evicted above their local-storage limits at all; by whom says localStorageLimits"},
	{field: "nodeCgroup", flag: "node-cgroup", preset: "/", setText: str(func(c *Agent) *string { return &c.NodeCgroup }),
		help: "the cgroup that is the node, relative to the mount of each controller; / is the machine"},
	{field: "podManifests", flag: "pod-manifests", setText: str(func(c *Agent) *string { return &c.PodManifests }),
		help: "directory with the node's pods as core/v1 manifests; metadata.uid names a pod's cgroup"},
	{field: "dryRun", flag: "dry-run", shape: boolean, preset: "true", setBool: func(c *Agent) *bool { return &c.DryRun },
		help: "start disarmed: decide and report, but touch nothing until plimsoll arm. false starts armed, whatever the doctor finds"},
	{field: "disarmFile", flag: "disarm-file", preset: "/run/plimsoll/disarm", setText: str(func(c *Agent) *string { return &c.DisarmFile }),
		help: "while this file exists the agent touches nothing, whatever anybody says; SIGUSR1 makes it. Its directory should be one of memory, and of the host; empty: there is none"},
	{field: "monitoringPeriod", flag: "monitoring-period", preset: "10s", setText: duration(func(c *Agent) *time.Duration { return &c.MonitoringPeriod }),
		help: "time between two regular looks, which decide as the kubelet does"},
	{field: "earlyEviction", flag: "early-eviction", preset: "imminent", setText: earlyEviction,
		help: "what a check between two periodic ones may do: imminent (evict only when memory would be exhausted within earlyEvictionHorizon), immediate (decide as a periodic check), never"},
	{field: "notifications", flag: "notifications", preset: "auto", setText: oneOf(func(c *Agent) *string { return &c.Notifications }, "auto", "off"),
		help: "whether the kernel may ask for a look between two that are due: auto watches whatever this kernel offers (memcg thresholds, memory.events, pressure stall information), off leaves it to the timer alone"},
	{field: "earlyEvictionHorizon", flag: "early-eviction-horizon", preset: "500ms", setText: duration(func(c *Agent) *time.Duration { return &c.ReactionReserve }),
		help: "exhaustion is imminent when memory would be gone sooner than this at its present rate"},
	{field: "maxFillRate", flag: "max-fill-rate", preset: "0", setText: fillRate,
		help: "fastest credible rate at which memory fills, in bytes per second, such as 8Gi; 0 means 2Gi for every processor, 4Gi at least"},
	{field: "stateFile", flag: "state-file", preset: "/var/lib/plimsoll/state.json", setText: str(func(c *Agent) *string { return &c.StateFile }),
		help: "where timers, conditions and min-reclaim state survive a restart; empty keeps them in memory only"},
	{field: "procRoot", flag: "proc-root", preset: "/proc", setText: str(func(c *Agent) *string { return &c.ProcRoot }),
		help: "where the host's /proc is mounted, such as /host/proc in a container"},
	{field: "cgroupRoot", flag: "cgroup-root", preset: "/sys/fs/cgroup", setText: str(func(c *Agent) *string { return &c.CgroupRoot }),
		help: "where the host's cgroup file systems are mounted, such as /host/sys/fs/cgroup in a container"},
	{field: "loggingFormat", flag: "logging-format", preset: "text", setText: str(func(c *Agent) *string { return &c.LoggingFormat }),
		help: "format of the log: text or json. Decisions are JSON lines in both"},
	{field: "verbosity", flag: "v", preset: "0", setText: number(func(c *Agent) *int64 { return &c.Verbosity }),
		help: "verbosity of the log; from 2 on regular looks that led to nothing are told too"},
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
