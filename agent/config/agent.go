package config

import (
	"runtime"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Kind is the kind of the agent's configuration file.
const Kind = "AgentConfiguration"

// Agent is the configuration of the agent. Fields that KubeletConfiguration has, too,
// have its names, defaults and meanings.
type Agent struct {
	EvictionHard                     options.Map
	EvictionSoft                     options.Map
	EvictionSoftGracePeriod          options.Map
	EvictionMinimumReclaim           options.Map
	MergeDefaultEvictionSettings     bool
	EvictionMaxPodGracePeriod        int64 // seconds
	EvictionPressureTransitionPeriod time.Duration
	EnforceNodeAllocatable           []string
	KubeReserved                     options.Map
	SystemReserved                   options.Map
	LocalStorageCapacityIsolation    bool

	NodeCgroup           string
	PodManifests         string
	DryRun               bool
	DisarmFile           string
	MonitoringPeriod     time.Duration
	EvictionChoice       eviction.Choice
	EarlyEviction        eviction.EarlyEviction
	KernelNotifications  string
	EarlyEvictionHorizon time.Duration
	MaxFillRate          signals.Bytes // per second; 0: see FillRate
	StateFile            string
	RecordingDir         string        // empty: nothing is recorded
	RecordingSize        signals.Bytes // of the whole directory
	DecisionLogDir       string        // empty: decisions are not stored on the node
	DecisionLogSize      signals.Bytes // of the whole directory
	ProcRoot             string
	CgroupRoot           string
	LoggingFormat        string
	Verbosity            int64

	Cluster
	Limits

	options.Origins
}

// defaultHard holds the thresholds that apply if evictionHard is not set. PIDs have
// no default threshold, as in the kubelet.
var defaultHard = []options.Setting{
	{Key: "memory.available", Text: "100Mi"},
	{Key: "nodefs.available", Text: "10%"},
	{Key: "nodefs.inodesFree", Text: "5%"},
	{Key: "imagefs.available", Text: "15%"},
	{Key: "imagefs.inodesFree", Text: "5%"},
}

// The fastest credible fill rate if none is configured. One process filled warm memory
// at 2.7 GiB/s; several processes share the bandwidth of the memory.
const (
	fillRatePerProcessor = signals.Bytes(2 << 30)
	minFillRate          = signals.Bytes(4 << 30)
)

var table = options.Table[Agent]{
	Kind:     Kind,
	Options:  slices.Concat(nodeOptions, limitOptions, clusterOptions, options.EndpointOptions(func(c *Agent) *options.Endpoints { return &c.Endpoints })),
	Defaults: NewAgent,
	Origins:  func(c *Agent) options.Origins { return c.Origins },
	Validate: (*Agent).validate,
}

// AddFlags registers the flags of the agent and returns what receives their
// texts.
func AddFlags(set *pflag.FlagSet) *options.Flags { return table.AddFlags(set) }

// Load returns the configuration made of the defaults, the file at path (if path is
// not empty) and the flags; later ones override earlier ones. Returns
// [strictyaml.Faults] with every fault if the configuration is not valid, and another
// error if the file cannot be read.
func Load(path string, flags *options.Flags) (*Agent, error) { return table.Load(path, flags) }

// Source makes the configurations of the agent, also from a changed file.
type Source = options.Source[Agent]

// NewSource returns the source of the file at path, none if path is empty, and of the flags.
func NewSource(path string, flags *options.Flags) *Source { return table.Source(path, flags) }

// Live returns the fields that a running agent applies after a change of the file.
func Live() []string { return table.Live() }

// ParseFile returns the configuration made of the defaults and the text of a file.
// Returns [strictyaml.Faults] with every fault if the configuration is not valid, or if the text is
// larger than [options.MaxFileBytes].
func ParseFile(data []byte) (*Agent, error) { return table.Parse(data) }

// ReadScenario returns the configuration that the field config of a NodeScenario
// holds: v, a mapping of any fields. Faults of fields are added to those of v, faults of
// fields that do not go together to faults. Missing fields have their defaults, except
// that the choice is the kubelet's, and the limits on ineffective evictions and on owners
// are off.
func ReadScenario(v strictyaml.Value, faults *strictyaml.Faults) *Agent {
	c := NewAgent()
	c.EvictionChoice, c.MaxIneffectiveEvictions, c.OwnerBackoff = eviction.AsKubelet, 0, 0
	table.ReadFields(c, table.Options, v)
	c.validate(faults)
	return c
}

// Effective returns the configuration as a file with every option, in JSON. Returns an
// error if a value can not be encoded.
func (c *Agent) Effective() ([]byte, error) { return table.Effective(c) }

// Fields returns the names of all fields, in the order of the reference.
func Fields() []string { return table.Fields() }

// NewAgent returns a configuration with all defaults.
func NewAgent() *Agent {
	return &Agent{
		EvictionPressureTransitionPeriod: eviction.DefaultTransitionPeriod,
		EnforceNodeAllocatable:           []string{"pods"},
		LocalStorageCapacityIsolation:    true,
		NodeCgroup:                       "/",
		DryRun:                           true,
		MonitoringPeriod:                 10 * time.Second,
		KernelNotifications:              "auto",
		EarlyEvictionHorizon:             eviction.DefaultEarlyEvictionHorizon,
		DisarmFile:                       "/run/plimsoll/disarm",
		StateFile:                        "/var/lib/plimsoll/state.json",
		RecordingSize:                    64 << 20,
		DecisionLogSize:                  16 << 20,
		ProcRoot:                         "/proc",
		CgroupRoot:                       "/sys/fs/cgroup",
		LoggingFormat:                    "text",
		Cluster:                          newCluster(),
		Limits:                           newLimits(),
		Origins:                          options.Origins{},
	}
}

// FillRate returns the fastest credible rate at which memory fills, in bytes per
// second: MaxFillRate, or 2 GiB/s per processor but at least 4 GiB/s if that is 0.
func (c *Agent) FillRate() signals.Bytes {
	if c.MaxFillRate > 0 {
		return c.MaxFillRate
	}
	return max(minFillRate, fillRatePerProcessor*signals.Bytes(runtime.NumCPU()))
}

// hard returns the settings of evictionHard with the defaults that apply.
func (c *Agent) hard() []options.Setting {
	if !c.EvictionHard.Set {
		return defaultHard
	}
	settings := c.EvictionHard.Settings
	if c.MergeDefaultEvictionSettings {
		for _, d := range defaultHard {
			if _, set := c.EvictionHard.Get(d.Key); !set {
				settings = append(settings[:len(settings):len(settings)], d)
			}
		}
	}
	return settings
}
