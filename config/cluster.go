package config

import (
	"fmt"
	"net"
	"path/filepath"
	"time"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// clusterOptions are those of a node in a cluster: where its pods, its runtime
// and its disks are, what is collected, and what the cluster is told.
var clusterOptions = []option[Agent]{
	{field: "kubeconfig", flag: "kubeconfig", setText: str(func(c *Agent) *string { return &c.Kubeconfig }),
		help: "how to reach the API server; empty: as a pod does, where there is a service account, else without one"},
	{field: "nodeName", flag: "hostname-override", setText: str(func(c *Agent) *string { return &c.NodeName }),
		help: "name of the Node object; empty: what the environment variable NODE_NAME says, else the host's name"},
	{field: "containerRuntimeEndpoint", flag: "container-runtime-endpoint", setText: str(func(c *Agent) *string { return &c.ContainerRuntimeEndpoint }),
		help: "socket of the container runtime, such as unix:///run/containerd/containerd.sock; empty: the first of the usual ones that exists; none: no runtime"},
	{field: "runtimeRequestTimeout", flag: "runtime-request-timeout", preset: "2m", setText: duration(func(c *Agent) *time.Duration { return &c.RuntimeRequestTimeout }),
		help: "how long the container runtime may take for one answer"},
	{field: "statsProvider", flag: "stats-provider", preset: "cgroup", setText: oneOf(func(c *Agent) *string { return &c.StatsProvider }, "cgroup", "cri", "cadvisor"),
		help: "who measures memory and processes of pods: cgroup (the kernel's files, fresh), cri (the container runtime, every monitoring period), cadvisor (cAdvisor inside the agent, likewise)"},
	{field: "hostRoot", flag: "host-root", preset: "/", setText: str(func(c *Agent) *string { return &c.HostRoot }),
		help: "where the host's root directory is mounted, such as /host in a container; it comes before the three directories that follow, the runtime's socket and its disks"},
	{field: "rootDir", flag: "root-dir", preset: "/var/lib/kubelet", setText: str(func(c *Agent) *string { return &c.RootDir }),
		help: "the kubelet's directory: its filesystem is nodefs, and the pods' volumes are in it"},
	{field: "podLogsDir", flag: "pod-logs-dir", preset: "/var/log/pods", setText: str(func(c *Agent) *string { return &c.PodLogsDir }),
		help: "where the pods' logs are"},
	{field: "kubeletConfig", flag: "kubelet-config", preset: "/var/lib/kubelet/config.yaml", setText: str(func(c *Agent) *string { return &c.KubeletConfig }),
		help: "the kubelet's configuration file, read to find out what it reports and enforces itself; there need not be one"},
	{field: "kubeletCgroupRoot", flag: "kubelet-cgroup-root", setText: str(func(c *Agent) *string { return &c.KubeletCgroupRoot }),
		help: "cgroup below which the kubelet makes those of pods (its cgroupRoot), such as /kubelet; empty: as the kubelet's configuration file and command line have it"},
	{field: "volumeStatsAggPeriod", flag: "volume-stats-agg-period", preset: "1m", setText: duration(func(c *Agent) *time.Duration { return &c.VolumeStatsAggPeriod }),
		help: "how often what pods keep on disk is measured for local-storage limits; negative: never"},
	{field: "localStorageLimits", flag: "local-storage-limits", preset: "auto", setText: oneOf(func(c *Agent) *string { return &c.LocalStorageLimits }, "auto", "on", "off"),
		help: "who evicts pods above their local-storage limits: auto leaves it to a kubelet that does, on is the agent, off is nobody here"},
	{field: "softEviction", flag: "soft-eviction", preset: "status", setText: oneOf(func(c *Agent) *string { return &c.SoftEviction }, "status", "direct", "controller"),
		help: "how a soft eviction is asked for: status (a condition of the pod, which the controller sees), direct (the agent posts the Eviction, which needs a right on all pods), controller (a line in the agent's Lease)"},

	{field: "reclaim", flag: "reclaim", preset: "auto", setText: oneOf(func(c *Agent) *string { return &c.Reclaim }, "auto", "on", "off"),
		help: "whether the agent collects dead containers and unused images: auto leaves it to a kubelet that is there"},
	{field: "imageGCHighThresholdPercent", flag: "image-gc-high-threshold", preset: "85", setText: number(func(c *Agent) *int64 { return &c.ImageGCHighThresholdPercent }),
		help: "percentage of the image filesystem in use from which on unused images are collected; 100 never"},
	{field: "imageGCLowThresholdPercent", flag: "image-gc-low-threshold", preset: "80", setText: number(func(c *Agent) *int64 { return &c.ImageGCLowThresholdPercent }),
		help: "percentage of the image filesystem in use down to which they are collected"},
	{field: "imageMinimumGCAge", flag: "minimum-image-ttl-duration", preset: "2m", setText: duration(func(c *Agent) *time.Duration { return &c.ImageMinimumGCAge }),
		help: "an image seen for the first time less than this ago is not collected"},
	{field: "imageMaximumGCAge", flag: "image-maximum-gc-age", preset: "0s", setText: duration(func(c *Agent) *time.Duration { return &c.ImageMaximumGCAge }),
		help: "an image that nobody has used for longer is collected whatever is free; 0s switches this off"},
	{field: "minimumContainerTTLDuration", flag: "minimum-container-ttl-duration", preset: "0s", setText: duration(func(c *Agent) *time.Duration { return &c.MinimumContainerTTLDuration }),
		help: "a dead container younger than this is not collected"},
	{field: "maximumDeadContainersPerContainer", flag: "maximum-dead-containers-per-container", preset: "1", setText: number(func(c *Agent) *int64 { return &c.MaximumDeadContainersPerContainer }),
		help: "how many dead instances of each container are kept; negative: all"},
	{field: "maximumDeadContainers", flag: "maximum-dead-containers", preset: "-1", setText: number(func(c *Agent) *int64 { return &c.MaximumDeadContainers }),
		help: "how many dead containers are kept altogether; negative: all"},

	{field: "pressureConditions", flag: "pressure-conditions", preset: "auto", setText: oneOf(func(c *Agent) *string { return &c.PressureConditions }, "auto", "kubelet", "own", "standard", "off"),
		help: "who reports pressure on the Node: auto finds out, kubelet leaves it to the kubelet, own are conditions plimsoll.dev/MemoryPressure and so on, standard are MemoryPressure and so on, off is nobody"},
	{field: "pressureTaint", flag: "pressure-taint", shape: boolean, preset: "false", setBool: func(c *Agent) *bool { return &c.PressureTaint },
		help: "taint the Node with plimsoll.dev/memory-pressure:NoSchedule and so on while its conditions are True; keeps replacements of DaemonSet pods away, too"},
	{field: "heartbeatNamespace", flag: "heartbeat-namespace", preset: "plimsoll-system", setText: str(func(c *Agent) *string { return &c.HeartbeatNamespace }),
		help: "where the agent's Lease is, its heartbeat; empty: nowhere"},
	{field: "reportNodeLease", flag: "report-node-lease", shape: boolean, preset: "false", setBool: func(c *Agent) *bool { return &c.ReportNodeLease },
		help: "renew the node's own lease in kube-node-lease; for nodes without a kubelet only, refused where there is one"},
	{field: "healthzBindAddress", flag: "healthz-bind-address", preset: "127.0.0.1:10350", setText: str(func(c *Agent) *string { return &c.HealthzBindAddress }),
		help: "host:port of /livez, /readyz and /metrics, beyond loopback by HTTPS and with tokens; empty: nowhere"},
}

// Cluster is what clusterOptions set.
type Cluster struct {
	Kubeconfig               string
	NodeName                 string
	ContainerRuntimeEndpoint string // empty: to be found; NoRuntime: there is none
	RuntimeRequestTimeout    time.Duration
	StatsProvider            string
	HostRoot                 string
	RootDir                  string
	PodLogsDir               string
	KubeletConfig            string
	KubeletCgroupRoot        string // empty: the kubelet's configuration has it
	VolumeStatsAggPeriod     time.Duration
	LocalStorageLimits       string
	SoftEviction             string

	Reclaim                           string
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
	Endpoints
}

// NoRuntime is the endpoint of a node without a container runtime.
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

		Reclaim:                           "auto",
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

// OnHost is a path of the host as the agent sees it.
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
	c.Endpoints.validate(c.Where, faults)
	if c.HealthzBindAddress != "" {
		if _, _, err := net.SplitHostPort(c.HealthzBindAddress); err != nil {
			faults.Add(c.Where("healthzBindAddress"), c.HealthzBindAddress, "must be host:port, such as 127.0.0.1:10350: %v", err)
		}
	}
}

// validateImageGC holds the rules that a kubelet has for the same fields.
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
