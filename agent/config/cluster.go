package config

import (
	"fmt"
	"path/filepath"
	"time"

	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// clusterOptions are the options of [Cluster].
var clusterOptions = []options.Option[Agent]{
	{Field: "kubeconfig", Flag: "kubeconfig", Set: options.String(func(c *Agent) *string { return &c.Kubeconfig }),
		Help: "Path of the kubeconfig for the API server. Empty: the service account of the pod, if there is one, else no API server."},
	{Field: "nodeName", Flag: "hostname-override", Set: options.String(func(c *Agent) *string { return &c.NodeName }),
		Help: "Name of the Node object. Empty: the environment variable NODE_NAME, else the hostname of the node."},
	{Field: "containerRuntimeEndpoint", Flag: "container-runtime-endpoint", Set: options.String(func(c *Agent) *string { return &c.ContainerRuntimeEndpoint }),
		Help: "Socket of the container runtime, such as unix:///run/containerd/containerd.sock. Empty: the first usual path that exists. none: no runtime."},
	{Field: "runtimeRequestTimeout", Flag: "runtime-request-timeout", Default: "2m", Set: options.Duration(func(c *Agent) *time.Duration { return &c.RuntimeRequestTimeout }),
		Help: "Timeout of one request to the container runtime."},
	{Field: "statsProvider", Flag: "stats-provider", Default: "cgroup", Set: options.OneOf(func(c *Agent) *string { return &c.StatsProvider }, "cgroup", "cri", "cadvisor"),
		Help: "Source of the memory and process counts of pods. cgroup: kernel files, read on demand. cri: the container runtime, once per monitoring period. cadvisor: cAdvisor in the agent, once per monitoring period."},
	{Field: "hostRoot", Flag: "host-root", Default: "/", Set: options.String(func(c *Agent) *string { return &c.HostRoot }),
		Help: "Mount point of the root directory of the host, such as /host in a container. Prefix of rootDir, podLogsDir, kubeletConfig, the runtime socket and its disks."},
	{Field: "rootDir", Flag: "root-dir", Default: "/var/lib/kubelet", Set: options.String(func(c *Agent) *string { return &c.RootDir }),
		Help: "Directory of the kubelet. Its filesystem is nodefs and it holds the volumes of pods."},
	{Field: "podLogsDir", Flag: "pod-logs-dir", Default: "/var/log/pods", Set: options.String(func(c *Agent) *string { return &c.PodLogsDir }),
		Help: "Directory of the logs of pods."},
	{Field: "kubeletConfig", Flag: "kubelet-config", Default: "/var/lib/kubelet/config.yaml", Set: options.String(func(c *Agent) *string { return &c.KubeletConfig }),
		Help: "Configuration file of the kubelet, read to detect what the kubelet reports and enforces itself. A directory is the drop-in directory of a kubelet without such a file, as in k3s. The file is optional."},
	{Field: "kubeletCgroupRoot", Flag: "kubelet-cgroup-root", Set: options.String(func(c *Agent) *string { return &c.KubeletCgroupRoot }),
		Help: "Cgroup below which the kubelet creates the cgroups of pods (cgroupRoot of the kubelet), such as /kubelet. Empty: detected from the configuration and command line of the kubelet."},
	{Field: "volumeStatsAggPeriod", Flag: "volume-stats-agg-period", Default: "1m", Set: options.Duration(func(c *Agent) *time.Duration { return &c.VolumeStatsAggPeriod }),
		Help: "Interval between measurements of the disk usage of pods for local-storage limits. Negative: never."},
	{Field: "localStorageLimits", Live: true, Flag: "local-storage-limits", Default: "auto", Set: options.OneOf(func(c *Agent) *string { return &c.LocalStorageLimits }, "auto", "on", "off"),
		Help: "Eviction of pods above their local-storage limits: auto (only where no kubelet does it), on, or off."},
	{Field: "softEviction", Flag: "soft-eviction", Default: "status", Set: options.OneOf(func(c *Agent) *string { return &c.SoftEviction }, "status", "direct"),
		Help: "Method to request a soft eviction. status: a condition of the pod that plimsoll controller acts on. direct: the agent posts the Eviction, which needs a right on all pods."},

	{Field: "garbageCollection", Flag: "garbage-collection", Default: "auto", Set: options.OneOf(func(c *Agent) *string { return &c.GarbageCollection }, "auto", "on", "off"),
		Help: "Collection of dead containers and unused images by the agent: auto (only where no kubelet runs), on, or off."},
	{Field: "imageGCHighThresholdPercent", Flag: "image-gc-high-threshold", Default: "85", Set: options.Integer(func(c *Agent) *int64 { return &c.ImageGCHighThresholdPercent }),
		Help: "Usage of the image filesystem in percent from which on unused images are collected. 100: never."},
	{Field: "imageGCLowThresholdPercent", Flag: "image-gc-low-threshold", Default: "80", Set: options.Integer(func(c *Agent) *int64 { return &c.ImageGCLowThresholdPercent }),
		Help: "Usage of the image filesystem in percent down to which unused images are collected."},
	{Field: "imageMinimumGCAge", Flag: "minimum-image-ttl-duration", Default: "2m", Set: options.Duration(func(c *Agent) *time.Duration { return &c.ImageMinimumGCAge }),
		Help: "Minimum time since an image was first seen before it is collected."},
	{Field: "imageMaximumGCAge", Flag: "image-maximum-gc-age", Default: "0s", Set: options.Duration(func(c *Agent) *time.Duration { return &c.ImageMaximumGCAge }),
		Help: "Time without use after which an image is collected even if there is free space. 0s: never."},
	{Field: "minimumContainerTTLDuration", Flag: "minimum-container-ttl-duration", Default: "0s", Set: options.Duration(func(c *Agent) *time.Duration { return &c.MinimumContainerTTLDuration }),
		Help: "Minimum age of a dead container before it is collected."},
	{Field: "maximumDeadContainersPerContainer", Flag: "maximum-dead-containers-per-container", Default: "1", Set: options.Integer(func(c *Agent) *int64 { return &c.MaximumDeadContainersPerContainer }),
		Help: "Number of dead instances to retain per container. Negative: all."},
	{Field: "maximumDeadContainers", Flag: "maximum-dead-containers", Default: "-1", Set: options.Integer(func(c *Agent) *int64 { return &c.MaximumDeadContainers }),
		Help: "Number of dead containers to retain on the node. Negative: all."},

	{Field: "pressureConditions", Flag: "pressure-conditions", Default: "auto", Set: options.OneOf(func(c *Agent) *string { return &c.PressureConditions }, "auto", "kubelet", "own", "standard", "off"),
		Help: "Reporting of pressure conditions on the Node: auto (detects whether the kubelet reports them), kubelet (left to the kubelet), own (plimsoll.dev/MemoryPressure, ...), standard (MemoryPressure, ...) or off."},
	{Field: "pressureTaint", Flag: "pressure-taint", Shape: options.Boolean, Default: "false", Bool: func(c *Agent) *bool { return &c.PressureTaint },
		Help: "Taint the Node with plimsoll.dev/memory-pressure:NoSchedule and the like while its conditions are True. Also keeps replacement pods of DaemonSets away."},
	{Field: "heartbeatNamespace", Flag: "heartbeat-namespace", Default: "plimsoll-system", Set: options.String(func(c *Agent) *string { return &c.HeartbeatNamespace }),
		Help: "Namespace of the Lease that is the heartbeat of the agent. Empty: no heartbeat."},
	{Field: "evictionRecordNamespace", Flag: "eviction-record-namespace", Default: "plimsoll-evictions", Set: options.OptionalDNSLabel(func(c *Agent) *string { return &c.EvictionRecordNamespace }),
		Help: "Namespace of the ConfigMap with the last evictions of the node, named like the Node. Empty: evictions are not recorded there."},
	{Field: "evictionRecordOwner", Flag: "eviction-record-owner", Default: OwnedByNode, Set: options.OneOf(func(c *Agent) *string { return &c.EvictionRecordOwner }, OwnedByNode, OwnedByNone),
		Help: "Owner of that ConfigMap, when it is created. node: it is deleted with its Node. none: it outlives the Node, until plimsoll controller deletes it after 30 days."},
	{Field: "reportNodeLease", Flag: "report-node-lease", Shape: options.Boolean, Default: "false", Bool: func(c *Agent) *bool { return &c.ReportNodeLease },
		Help: "Renew the node's own Lease in kube-node-lease. For nodes without a kubelet only; refused where a kubelet runs."},
	{Field: "healthzBindAddress", Flag: "healthz-bind-address", Default: "127.0.0.1:10350", Set: options.ListenAddress(func(c *Agent) *string { return &c.HealthzBindAddress }),
		Help: "IP:PORT of /livez, /readyz and /metrics. Beyond loopback they are served over HTTPS with token authentication. Empty: not served."},
}

// Cluster holds the options of a node in a cluster: the places of its pods, runtime and
// disks, garbage collection, and reports to the API server.
type Cluster struct {
	Kubeconfig               string
	NodeName                 string
	ContainerRuntimeEndpoint string // empty: detected; NoRuntime: none
	RuntimeRequestTimeout    time.Duration
	StatsProvider            string
	HostRoot                 string
	RootDir                  string
	PodLogsDir               string
	KubeletConfig            string
	KubeletCgroupRoot        string // empty: from the kubelet's configuration
	VolumeStatsAggPeriod     time.Duration
	LocalStorageLimits       string
	SoftEviction             string

	GarbageCollection                 string
	ImageGCHighThresholdPercent       int64
	ImageGCLowThresholdPercent        int64
	ImageMinimumGCAge                 time.Duration
	ImageMaximumGCAge                 time.Duration
	MinimumContainerTTLDuration       time.Duration
	MaximumDeadContainersPerContainer int64
	MaximumDeadContainers             int64

	PressureConditions string
	PressureTaint      bool
	HeartbeatNamespace string
	// EvictionRecordNamespace is the namespace of the records of evictions; empty: none.
	EvictionRecordNamespace string
	EvictionRecordOwner     string
	ReportNodeLease         bool
	HealthzBindAddress      string
	options.Endpoints
}

// The values of EvictionRecordOwner.
const (
	OwnedByNode = "node"
	OwnedByNone = "none"
)

// NoRuntime is the ContainerRuntimeEndpoint of a node without a container runtime.
const NoRuntime = "none"

func newCluster() Cluster {
	return Cluster{
		RuntimeRequestTimeout: 2 * time.Minute,
		StatsProvider:         "cgroup",
		HostRoot:              "/",
		RootDir:               "/var/lib/kubelet",
		PodLogsDir:            "/var/log/pods",
		KubeletConfig:         "/var/lib/kubelet/config.yaml",
		VolumeStatsAggPeriod:  time.Minute,
		LocalStorageLimits:    "auto",
		SoftEviction:          "status",

		GarbageCollection:                 "auto",
		ImageGCHighThresholdPercent:       85,
		ImageGCLowThresholdPercent:        80,
		ImageMinimumGCAge:                 2 * time.Minute,
		MaximumDeadContainersPerContainer: 1,
		MaximumDeadContainers:             -1,

		PressureConditions:      "auto",
		HeartbeatNamespace:      "plimsoll-system",
		EvictionRecordNamespace: "plimsoll-evictions",
		EvictionRecordOwner:     OwnedByNode,
		HealthzBindAddress:      "127.0.0.1:10350",
	}
}

// OnHost returns the path at which the agent reaches a path of the host.
func (c *Cluster) OnHost(path string) string { return filepath.Join(c.HostRoot, path) }

func (c *Agent) validateCluster(faults *strictyaml.Faults) {
	c.validateImageGC(faults)
	for _, d := range []struct {
		field   string
		value   time.Duration
		minimum time.Duration
	}{
		{"runtimeRequestTimeout", c.RuntimeRequestTimeout, time.Millisecond},
		{"imageMinimumGCAge", c.ImageMinimumGCAge, 0},
		{"imageMaximumGCAge", c.ImageMaximumGCAge, 0},
		{"minimumContainerTTLDuration", c.MinimumContainerTTLDuration, 0},
	} {
		if d.value < d.minimum {
			faults.Add(c.Where(d.field), d.value.String(), "must be at least %s", d.minimum)
		}
	}
	for _, p := range [][2]string{{"hostRoot", c.HostRoot}, {"rootDir", c.RootDir}, {"podLogsDir", c.PodLogsDir}, {"kubeletConfig", c.KubeletConfig}} {
		c.validatePath(p[0], p[1], faults)
	}
	c.Endpoints.Validate(c.Where, faults)
}

// validateImageGC applies the rules of the kubelet for the same fields.
func (c *Agent) validateImageGC(faults *strictyaml.Faults) {
	inRange := true
	for _, p := range []struct {
		field string
		value int64
	}{{"imageGCHighThresholdPercent", c.ImageGCHighThresholdPercent}, {"imageGCLowThresholdPercent", c.ImageGCLowThresholdPercent}} {
		if p.value < 0 || p.value > 100 {
			faults.Add(c.Where(p.field), fmt.Sprint(p.value), "must be between 0 and 100")
			inRange = false
		}
	}
	if inRange && c.ImageGCLowThresholdPercent >= c.ImageGCHighThresholdPercent {
		faults.Add(c.Where("imageGCLowThresholdPercent"), fmt.Sprint(c.ImageGCLowThresholdPercent), "must be below imageGCHighThresholdPercent, which is %d", c.ImageGCHighThresholdPercent)
	}
	if c.ImageMaximumGCAge > 0 && c.ImageMaximumGCAge <= c.ImageMinimumGCAge {
		faults.Add(c.Where("imageMaximumGCAge"), c.ImageMaximumGCAge.String(), "must be above imageMinimumGCAge, which is %s", c.ImageMinimumGCAge)
	}
}
