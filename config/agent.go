package config

import (
	"runtime"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Identity of a configuration file.
const (
	APIVersion = "plimsoll.dev/v1alpha1"
	AgentKind  = "AgentConfiguration"
)

// Agent is the configuration of the node agent. Fields that KubeletConfiguration
// has too have its names, defaults and meanings.
type Agent struct {
	EvictionHard                     Map
	EvictionSoft                     Map
	EvictionSoftGracePeriod          Map
	EvictionMinimumReclaim           Map
	MergeDefaultEvictionSettings     bool
	EvictionMaxPodGracePeriod        int64 // seconds
	EvictionPressureTransitionPeriod time.Duration
	EnforceNodeAllocatable           []string
	KubeReserved                     Map
	SystemReserved                   Map
	LocalStorageCapacityIsolation    bool

	NodeCgroup       string
	PodManifests     string
	DryRun           bool
	DisarmFile       string
	MonitoringPeriod time.Duration
	ExtraLooks       eviction.ExtraLooks
	Notifications    string
	ReactionReserve  time.Duration
	MaxFillRate      signals.Bytes // per second; 0: by the number of processors
	StateFile        string
	ProcRoot         string
	CgroupRoot       string
	LoggingFormat    string
	Verbosity        int64

	Cluster
	Restraint

	origins
}

// A Map is a map of settings as it was written.
type Map struct {
	Set      bool // written at all: an empty map is not the default
	Settings []Setting
}

// A Setting is one entry of a map, and where it was written.
type Setting struct{ Key, Text, Where string }

// Get returns the entry of that key.
func (m Map) Get(key string) (Setting, bool) {
	for _, s := range m.Settings {
		if s.Key == key {
			return s, true
		}
	}
	return Setting{}, false
}

// defaultHard is what holds where evictionHard is left out. PIDs have no
// default threshold, as in the kubelet.
var defaultHard = []Setting{
	{Key: "memory.available", Text: "100Mi"},
	{Key: "nodefs.available", Text: "10%"},
	{Key: "nodefs.inodesFree", Text: "5%"},
	{Key: "imagefs.available", Text: "15%"},
	{Key: "imagefs.inodesFree", Text: "5%"},
}

// The fastest credible fill rate where none is configured: one process was seen
// to fill warm memory at 2.7 GiB/s, and several share what the memory takes.
const (
	fillRatePerProcessor = signals.Bytes(2 << 30)
	leastFillRate        = signals.Bytes(4 << 30)
)

// agentKind is all that is particular about the agent's configuration.
var agentKind = kind[Agent]{
	name:    AgentKind,
	options: slices.Concat(nodeOptions, restraintOptions, clusterOptions, agentEndpoints),
	preset:  NewAgent,
	origins: func(c *Agent) origins { return c.origins },
	rules:   (*Agent).validate,
}

// Load makes the agent's configuration of the defaults, the file at path
// (unless it is empty) and the flags, in this order. All faults come in one
// error of type [strictyaml.Faults].
func Load(path string, flags *Flags) (*Agent, error) { return load(&agentKind, path, flags) }

// ParseFile makes a configuration of the defaults and the text of a file.
func ParseFile(data []byte) (*Agent, error) { return parse(&agentKind, data) }

// ReadNodeScenario makes a configuration of the fields of a scenario's config. What
// is left out has its default, but for what restrains the agent, which is off:
// a story that does not speak of it is about thresholds.
func ReadNodeScenario(v strictyaml.Value, faults *strictyaml.Faults) *Agent {
	c := NewAgent()
	c.FutileEvictions, c.OwnerBackOff = 0, 0
	agentKind.readFields(c, agentKind.options, v.Object(Fields()...))
	c.validate(faults)
	return c
}

// Fields lists the names of all fields, in the order of the table.
func Fields() []string { return names(agentKind.options) }

// NewAgent returns the defaults.
func NewAgent() *Agent {
	return &Agent{
		EvictionPressureTransitionPeriod: eviction.DefaultTransitionPeriod,
		EnforceNodeAllocatable:           []string{"pods"},
		LocalStorageCapacityIsolation:    true,
		NodeCgroup:                       "/",
		DryRun:                           true,
		MonitoringPeriod:                 10 * time.Second,
		Notifications:                    "auto",
		ReactionReserve:                  eviction.DefaultReactionReserve,
		DisarmFile:                       "/run/plimsoll/disarm",
		StateFile:                        "/var/lib/plimsoll/state.json",
		ProcRoot:                         "/proc",
		CgroupRoot:                       "/sys/fs/cgroup",
		LoggingFormat:                    "text",
		Cluster:                          newCluster(),
		Restraint:                        newRestraint(),
		origins:                          origins{},
	}
}

// FillRate is the fastest credible rate at which memory fills, in bytes per
// second: as configured, else 2 GiB/s for every processor, 4 GiB/s at
// least.
func (c *Agent) FillRate() signals.Bytes {
	if c.MaxFillRate > 0 {
		return c.MaxFillRate
	}
	return max(leastFillRate, fillRatePerProcessor*signals.Bytes(runtime.NumCPU()))
}

// hard is evictionHard with the defaults that apply.
func (c *Agent) hard() []Setting {
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
