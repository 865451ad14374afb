package config

import (
	"fmt"
	"net"
	"path/filepath"
	"time"

	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// clusterOptions are the options of [Cluster].
var clusterOptions = []options.Option[Agent]{
	{Field: "kubeconfig", Flag: "kubeconfig", Set: options.String(func(c *Agent) *string { return &c.Kubeconfig }),
		Help: "how to reach the API server; empty: as a pod does, where there is a service account, else without one"},
	{Field: "nodeName", Flag: "hostname-override", Set: options.String(func(c *Agent) *string { return &c.NodeName }),
		Help: "name of the Node object; empty: what the environment variable NODE_NAME says, else the host's name"},
	{Field: "containerRuntimeEndpoint", Flag: "container-runtime-endpoint", Set: options.String(func(c *Agent) *string { return &c.ContainerRuntimeEndpoint }),
		Help: "socket of the container runtime, such as unix:///run/containerd/containerd.sock; empty: the first of the usual ones that exists; none: no runtime"},
	{Field: "runtimeRequestTimeout", Flag: "runtime-request-timeout", Default: "2m", Set: options.Duration(func(c *Agent) *time.Duration { return &c.RuntimeRequestTimeout }),
		Help: "how long the container runtime may take for one answer"},
	{Field: "statsProvider", Flag: "stats-provider", Default: "cgroup", Set: options.OneOf(func(c *Agent) *string { return &c.StatsProvider }, "cgroup", "cri", "cadvisor"),
		Help: "who measures memory and processes of pods: cgroup (the kernel's files, fresh), cri (the container runtime, every monitoring period), cadvisor (cAdvisor inside the agent, likewise)"},
	{Field: "hostRoot", Flag: "host-root", Default: "/", Set: options.String(func(c *Agent) *string { return &c.HostRoot }),
		Help: "where the host's root directory is mounted, such as /host in a container; it comes before the three directories that follow, the runtime's socket and its disks"},
	{Field: "rootDir", Flag: "root-dir", Default: "/var/lib/kubelet", Set: options.String(func(c *Agent) *string { return &c.RootDir }),
		Help: "the kubelet's directory: its filesystem is nodefs, and the pods' volumes are in it"},
	{Field: "podLogsDir", Flag: "pod-logs-dir", Default: "/var/log/pods", Set: options.String(func(c *Agent) *string { return &c.PodLogsDir }),
		Help: "where the pods' logs are"},
	{Field: "kubeletConfig", Flag: "kubelet-config", Default: "/var/lib/kubelet/config.yaml", Set: options.String(func(c *Agent) *string { return &c.KubeletConfig }),
		Help: "the kubelet's configuration file, read to find out what it reports and enforces itself; there need not be one"},
	{Field: "kubeletCgroupRoot", Flag: "kubelet-cgroup-root", Set: options.String(func(c *Agent) *string { return &c.KubeletCgroupRoot }),
		Help: "cgroup below which the kubelet makes those of pods (its cgroupRoot), such as /kubelet; empty: as the kubelet's configuration file and command line have it"},
	{Field: "volumeStatsAggPeriod", Flag: "volume-stats-agg-period", Default: "1m", Set: options.Duration(func(c *Agent) *time.Duration { return &c.VolumeStatsAggPeriod }),
		Help: "how often what pods keep on disk is measured for local-storage limits; negative: never"},
	{Field: "localStorageLimits", Flag: "local-storage-limits", Default: "auto", Set: options.OneOf(func(c *Agent) *string { return &c.LocalStorageLimits }, "auto", "on", "off"),
		Help: "who evicts pods above their local-storage limits: auto leaves it to a kubelet that does, on is the agent, off is nobody here"},
	{Field: "softEviction", Flag: "soft-eviction", Default: "status", Set: options.OneOf(func(c *Agent) *string { return &c.SoftEviction }, "status", "direct", "controller"),
		Help: "how a soft eviction is asked for: status (a condition of the pod, which the controller sees), direct (the agent posts the Eviction, which needs a right on all pods), controller (a line in the agent's Lease)"},

	{Field: "garbageCollection", Flag: "garbage-collection", Default: "auto", Set: options.OneOf(func(c *Agent) *string { return &c.GarbageCollection }, "auto", "on", "off"),
		Help: "whether the agent collects dead containers and unused images: auto leaves it to a kubelet that is there"},
	{Field: "imageGCHighThresholdPercent", Flag: "image-gc-high-threshold", Default: "85", Set: options.Integer(func(c *Agent) *int64 { return &c.ImageGCHighThresholdPercent }),
		Help: "percentage of the image filesystem in use from which on unused images are collected; 100 never"},
	{Field: "imageGCLowThresholdPercent", Flag: "image-gc-low-threshold", Default: "80", Set: options.Integer(func(c *Agent) *int64 { return &c.ImageGCLowThresholdPercent }),
		Help: "percentage of the image filesystem in use down to which they are collected"},
	{Field: "imageMinimumGCAge", Flag: "minimum-image-ttl-duration", Default: "2m", Set: options.Duration(func(c *Agent) *time.Duration { return &c.ImageMinimumGCAge }),
		Help: "an image seen for the first time less than this ago is not collected"},
	{Field: "imageMaximumGCAge", Flag: "image-maximum-gc-age", Default: "0s", Set: options.Duration(func(c *Agent) *time.Duration { return &c.ImageMaximumGCAge }),
		Help: "an image that nobody has used for longer is collected whatever is free; 0s switches this off"},
	{Field: "minimumContainerTTLDuration", Flag: "minimum-container-ttl-duration", Default: "0s", Set: options.Duration(func(c *Agent) *time.Duration { return &c.MinimumContainerTTLDuration }),
		Help: "a dead container younger than this is not collected"},
	{Field: "maximumDeadContainersPerContainer", Flag: "maximum-dead-containers-per-container", Default: "1", Set: options.Integer(func(c *Agent) *int64 { return &c.MaximumDeadContainersPerContainer }),
		Help: "how many dead instances of each container are kept; negative: all"},
	{Field: "maximumDeadContainers", Flag: "maximum-dead-containers", Default: "-1", Set: options.Integer(func(c *Agent) *int64 { return &c.MaximumDeadContainers }),
		Help: "how many dead containers are kept altogether; negative: all"},

	{Field: "pressureConditions", Flag: "pressure-conditions", Default: "auto", Set: options.OneOf(func(c *Agent) *string { return &c.PressureConditions }, "auto", "kubelet", "own", "standard", "off"),
		Help: "who reports pressure on the Node: auto finds out, kubelet leaves it to the kubelet, own are conditions plimsoll.dev/MemoryPressure and so on, standard are MemoryPressure and so on, off is nobody"},
	{Field: "pressureTaint", Flag: "pressure-taint", Shape: options.Boolean, Default: "false", Bool: func(c *Agent) *bool { return &c.PressureTaint },
		Help: "taint the Node with plimsoll.dev/memory-pressure:NoSchedule and so on while its conditions are True; keeps replacements of DaemonSet pods away, too"},
	{Field: "heartbeatNamespace", Flag: "heartbeat-namespace", Default: "plimsoll-system", Set: options.String(func(c *Agent) *string { return &c.HeartbeatNamespace }),
		Help: "where the agent's Lease is, its heartbeat; empty: nowhere"},
	{Field: "reportNodeLease", Flag: "report-node-lease", Shape: options.Boolean, Default: "false", Bool: func(c *Agent) *bool { return &c.ReportNodeLease },
		Help: "renew the node's own lease in kube-node-lease; for nodes without a kubelet only, refused where there is one"},
	{Field: "healthzBindAddress", Flag: "healthz-bind-address", Default: "127.0.0.1:10350", Set: options.String(func(c *Agent) *string { return &c.HealthzBindAddress }),
		Help: "host:port of /livez, /readyz and /metrics, beyond loopback by HTTPS and with tokens; empty: nowhere"},
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
	ReportNodeLease    bool
	HealthzBindAddress string
	options.Endpoints
}

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

		PressureConditions: "auto",
		HeartbeatNamespace: "plimsoll-system",
		HealthzBindAddress: "127.0.0.1:10350",
	}
}

