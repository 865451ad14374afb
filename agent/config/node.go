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
	{Field: "evictionHard", Live: true, Flag: "eviction-hard", Shape: options.LessMap, Map: func(c *Agent) *options.Map { return &c.EvictionHard },
		Default: "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%",
		Help:    "Hard eviction thresholds. A pod is evicted at once when one is met. An empty value means none."},
	{Field: "evictionSoft", Live: true, Flag: "eviction-soft", Shape: options.LessMap, Map: func(c *Agent) *options.Map { return &c.EvictionSoft },
		Help: "Soft eviction thresholds. A pod is evicted when a threshold has been met for its grace period."},
	{Field: "evictionSoftGracePeriod", Live: true, Flag: "eviction-soft-grace-period", Shape: options.EqualMap, Map: func(c *Agent) *options.Map { return &c.EvictionSoftGracePeriod },
		Help: "Time for which each soft threshold must be met before a pod is evicted. Required for every soft threshold. 0s turns it into a hard threshold."},
	{Field: "evictionMinimumReclaim", Live: true, Flag: "eviction-minimum-reclaim", Shape: options.EqualMap, Map: func(c *Agent) *options.Map { return &c.EvictionMinimumReclaim },
		Help: "Amount beyond a threshold that must be available again before the threshold counts as cleared."},
	{Field: "mergeDefaultEvictionSettings", Live: true, Flag: "-", Shape: options.Boolean, Default: "false", Bool: func(c *Agent) *bool { return &c.MergeDefaultEvictionSettings },
		Help: "Signals that are absent from evictionHard keep their default thresholds."},
	{Field: "evictionMaxPodGracePeriod", Live: true, Flag: "eviction-max-pod-grace-period", Default: "0", Set: options.Integer(func(c *Agent) *int64 { return &c.EvictionMaxPodGracePeriod }),
		Help: "Maximum grace period of a soft eviction in seconds. Negative: the pod's own terminationGracePeriodSeconds."},
	{Field: "evictionPressureTransitionPeriod", Live: true, Flag: "eviction-pressure-transition-period", Default: "5m", Set: options.Duration(func(c *Agent) *time.Duration { return &c.EvictionPressureTransitionPeriod }),
		Help: "Minimum time for which a pressure condition stays True. 0s means 5m."},
	{Field: "enforceNodeAllocatable", Live: true, Flag: "enforce-node-allocatable", Shape: options.List, Default: "pods", List: func(c *Agent) *[]string { return &c.EnforceNodeAllocatable },
		Help: "Enforced levels of node allocatable. With pods, hard memory thresholds also apply to allocatableMemory.available."},
	{Field: "kubeReserved", Flag: "kube-reserved", Shape: options.EqualMap, Map: func(c *Agent) *options.Map { return &c.KubeReserved },
		Help: "Resources reserved for Kubernetes daemons, such as memory=500Mi."},
	{Field: "systemReserved", Flag: "system-reserved", Shape: options.EqualMap, Map: func(c *Agent) *options.Map { return &c.SystemReserved },
		Help: "Resources reserved for the system, such as memory=500Mi."},
	{Field: "localStorageCapacityIsolation", Live: true, Flag: "local-storage-capacity-isolation", Shape: options.Boolean, Default: "true", Bool: func(c *Agent) *bool { return &c.LocalStorageCapacityIsolation },
		Help: "Enforce local-storage limits of pods at all. localStorageLimits selects whether the agent or the kubelet does it."},
	{Field: "nodeCgroup", Flag: "node-cgroup", Default: "/", Set: options.String(func(c *Agent) *string { return &c.NodeCgroup }),
		Help: "Cgroup that represents the node, relative to the mount point of each controller. /: the whole machine."},
	{Field: "podManifests", Flag: "pod-manifests", Set: options.String(func(c *Agent) *string { return &c.PodManifests }),
		Help: "Directory with core/v1 manifests of the pods of the node. metadata.uid names the cgroup of a pod."},
	{Field: "dryRun", Flag: "dry-run", Shape: options.Boolean, Default: "true", Bool: func(c *Agent) *bool { return &c.DryRun },
		Help: "Start disarmed: decide and report, but change nothing until `plimsoll arm`. false: start armed, even if the doctor finds errors."},
	{Field: "disarmFile", Flag: "disarm-file", Default: "/run/plimsoll/disarm", Set: options.String(func(c *Agent) *string { return &c.DisarmFile }),
		Help: "While this file exists the agent changes nothing, regardless of other settings. SIGUSR1 creates it. It should lie on a tmpfs of the host. Empty: no such file."},
	{Field: "monitoringPeriod", Flag: "monitoring-period", Default: "10s", Set: options.Duration(func(c *Agent) *time.Duration { return &c.MonitoringPeriod }),
		Help: "Interval between periodic checks, which decide as the kubelet does."},
	{Field: "evictionChoice", Live: true, Flag: "eviction-choice", Default: "helps", Set: parsed(func(c *Agent) *eviction.Choice { return &c.EvictionChoice }, eviction.ParseChoice),
		Help: "Pod to evict: helps or kubelet. helps: the first of the ranking that frees 5 % of the shortage (at least 1Mi, one inode or one PID), or all of it. For disks, no pod is evicted if all together would free less than the shortage. kubelet: the first of the ranking."},
	{Field: "earlyEviction", Live: true, Flag: "early-eviction", Default: "imminent", Set: parsed(func(c *Agent) *eviction.EarlyEviction { return &c.EarlyEviction }, eviction.ParseEarlyEviction),
		Help: "Evictions between two periodic checks: imminent (only when memory would be exhausted within earlyEvictionHorizon), immediate (decide as in a periodic check) or never."},
	{Field: "kernelNotifications", Flag: "kernel-notifications", Default: "auto", Set: options.OneOf(func(c *Agent) *string { return &c.KernelNotifications }, "auto", "off"),
		Help: "Kernel notifications that trigger a check before it is due: auto or off (timer only). With auto these are memory.events and pressure stall information, on cgroup v1 memcg thresholds, as the kernel offers them."},
	{Field: "earlyEvictionHorizon", Live: true, Flag: "early-eviction-horizon", Default: "500ms", Set: options.Duration(func(c *Agent) *time.Duration { return &c.EarlyEvictionHorizon }),
		Help: "Exhaustion is imminent when memory would be used up within this time at its present rate."},
	{Field: "maxFillRate", Live: true, Flag: "max-fill-rate", Default: "0", Set: fillRate,
		Help: "Maximum credible rate at which memory fills, in bytes per second, such as 8Gi. 0: 2Gi per processor, at least 4Gi."},
	{Field: "stateFile", Flag: "state-file", Default: "/var/lib/plimsoll/state.json", Set: options.String(func(c *Agent) *string { return &c.StateFile }),
		Help: "File in which timers, conditions and minimum-reclaim state survive a restart. Empty: kept in memory only."},
	{Field: "recordingDir", Flag: "recording-dir", Set: options.String(func(c *Agent) *string { return &c.RecordingDir }),
		Help: "Directory on a disk of the node for the recording of checks, usage and decisions. No other agent may record there. Empty: nothing is recorded."},
	{Field: "recordingSize", Flag: "recording-size", Default: "64Mi", Set: ringSize(func(c *Agent) *signals.Bytes { return &c.RecordingSize }),
		Help: "Maximum size of the recording in bytes, from 16Mi to 1Gi. The oldest part is removed when it is reached."},
	{Field: "decisionLogDir", Flag: "decision-log-dir", Set: options.String(func(c *Agent) *string { return &c.DecisionLogDir }),
		Help: "Directory on a disk of the node for the last lines of the decision log, which outlive the recording. It must not be that of the recording or of another agent. Empty: no line is stored."},
	{Field: "decisionLogSize", Flag: "decision-log-size", Default: "16Mi", Set: ringSize(func(c *Agent) *signals.Bytes { return &c.DecisionLogSize }),
		Help: "Maximum size of the stored decision log in bytes, from 16Mi to 1Gi. The oldest part is removed when it is reached."},
	{Field: "procRoot", Flag: "proc-root", Default: "/proc", Set: options.String(func(c *Agent) *string { return &c.ProcRoot }),
		Help: "Mount point of the host's /proc, such as /host/proc in a container."},
	{Field: "cgroupRoot", Flag: "cgroup-root", Default: "/sys/fs/cgroup", Set: options.String(func(c *Agent) *string { return &c.CgroupRoot }),
		Help: "Mount point of the host's cgroup filesystems, such as /host/sys/fs/cgroup in a container."},
	{Field: "loggingFormat", Flag: "logging-format", Default: "text", Set: options.String(func(c *Agent) *string { return &c.LoggingFormat }),
		Help: "Format of the log: text or json. Decisions are JSON lines in both."},
	{Field: "verbosity", Live: true, Flag: "v", Default: "0", Set: options.Integer(func(c *Agent) *int64 { return &c.Verbosity }),
		Help: "Log verbosity. From 2 on, periodic checks without a result are logged too."},
}

