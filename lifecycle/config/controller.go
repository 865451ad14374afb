package config

import (
	"slices"
	"time"

	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Kind is the kind of the controller's configuration file.
const Kind = "ControllerConfiguration"

// Controller is the configuration of the controller. Options that
// kube-controller-manager has, or had, have its names, defaults and meanings.
type Controller struct {
	Lifecycle
	Process
	FeatureGates options.Map // of kube-controller-manager; without effect
	options.Origins
}

// Lifecycle holds the options on which decisions depend. A ClusterScenario may set
// them, too.
type Lifecycle struct {
	NodeMonitorPeriod         time.Duration // not used: there are no scans
	NodeMonitorGracePeriod    time.Duration
	NodeStartupGracePeriod    time.Duration
	PodEvictionTimeout        time.Duration
	TaintEvictions            bool
	TaintBasedEvictions       bool
	NodeEvictionRate          float64 // nodes per second
	SecondaryNodeEvictionRate float64 // nodes per second
	LargeClusterSizeThreshold int64   // nodes of a zone
	UnhealthyZoneThreshold    float64 // 0 or more; above 1 is never reached

	FullyDisruptedRate   float64 // nodes per second; negative: as NodeEvictionRate
	MaxUnhealthy         Bound
	MaxUnhealthyCooldown time.Duration
	PauseDisrupted       bool

	LiveLeaseReads          bool
	LiveLeaseReadsPerSecond float64 // 0: no limit
	OutageGrace             time.Duration
	MassFailureMinNodes     int64   // 0: no breaker
	MassFailureFraction     float64 // of all nodes, between 0 and 1
	MassFailureWindow       time.Duration
	MassFailureMaxDuration  time.Duration
	UntaintRate             float64 // 0: no limit

	AgentAliveGrace     time.Duration // 0: agents are not asked
	AgentGrace          time.Duration
	MaxAutonomyDuration time.Duration // 0: annotations are ignored
	EvictedPodTTL       time.Duration // 0: evicted pods are kept for ever
}

// Process holds the options of the program around the decisions.
type Process struct {
	Mode              string // Observe or Replace
	DryRun            bool
	NodeRenewInterval time.Duration
	PodEvictionMethod string // Delete or EvictThenDelete
	PodEvictionWait   time.Duration

	Kubeconfig         string
	KubeAPIQPS         float64 // requests per second; -1: no limit
	KubeAPIBurst       int64   // requests at once
	EventQPS           float64 // events per second; 0: no events
	ConflictWindow     time.Duration
	HeartbeatNamespace string // empty: no leases of agents are read
	// EvictionRecordNamespace is the namespace of the agents' records of evictions; empty: none is deleted.
	EvictionRecordNamespace string

	LeaderElect       bool
	LeaseDuration     time.Duration
	RenewDeadline     time.Duration
	RetryPeriod       time.Duration
	ResourceLock      string
	ResourceName      string
	ResourceNamespace string

	HealthzBindAddress string
	options.Endpoints
	LoggingFormat string
	Verbosity     int64
}

// The values of Mode.
const (
	Observe = "observe" // decisions are reported only
	Replace = "replace" // decisions are executed
)

// The values of PodEvictionMethod.
const (
	Delete          = "delete"            // DELETE, as kube-controller-manager does
	EvictThenDelete = "evict-then-delete" // policy/v1 Eviction, then DELETE after PodEvictionWait
)

var table = options.Table[Controller]{
	Kind:     Kind,
	Options:  slices.Concat(lifecycleOptions, processOptions, controllerEndpoints),
	Defaults: NewController,
	Origins:  func(c *Controller) options.Origins { return c.Origins },
	Validate: (*Controller).validate,
}

// AddFlags registers the flags of the controller and returns what receives
// their texts.
func AddFlags(set *pflag.FlagSet) *options.Flags { return table.AddFlags(set) }

// Load returns the configuration made of the defaults, the file at path (if path is
// not empty) and the flags; later ones override earlier ones. Returns
// [strictyaml.Faults] with every fault if the configuration is not valid, and another
// error if the file cannot be read.
func Load(path string, flags *options.Flags) (*Controller, error) {
	return table.Load(path, flags)
}

// Source makes the configurations of the controller, also from a changed file.
type Source = options.Source[Controller]

// NewSource returns the source of the file at path, none if path is empty, and of the flags.
func NewSource(path string, flags *options.Flags) *Source { return table.Source(path, flags) }

// Live returns the fields that a running controller applies after a change of the file.
func Live() []string { return table.Live() }

// ParseFile returns the configuration made of the defaults and the text of a file.
// Returns [strictyaml.Faults] with every fault if the configuration is not valid, or if the text is
// larger than [options.MaxFileBytes].
func ParseFile(data []byte) (*Controller, error) { return table.Parse(data) }

// Fields returns the names of all fields, in the order of the reference.
func Fields() []string { return table.Fields() }

// ReadScenario returns the configuration that the field config of a ClusterScenario
// holds: v, a mapping of the fields of [Lifecycle]. Faults are added to those of v.
// Missing fields have their defaults with three exceptions: live lease reads and the
// breaker are off, because the watch of a scenario is always fresh, and evicted pods
// are never deleted. Periods that do not go together are not faults: a scenario may
// show their effect.
func ReadScenario(v strictyaml.Value) *Controller {
	c := NewController()
	c.LiveLeaseReads, c.MassFailureMinNodes, c.EvictedPodTTL = false, 0, 0
	table.ReadFields(c, lifecycleOptions, v)
	c.derive()
	return c
}

// NewController returns a configuration with all defaults.
func NewController() *Controller {
	return &Controller{Lifecycle: newLifecycle(), Process: newProcess(), Origins: options.Origins{}}
}

func newLifecycle() Lifecycle {
	return Lifecycle{
		NodeMonitorPeriod:         5 * time.Second,
		NodeMonitorGracePeriod:    50 * time.Second,
		NodeStartupGracePeriod:    time.Minute,
		PodEvictionTimeout:        5 * time.Minute,
		TaintEvictions:            true,
		TaintBasedEvictions:       true,
		NodeEvictionRate:          0.1,
		SecondaryNodeEvictionRate: 0.01,
		LargeClusterSizeThreshold: 50,
		UnhealthyZoneThreshold:    0.55,

		FullyDisruptedRate: -1,

		LiveLeaseReads:          true,
		LiveLeaseReadsPerSecond: 50,
		OutageGrace:             40 * time.Second,
		MassFailureMinNodes:     10,
		MassFailureFraction:     0.05,
		MassFailureWindow:       20 * time.Second,
		MassFailureMaxDuration:  5 * time.Minute,
		UntaintRate:             10,

		AgentAliveGrace:     30 * time.Minute,
		AgentGrace:          40 * time.Second,
		MaxAutonomyDuration: 24 * time.Hour,
		EvictedPodTTL:       time.Hour,
	}
}

func newProcess() Process {
	return Process{
		Mode:              Observe,
		NodeRenewInterval: 10 * time.Second,
		PodEvictionMethod: Delete,
		PodEvictionWait:   2 * time.Minute,

		KubeAPIQPS:         100,
		KubeAPIBurst:       200,
		EventQPS:           20,
		ConflictWindow:     10 * time.Minute,
		HeartbeatNamespace: "plimsoll-system",

		EvictionRecordNamespace: "plimsoll-evictions",

		LeaderElect:       true,
		LeaseDuration:     15 * time.Second,
		RenewDeadline:     10 * time.Second,
		RetryPeriod:       2 * time.Second,
		ResourceLock:      "leases",
		ResourceName:      "plimsoll-controller",
		ResourceNamespace: "plimsoll-system",

		HealthzBindAddress: "127.0.0.1:10360",
		LoggingFormat:      "text",
	}
}