// OnHost returns the path at which the agent reaches a path of the host.
func (c *Cluster) OnHost(path string) string { return filepath.Join(c.HostRoot, path) }

func (c *Agent) validateCluster(faults *strictyaml.Faults) {
	c.validateImageGC(faults)
	for _, d := range []struct {
		field string
		value time.Duration
		least time.Duration
	}{
		{"runtimeRequestTimeout", c.RuntimeRequestTimeout, time.Millisecond},
		{"imageMinimumGCAge", c.ImageMinimumGCAge, 0},
		{"imageMaximumGCAge", c.ImageMaximumGCAge, 0},
		{"minimumContainerTTLDuration", c.MinimumContainerTTLDuration, 0},
	} {
		if d.value < d.least {
			faults.Add(c.Where(d.field), d.value.String(), "must be at least %s", d.least)
		}
	}
	for _, p := range [][2]string{{"hostRoot", c.HostRoot}, {"rootDir", c.RootDir}, {"podLogsDir", c.PodLogsDir}, {"kubeletConfig", c.KubeletConfig}} {
		c.validatePath(p[0], p[1], faults)
	}
	if c.SoftEviction == "controller" && c.HeartbeatNamespace == "" {
		faults.Add(c.Where("softEviction"), c.SoftEviction, "needs a heartbeatNamespace: its Lease carries the request")
	}
	c.Endpoints.Validate(c.Where, faults)
	if c.HealthzBindAddress != "" {
		if _, _, err := net.SplitHostPort(c.HealthzBindAddress); err != nil {
			faults.Add(c.Where("healthzBindAddress"), c.HealthzBindAddress, "must be host:port, such as 127.0.0.1:10350: %v", err)
		}
	}
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
