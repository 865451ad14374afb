package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

const head = "apiVersion: plimsoll.dev/v1alpha1\nkind: AgentConfiguration\n"

// load returns the configuration of a file's text, "" for no file, and a command
// line.
func load(t *testing.T, text string, args ...string) (*config.Agent, error) {
	t.Helper()
	set := pflag.NewFlagSet("plimsoll", pflag.ContinueOnError)
	flags := config.AddFlags(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	path := ""
	if text != "" {
		path = filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(head+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config.Load(path, flags)
}

// thresholds lists the thresholds of the compiled policy.
func thresholds(t *testing.T, c *config.Agent) []string {
	t.Helper()
	policy, err := c.Policy(signals.Single)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, th := range policy.Thresholds {
		if strings.HasPrefix(th.Signal.String(), "containerfs") {
			continue
		}
		line := th.String()
		if th.MinReclaim != (eviction.Value{}) {
			line += " +" + th.MinReclaim.String()
		}
		lines = append(lines, line)
	}
	return lines
}

func TestLoad_Defaults(t *testing.T) {
	c, err := load(t, "")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"memory.available<100Mi", "allocatableMemory.available<100Mi", "nodefs.available<10%", "nodefs.inodesFree<5%", "imagefs.available<15%", "imagefs.inodesFree<5%"}
	if got := thresholds(t, c); !slices.Equal(got, want) {
		t.Errorf("thresholds %v, want %v", got, want)
	}
	if c.EvictionPressureTransitionPeriod != 5*time.Minute || c.EvictionMaxPodGracePeriod != 0 || !c.LocalStorageCapacityIsolation ||
		c.MonitoringPeriod != 10*time.Second || c.EvictionChoice != eviction.Helps || c.EarlyEviction != eviction.Imminent || c.EarlyEvictionHorizon != 500*time.Millisecond || !c.DryRun {
		t.Errorf("%+v", c)
	}
	if c.FillRate() < 2<<30 {
		t.Errorf("maximum fill rate is %d, want at least 2 GiB/s", c.FillRate())
	}
}

// Documentation and --help show the default texts of the option table.
func TestAddFlags_DefaultsMatchProgram(t *testing.T) {
	var args []string
	set := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	config.AddFlags(set)
	set.VisitAll(func(f *pflag.Flag) {
		if f.DefValue != "" {
			args = append(args, "--"+f.Name+"="+f.DefValue)
		}
	})
	written, err := load(t, "", args...)
	if err != nil {
		t.Fatal(err)
	}
	preset, err := load(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := thresholds(t, written), thresholds(t, preset); !slices.Equal(got, want) {
		t.Errorf("thresholds of the table %v, of the program %v", got, want)
	}
	if written.NodeCgroup != preset.NodeCgroup || written.EvictionPressureTransitionPeriod != preset.EvictionPressureTransitionPeriod ||
		written.MonitoringPeriod != preset.MonitoringPeriod || written.EvictionChoice != preset.EvictionChoice || written.EarlyEvictionHorizon != preset.EarlyEvictionHorizon || written.EarlyEviction != preset.EarlyEviction ||
		written.StateFile != preset.StateFile || written.RecordingDir != preset.RecordingDir || written.RecordingSize != preset.RecordingSize || written.DecisionLogDir != preset.DecisionLogDir || written.DecisionLogSize != preset.DecisionLogSize || written.ProcRoot != preset.ProcRoot || written.CgroupRoot != preset.CgroupRoot ||
		written.LoggingFormat != preset.LoggingFormat || written.FillRate() != preset.FillRate() || written.Verbosity != preset.Verbosity ||
		!slices.Equal(written.EnforceNodeAllocatable, preset.EnforceNodeAllocatable) || written.EvictionMaxPodGracePeriod != preset.EvictionMaxPodGracePeriod ||
		written.LocalStorageCapacityIsolation != preset.LocalStorageCapacityIsolation || written.DryRun != preset.DryRun ||
		written.Cluster != preset.Cluster || written.Limits.Policy() != preset.Limits.Policy() ||
		len(written.ProtectedNamespaces)+len(written.EvictionPolicyNamespaces) != 0 {
		t.Errorf("defaults of the table\n%+v, of the program\n%+v", written, preset)
	}
}

func TestPolicy_HardThresholds(t *testing.T) {
	for _, tc := range []struct {
		about, file string
		args        []string
		want        string
	}{
		{about: "no setting", file: "dryRun: false\n",
			want: "memory.available<100Mi, nodefs.available<10%, nodefs.inodesFree<5%, imagefs.available<15%, imagefs.inodesFree<5%"},
		{about: "null", file: "evictionHard:\n",
			want: "memory.available<100Mi, nodefs.available<10%, nodefs.inodesFree<5%, imagefs.available<15%, imagefs.inodesFree<5%"},
		{about: "empty map", file: "evictionHard: {}\n"},
		{about: "empty flag", args: []string{"--eviction-hard="}},
		{about: "empty flag and file", file: "evictionHard: {memory.available: 1Gi}\n", args: []string{"--eviction-hard="}},
		{about: "map without merge", file: "evictionHard: {memory.available: 1Gi}\n", want: "memory.available<1Gi"},
		{about: "map with merge", file: "mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 1Gi, nodefs.available: 0%, pid.available: 2k}\n",
			want: "memory.available<1Gi, nodefs.inodesFree<5%, imagefs.available<15%, imagefs.inodesFree<5%, pid.available<2k"},
		{about: "empty map with merge", file: "mergeDefaultEvictionSettings: true\nevictionHard: {}\n",
			want: "memory.available<100Mi, nodefs.available<10%, nodefs.inodesFree<5%, imagefs.available<15%, imagefs.inodesFree<5%"},
		{about: "0%, 100% and 0.0%", file: `evictionHard: {memory.available: "0%", pid.available: "100%", nodefs.available: "0.0%"}` + "\n",
			want: "nodefs.available<0.0%"},
		{about: "flag and file", file: "evictionHard: {memory.available: 1Gi, pid.available: 5}\n",
			args: []string{"--eviction-hard=nodefs.available<5Gi"}, want: "nodefs.available<5Gi"},
		{about: "repeated flag with blanks", args: []string{"--eviction-hard= memory.available < 1.5Gi , nodefs.inodesFree<5Mi", "--eviction-hard=pid.available<0.5%"},
			want: "memory.available<1536Mi, nodefs.inodesFree<5Mi, pid.available<0.5%"},
		{about: "minimum reclaim for hard and soft", args: []string{"--eviction-hard=memory.available<1Gi", "--eviction-soft=memory.available<2Gi",
			"--eviction-soft-grace-period=memory.available=1m30s,pid.available=1h", "--eviction-minimum-reclaim=memory.available=250%,nodefs.available=0"},
			want: "memory.available<1Gi +250%, memory.available<2Gi for 1m30s +250%"},
		{about: "soft with grace period 0s", args: []string{"--eviction-hard=", "--eviction-soft=memory.available<2Gi", "--eviction-soft-grace-period=memory.available=0s"},
			want: "memory.available<2Gi"},
		{about: "soft switched off without grace period", args: []string{"--eviction-hard=", "--eviction-soft=memory.available<0%"}},
	} {
		t.Run(tc.about, func(t *testing.T) {
			c, err := load(t, tc.file, append([]string{"--enforce-node-allocatable="}, tc.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(thresholds(t, c), ", "); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// A threshold replaces that of its signal. The others, and the configuration itself, stay as they are.
func TestWithHardThreshold_ReplacesOne(t *testing.T) {
	for _, tc := range []struct{ text, value, want string }{
		{"", "250Mi", "memory.available<250Mi nodefs.available<10% nodefs.inodesFree<5% imagefs.available<15% imagefs.inodesFree<5%"},
		{"evictionHard: {nodefs.available: 8%, memory.available: 1Gi}\nevictionSoft: {memory.available: 2Gi}\nevictionSoftGracePeriod: {memory.available: 1m}\n", "5%", "memory.available<5% memory.available<2Gi for 1m0s nodefs.available<8%"},
		{"evictionHard: {nodefs.available: 8%}\n", "1Mi", "memory.available<1Mi nodefs.available<8%"},
		{"evictionHard: {memory.available: 1Gi}\nevictionMinimumReclaim: {memory.available: 10Mi}\n", "2Gi", "memory.available<2Gi +10Mi"},
		{"evictionHard: {memory.available: 1Gi}\n", "0%", ""},
	} {
		c, err := load(t, "enforceNodeAllocatable: []\n"+tc.text)
		if err != nil {
			t.Fatal(err)
		}
		before := strings.Join(thresholds(t, c), " ")
		got := thresholds(t, c.WithHardThreshold(signals.MemoryAvailable, tc.value))
		want := strings.Fields(tc.want)
		if !slices.Equal(strings.Fields(strings.Join(got, " ")), want) || strings.Join(thresholds(t, c), " ") != before {
			t.Errorf("%q with %s: got %q, want %q", tc.text, tc.value, got, tc.want)
		}
	}
	if _, err := config.NewAgent().WithHardThreshold(signals.MemoryAvailable, "much").Policy(signals.Single); err == nil {
		t.Error("an invalid threshold is accepted")
	}
}

func TestLoad_FlagOverridesFile(t *testing.T) {
	const file = "evictionMaxPodGracePeriod: 30\nmonitoringPeriod: 20s\ndryRun: true\nenforceNodeAllocatable: [pods]\nkubeReserved: {memory: 1Gi}\nsystemReserved: {memory: 1Gi, cpu: 500m}\n"
	c, err := load(t, file, "--eviction-max-pod-grace-period=-1", "--dry-run=false", "--enforce-node-allocatable=none", "--kube-reserved=memory=512Mi", "-v", "3", "--max-fill-rate=8Gi")
	if err != nil {
		t.Fatal(err)
	}
	if c.EvictionMaxPodGracePeriod != -1 || c.DryRun || !slices.Equal(c.EnforceNodeAllocatable, []string{"none"}) || c.MonitoringPeriod != 20*time.Second ||
		c.Verbosity != 3 || c.FillRate() != 8<<30 || c.ReservedMemory() != 1536<<20 {
		t.Errorf("%+v", c)
	}
	for field, want := range map[string]string{"evictionMaxPodGracePeriod": "--eviction-max-pod-grace-period", "monitoringPeriod": "monitoringPeriod", "earlyEviction": "earlyEviction"} {
		if got := c.Where(field); got != want {
			t.Errorf("%s was set by %s, Where returned %s", field, want, got)
		}
	}
	if c, err = load(t, "dryRun: false\n", "--dry-run"); err != nil || !c.DryRun {
		t.Errorf("--dry-run without a value: %v, %v", c.DryRun, err)
	}
	if c, err = load(t, "evictionPressureTransitionPeriod: 0s\n"); err != nil || c.EvictionPressureTransitionPeriod != 5*time.Minute {
		t.Errorf("transition period 0s: got %v, %v, want 5m", c.EvictionPressureTransitionPeriod, err)
	}
}

func TestParseFile_RejectsInvalidFiles(t *testing.T) {
	if _, err := config.Load(filepath.Join(t.TempDir(), "missing.yaml"), &options.Flags{}); err == nil || errors.As(err, new(strictyaml.Faults)) || !strings.Contains(err.Error(), "missing.yaml") {
		t.Errorf("missing file: %v", err)
	}
	for text, want := range map[string]string{
		"": "apiVersion: required", head + "evictonHard: {}": "evictonHard: ", head + "---\na: 1": "more than one",
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: AgentConfiguration": "must be plimsoll.dev/v1alpha1",
		"apiVersion: plimsoll.dev/v1alpha1\nkind: KubeletConfiguration":       "must be AgentConfiguration",
		head + "evictionHard: [a]": "must be a mapping",
	} {
		if _, err := config.ParseFile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A program with other defaults reads the same configuration.
func TestEffective_IsComplete(t *testing.T) {
	for about, tc := range map[string]struct {
		file string
		args []string
	}{
		"defaults": {},
		"file": {file: "evictionHard: {memory.available: 200Mi, pid.available: 5%}\nmonitoringPeriod: 5s\nevictionMaxPodGracePeriod: 30\nmaxFillRate: 8Gi\ndryRun: false\nprotectedNamespaces: [kube-system, a]\n" +
			"evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m}\nkubeReserved: {memory: 500Mi}\nrecordingDir: /var/a\ndecisionLogDir: /var/b\n"},
		"flags": {args: []string{"--eviction-hard=", "--early-eviction=never", "--owner-backoff=0s", "--enforce-node-allocatable=none", "--recording-size=100Mi", "--decision-log-size=32Mi", "--local-storage-limits=off"}},
		"both":  {file: "monitoringPeriod: 5s\nstateFile: \"\"\n", args: []string{"--monitoring-period=7s"}},
	} {
		c, err := load(t, tc.file, tc.args...)
		if err != nil {
			t.Fatal(err)
		}
		text, err := c.Effective()
		if err != nil {
			t.Fatal(err)
		}
		again, err := config.ParseFile(text)
		if err != nil {
			t.Fatalf("%s: %v in %s", about, err, text)
		}
		for _, field := range config.Fields() {
			if !strings.Contains(string(text), `"`+field+`":`) && again.Given(field) {
				t.Errorf("%s: %s is missing in %s", about, field, text)
			}
		}
		before, after := *c, *again
		for _, v := range []*config.Agent{&before, &after} {
			v.Origins = nil
			for _, m := range []*options.Map{&v.EvictionHard, &v.EvictionSoft, &v.EvictionSoftGracePeriod, &v.EvictionMinimumReclaim, &v.KubeReserved, &v.SystemReserved} {
				*m = options.Map{}
			}
		}
		// Lists may be empty in two ways.
		if fmt.Sprintf("%+v", before) != fmt.Sprintf("%+v", after) {
			t.Errorf("%s:\n%+v, read again\n%+v", about, before, after)
		}
		if got, want := thresholds(t, again), thresholds(t, c); !slices.Equal(got, want) || again.ReservedMemory() != c.ReservedMemory() {
			t.Errorf("%s: thresholds %v, read again %v", about, want, got)
		}
	}
}