// parsed returns a setter that stores what parse returns, or returns its error as the problem.
func parsed[T any](of func(*Agent) *T, parse func(text string) (T, error)) options.Setter[Agent] {
	return func(c *Agent, text string) (problem string) {
		value, err := parse(text)
		if err != nil {
			return err.Error()
		}
		*of(c) = value
		return ""
	}
}

// MinRecordingSize is the minimum of [Agent.RecordingSize] and [Agent.DecisionLogSize].
const MinRecordingSize = signals.Bytes(16 << 20)

// maxRecordingSize is two months of a node with 110 pods. The commands read a recording at once.
const maxRecordingSize = signals.Bytes(1 << 30)

// ringSize returns a setter for the size of a directory of segments.
func ringSize(of func(*Agent) *signals.Bytes) options.Setter[Agent] {
	return func(c *Agent, text string) (problem string) {
		q, err := strictyaml.ParseQuantity(text)
		size := signals.Bytes(strictyaml.Whole(q))
		if err != nil || size < MinRecordingSize || size > maxRecordingSize {
			return "must be a quantity of bytes between 16Mi and 1Gi, such as 64Mi"
		}
		*of(c) = size
		return ""
	}
}

func fillRate(c *Agent, text string) (problem string) {
	q, err := strictyaml.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		return "must be a quantity of bytes per second that is not negative, such as 8Gi"
	}
	c.MaxFillRate = signals.Bytes(strictyaml.Whole(q))
	return ""
}
