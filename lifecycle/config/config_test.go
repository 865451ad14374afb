package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/internal/strictyaml"
	"plimsoll.dev/plimsoll/lifecycle/config"
)

const head = "apiVersion: plimsoll.dev/v1alpha1\nkind: ControllerConfiguration\n"

// load makes a configuration from a file's text ("" for no file) and a command line. Returns an
// error if either is invalid.
func load(t *testing.T, text string, args ...string) (*config.Controller, error) {
	t.Helper()
	set := pflag.NewFlagSet("controller", pflag.ContinueOnError)
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

func expectFault(t *testing.T, err error, where, want string) {
	t.Helper()
	var faults strictyaml.Faults
	if !errors.As(err, &faults) || len(faults) != 1 {
		t.Errorf("%s: got %v, want one fault", where, err)
		return
	}
	if !strings.HasPrefix(faults[0].Error(), where) || !strings.Contains(faults[0].Problem, want) {
		t.Errorf("fault %q does not name %s and %q", faults[0].Error(), where, want)
	}
}

func TestDefaults_MatchOptionTable(t *testing.T) {
	var args []string
	set := pflag.NewFlagSet("controller", pflag.ContinueOnError)
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
	if written.Lifecycle != preset.Lifecycle || written.Process != preset.Process {
		t.Errorf("defaults of the flags:\n%+v\nof the program:\n%+v", written, preset)
	}
	if w := preset.Warnings(); len(w) > 0 {
		t.Errorf("the defaults cause warnings: %q", w)
	}
}

// TestDefaults_MatchUpstream checks upstream's defaults, on which operators rely.
func TestDefaults_MatchUpstream(t *testing.T) {
	c := config.NewController()
	for about, same := range map[string]bool{
		"--node-monitor-period":          c.NodeMonitorPeriod == 5*time.Second,
		"--node-monitor-grace-period":    c.NodeMonitorGracePeriod == 50*time.Second,
		"--node-startup-grace-period":    c.NodeStartupGracePeriod == time.Minute,
		"--pod-eviction-timeout":         c.PodEvictionTimeout == 5*time.Minute,
		"--enable-taint-manager":         c.TaintEvictions && c.TaintBasedEvictions,
		"--node-eviction-rate":           c.NodeEvictionRate == 0.1 && c.FullyDisruptedRate < 0,
		"--secondary-node-eviction-rate": c.SecondaryNodeEvictionRate == 0.01,
		"--large-cluster-size-threshold": c.LargeClusterSizeThreshold == 50,
		"--unhealthy-zone-threshold":     c.UnhealthyZoneThreshold == 0.55,
		"--leader-elect":                 c.LeaderElect && c.LeaseDuration == 15*time.Second && c.RenewDeadline == 10*time.Second && c.RetryPeriod == 2*time.Second,
		"--mode":                         c.Mode == config.Observe && !c.DryRun,
	} {
		if !same {
			t.Errorf("%s: the default differs from upstream's", about)
		}
	}
}

// TestLoad_ReportsFaults covers each kind of fault once, as a flag and as a field.
func TestLoad_ReportsFaults(t *testing.T) {
	for _, tc := range []struct{ flag, field, value, want string }{
		{"node-monitor-period", "nodeMonitorPeriod", "-1s", "at least 0s"},
		{"node-monitor-grace-period", "nodeMonitorGracePeriod", "-1s", "at least 0s"},
		{"node-startup-grace-period", "nodeStartupGracePeriod", "60", "with a unit"},
		{"pod-eviction-timeout", "podEvictionTimeout", "-5m", "at least 0s"},
		{"enable-taint-manager", "enableTaintManager", "perhaps", "true or false"},
		{"taint-based-evictions", "taintBasedEvictions", "7", "true or false"},
		{"node-eviction-rate", "nodeEvictionRate", "-0.1", "must be 0 or a number per second"},
		{"node-eviction-rate", "nodeEvictionRate", "NaN", "number per second"},
		{"node-eviction-rate", "nodeEvictionRate", "Inf", "number per second"},
		{"node-eviction-rate", "nodeEvictionRate", "1e999", "number per second"},
		{"secondary-node-eviction-rate", "secondaryNodeEvictionRate", "slow", "number per second"},
		{"large-cluster-size-threshold", "largeClusterSizeThreshold", "-1", "not negative"},
		{"large-cluster-size-threshold", "largeClusterSizeThreshold", "4294967296", "whole number"},
		{"unhealthy-zone-threshold", "unhealthyZoneThreshold", "-0.1", "at least 0"},
		{"unhealthy-zone-threshold", "unhealthyZoneThreshold", "Inf", "at least 0"},
		{"unhealthy-zone-threshold", "unhealthyZoneThreshold", "55%", "at least 0"},
		{"fully-disrupted-rate", "fullyDisruptedRate", "-1", "must be empty, 0 or"},
		{"max-unhealthy", "maxUnhealthy", "0", "above 0"},
		{"max-unhealthy", "maxUnhealthy", "101%", "at most 100%"},
		{"max-unhealthy", "maxUnhealthy", "0%", "above 0%"},
		{"max-unhealthy", "maxUnhealthy", "NaN%", "percentage"},
		{"max-unhealthy", "maxUnhealthy", "many", "whole number of nodes"},
		{"max-unhealthy-cooldown", "maxUnhealthyCooldown", "-1m", "at least 0s"},
		{"live-lease-reads-per-second", "liveLeaseReadsPerSecond", "-5", "must be 0 or"},
		{"outage-grace", "outageGrace", "soon", "duration"},
		{"mass-failure-min-nodes", "massFailureMinNodes", "1.5", "whole number"},
		{"mass-failure-fraction", "massFailureFraction", "5", "between 0 and 1"},
		{"mass-failure-window", "massFailureWindow", "0s", "above 0s"},
		{"mass-failure-max-duration", "massFailureMaxDuration", "0s", "above 0s"},
		{"untaint-rate", "untaintRate", "1e7", "between 1e-6 and 1e6"},
		{"agent-alive-grace", "agentAliveGrace", "-1s", "at least 0s"},
		{"agent-grace", "agentGrace", "0s", "above 0s"},
		{"max-autonomy-duration", "maxAutonomyDuration", "-24h", "at least 0s"},
		{"evicted-pod-ttl", "evictedPodTTL", "-1s", "at least 0s"},
		{"mode", "mode", "replicate", "must be one of observe, replace"},
		{"dry-run", "dryRun", "no", "true or false"},
		{"node-renew-interval", "nodeRenewInterval", "0s", "above 0s"},
		{"pod-eviction-method", "podEvictionMethod", "evict", "must be one of delete, evict-then-delete"},
		{"pod-eviction-wait", "podEvictionWait", "-1s", "at least 0s"},
		{"kube-api-qps", "kubeAPIQPS", "1e7", "between 1e-6 and 1e6"},
		{"kube-api-qps", "kubeAPIQPS", "-Inf", "must be negative, 0 or"},
		{"kube-api-burst", "kubeAPIBurst", "-1", "not negative"},
		{"event-qps", "eventQPS", "-1", "must be 0 or"},
		{"conflict-window", "conflictWindow", "-1s", "at least 0s"},
		{"heartbeat-namespace", "heartbeatNamespace", "Plimsoll", "lower case"},
		{"eviction-record-namespace", "evictionRecordNamespace", "Plimsoll", "lower case"},
		{"leader-elect-lease-duration", "leaderElectLeaseDuration", "10s", "must be above leaderElectRenewDeadline, which is 10s"},
		{"leader-elect-renew-deadline", "leaderElectRenewDeadline", "2.4s", "must be above 1.2 times leaderElectRetryPeriod, which is 2s"},
		{"leader-elect-retry-period", "leaderElectRetryPeriod", "0s", "above 0s"},
		{"leader-elect-resource-lock", "leaderElectResourceLock", "endpoints", "must be one of leases"},
		{"leader-elect-resource-name", "leaderElectResourceName", "", "a name"},
		{"leader-elect-resource-namespace", "leaderElectResourceNamespace", "a/b", "a name"},
		{"healthz-bind-address", "healthzBindAddress", "localhost:10360", "must be IP:PORT"},
		{"health-socket", "healthSocket", "health.sock", "absolute path"},
		{"tls-cert-file", "tlsCertFile", "/tls.crt", "needs tlsPrivateKeyFile"},
		{"tls-private-key-file", "tlsPrivateKeyFile", "/tls.key", "needs tlsCertFile"},
		{"logging-format", "loggingFormat", "xml", "must be one of text, json"},
		{"v", "verbosity", "-1", "not negative"},
	} {
		t.Run(tc.field+" "+tc.value, func(t *testing.T) {
			_, err := load(t, "", "--"+tc.flag+"="+tc.value)
			expectFault(t, err, "--"+tc.flag, tc.want)
			_, err = load(t, tc.field+`: "`+tc.value+"\"\n")
			expectFault(t, err, tc.field, tc.want)
		})
	}
}

func TestLoad_EachOptionHasFaultCase(t *testing.T) {
	text, err := os.ReadFile("config_test.go")
	if err != nil {
		t.Fatal(err)
	}
	// Options without an invalid text, or with only that of all booleans.
	free := []string{"featureGates", "pauseDisruptedZones", "liveLeaseReads", "leaderElect", "kubeconfig"}
	for _, field := range config.Fields() {
		if !slices.Contains(free, field) && !strings.Contains(string(text), `", "`+field+`", "`) {
			t.Errorf("%s has no fault case", field)
		}
	}
}

// TestControllerFlags_AcceptUpstreamValues checks that a command line of
// kube-controller-manager is accepted.
func TestControllerFlags_AcceptUpstreamValues(t *testing.T) {
	for _, tc := range []struct {
		args []string
		is   func(*config.Controller) bool
		want string // in the only warning
	}{
		{[]string{"--node-monitor-grace-period=16s"}, func(c *config.Controller) bool { return c.NodeMonitorGracePeriod == 16*time.Second }, "less than 3 times nodeRenewInterval, which is 10s"},
		{[]string{"--node-monitor-grace-period=0s"}, func(c *config.Controller) bool { return c.Policy().Health.Grace == 0 }, "every node is Unknown"},
		{[]string{"--node-monitor-period=0"}, func(c *config.Controller) bool { return c.NodeMonitorPeriod == 0 }, ""},
		{[]string{"--node-monitor-period=2m"}, func(c *config.Controller) bool { return c.NodeMonitorPeriod == 2*time.Minute }, ""},
		{[]string{"--node-startup-grace-period=0"}, func(c *config.Controller) bool { return c.Policy().Health.StartupGrace == 0 }, "less time for its first report"},
		{[]string{"--pod-eviction-timeout=0"}, func(c *config.Controller) bool { return c.PodEvictionTimeout == 0 }, "due as soon as"},
		{[]string{"--unhealthy-zone-threshold=0"}, func(c *config.Controller) bool { return c.Policy().Zones.Unhealthy == 0 }, ""},
		{[]string{"--unhealthy-zone-threshold=1.5"}, func(c *config.Controller) bool { return c.Policy().Zones.Unhealthy == 1.5 }, "ever partially disrupted"},
		{[]string{"--kube-api-qps=-1"}, func(c *config.Controller) bool { return c.KubeAPIQPS == -1 }, "only the number of workers"},
		{[]string{"--kube-api-qps=-20.5"}, func(c *config.Controller) bool { return c.KubeAPIQPS == -1 }, "only the number of workers"},
		{[]string{"--kube-api-qps=0", "--live-lease-reads-per-second=1"}, func(c *config.Controller) bool { return c.KubeAPIQPS == 5 }, ""},
		{[]string{"--kube-api-burst=0"}, func(c *config.Controller) bool { return c.KubeAPIBurst == 10 }, ""},
		{[]string{"--feature-gates=TaintTolerationComparisonOperators=true"}, func(c *config.Controller) bool { return c.FeatureGates.Set }, ""},
		{[]string{"--feature-gates=SeparateTaintEvictionController=true", "--feature-gates=NodeLease=false"}, func(c *config.Controller) bool { return len(c.FeatureGates.Settings) == 2 }, "NodeLease cannot be switched off"},
		{[]string{"--feature-gates=TaintBasedEvictions=false"}, func(c *config.Controller) bool { return c.TaintBasedEvictions }, "taintBasedEvictions decides"},
		{[]string{"--feature-gates=DogfoodingNodes=true"}, func(c *config.Controller) bool { return true }, "DogfoodingNodes is not known here"},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			c, err := load(t, "", tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			if !tc.is(c) {
				t.Errorf("unexpected configuration: %+v", c)
			}
			w := strings.Join(c.Warnings(), "\n")
			if (w != "") != (tc.want != "") || !strings.Contains(w, tc.want) || len(c.Warnings()) > 1 {
				t.Errorf("got warnings %q, want %q", w, tc.want)
			}
		})
	}
}

func TestFeatureGates_WarnOfUnknownGate(t *testing.T) {
	c, err := load(t, "featureGates: {NodeLease: true, AllAlpha: false}\n")
	if err != nil || len(c.Warnings()) != 1 || !strings.Contains(c.Warnings()[0], "AllAlpha is not known") {
		t.Errorf("got error %v and warnings %q", err, c.Warnings())
	}
	_, err = load(t, "", "--feature-gates=NodeLease=perhaps")
	expectFault(t, err, "--feature-gates", "true or false")
	_, err = load(t, "", "--feature-gates=NodeLease")
	expectFault(t, err, "--feature-gates", "key=value")
	_, err = load(t, "featureGates: {NodeLease: perhaps}\n")
	expectFault(t, err, "featureGates", "true or false")
}

func TestLoad_SkipsElectionRulesWithoutElection(t *testing.T) {
	if _, err := load(t, "", "--leader-elect=false", "--leader-elect-lease-duration=1s"); err != nil {
		t.Error(err)
	}
}

// TestPolicy_TaintEvictionsNeedTheirController checks that taint-based evictions follow the taint
// manager unless set explicitly.
func TestPolicy_TaintEvictionsNeedTheirController(t *testing.T) {
	type mode struct{ noExecute, byTaints, legacy bool }
	for _, tc := range []struct {
		args []string
		want mode
	}{
		{nil, mode{noExecute: true, byTaints: true}},
		{[]string{"--enable-taint-manager=false"}, mode{legacy: true}},
		{[]string{"--taint-based-evictions=false"}, mode{byTaints: true, legacy: true}},
		{[]string{"--enable-taint-manager=false", "--taint-based-evictions"}, mode{noExecute: true}},
	} {
		c, err := load(t, "", tc.args...)
		if err != nil {
			t.Fatal(err)
		}
		if p := c.Policy(); (mode{p.NoExecute, p.TaintEvictions, p.LegacyEvictions}) != tc.want {
			t.Errorf("%v: got %+v, want %+v", tc.args, p, tc.want)
		}
	}
}

// TestPolicy_DependsOnEachDecidingOption checks that a change of any option that affects decisions
// changes the policy.
func TestPolicy_DependsOnEachDecidingOption(t *testing.T) {
	preset := config.NewController().Policy()
	for field, text := range map[string]string{
		"nodeMonitorGracePeriod": "55s", "nodeStartupGracePeriod": "2m", "podEvictionTimeout": "6m", "enableTaintManager": "false", "taintBasedEvictions": "false",
		"nodeEvictionRate": "0.2", "secondaryNodeEvictionRate": "0.02", "largeClusterSizeThreshold": "51", "unhealthyZoneThreshold": "0.6",
		"fullyDisruptedRate": "0", "maxUnhealthy": "20%", "maxUnhealthyCooldown": "1m", "pauseDisruptedZones": "true",
		"liveLeaseReads": "false", "liveLeaseReadsPerSecond": "7", "outageGrace": "1s", "massFailureMinNodes": "3", "massFailureFraction": "0.5", "massFailureWindow": "1s", "massFailureMaxDuration": "1m",
		"untaintRate": "3", "agentAliveGrace": "1m", "agentGrace": "1m", "maxAutonomyDuration": "1h", "evictedPodTTL": "2h", "nodeRenewInterval": "1s",
	} {
		c, err := load(t, field+": "+text+"\n")
		if err != nil {
			t.Errorf("%s: %v", field, err)
			continue
		}
		if c.Policy() == preset {
			t.Errorf("%s: %s does not change the policy", field, text)
		}
	}
}

func TestMaxUnhealthy_ParsesBounds(t *testing.T) {
	for text, want := range map[string]config.Bound{"": {}, "7": {Set: true, Nodes: 7}, "25%": {Set: true, Share: 0.25}, "100%": {Set: true, Share: 1}} {
		c, err := load(t, "maxUnhealthy: 3\n", "--max-unhealthy="+text)
		if err != nil || c.MaxUnhealthy != want {
			t.Errorf("%q: got %+v, %v, want %+v", text, c, err, want)
		}
	}
}

func TestWarnings_NameTheConflict(t *testing.T) {
	for _, tc := range []struct{ file, want string }{
		{"nodeMonitorGracePeriod: 40s\n", "may need 45s"},
		{"nodeMonitorGracePeriod: 29s\n", "less than 3 times"},
		{"enableTaintManager: false\nnodeMonitorGracePeriod: 6m\nnodeStartupGracePeriod: 6m\n", "podEvictionTimeout"},
		{"nodeStartupGracePeriod: 45s\n", "shorter than nodeMonitorGracePeriod"},
		{"enableTaintManager: false\ntaintBasedEvictions: true\n", "their pods are not evicted"},
		{"taintBasedEvictions: false\n", "podEvictionTimeout"},
		{"nodeEvictionRate: 0\n", "no node is ever tainted"},
		{"liveLeaseReads: false\nmassFailureMinNodes: 0\n", "a watch that hangs"},
		{"liveLeaseReadsPerSecond: 0\n", "leaves nothing"},
		{"kubeAPIQPS: 20\n", "leaves nothing"},
		{"heartbeatNamespace: ''\n", "never applies"},
		{"mode: replace\ndryRun: true\n", "no controller acts"},
		{"mode: replace\nleaderElect: false\n", "two controllers"},
	} {
		c, err := load(t, tc.file)
		if err != nil {
			t.Errorf("%s: %v", tc.file, err)
			continue
		}
		if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0], tc.want) {
			t.Errorf("%s: got warnings %q, want %q", tc.file, w, tc.want)
		}
	}
}

func TestReadScenario_UsesScenarioDefaults(t *testing.T) {
	read := func(text string) (*config.Controller, strictyaml.Faults) {
		var faults strictyaml.Faults
		return config.ReadScenario(strictyaml.Parse([]byte(text), &faults)), faults
	}
	c, faults := read("{}")
	preset := config.NewController()
	preset.LiveLeaseReads, preset.MassFailureMinNodes, preset.EvictedPodTTL = false, 0, 0
	if faults.Err() != nil || c.Lifecycle != preset.Lifecycle {
		t.Errorf("empty scenario: got %+v, %v", c, faults)
	}
	// Nodes of a scenario renew every 10 s; short grace periods are allowed.
	c, faults = read("{nodeMonitorGracePeriod: 20s, nodeEvictionRate: 1, enableTaintManager: false, massFailureMinNodes: 5, liveLeaseReads: true, evictedPodTTL: 5m}")
	if faults.Err() != nil || c.NodeMonitorGracePeriod != 20*time.Second || c.NodeEvictionRate != 1 || c.TaintBasedEvictions || c.MassFailureMinNodes != 5 || !c.LiveLeaseReads || c.EvictedPodTTL != 5*time.Minute {
		t.Errorf("unexpected configuration: %+v, %v", c, faults)
	}
	c, faults = read("{nodeMonitorGracePeriod: 4s, podEvictionTimeout: 1s}")
	if faults.Err() != nil || c.PodEvictionTimeout != time.Second {
		t.Errorf("conflicting periods were refused: %+v, %v", c, faults)
	}
	_, faults = read("{kubeconfig: x, nodeEvictionRate: -1, unhealthyZoneThreshold: -2}")
	if len(faults) != 3 {
		t.Errorf("one unsupported option and two invalid values: got %d faults, want 3: %v", len(faults), faults)
	}
}

func FuzzParseControllerFile(f *testing.F) {
	for _, seed := range []string{"maxUnhealthy: 20%", "nodeEvictionRate: 1e-6", "nodeRenewInterval: 2562047h47m16.854775807s", "leaderElect: false", "massFailureFraction: 0x1p-2"} {
		f.Add([]byte(head + seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.ParseFile(data)
		if err != nil {
			return
		}
		c.Warnings()
		for about, right := range map[string]bool{
			"grace":     c.NodeMonitorGracePeriod >= 0 && c.NodeStartupGracePeriod >= 0 && c.NodeRenewInterval > 0,
			"rates":     c.NodeEvictionRate >= 0 && c.SecondaryNodeEvictionRate >= 0 && (c.KubeAPIQPS > 0 || c.KubeAPIQPS == -1) && c.KubeAPIBurst > 0,
			"shares":    c.UnhealthyZoneThreshold >= 0 && c.MassFailureFraction >= 0 && c.MassFailureFraction <= 1,
			"unhealthy": !c.MaxUnhealthy.Set || (c.MaxUnhealthy.Nodes > 0) != (c.MaxUnhealthy.Share > 0 && c.MaxUnhealthy.Share <= 1),
		} {
			if !right {
				t.Errorf("%s: %+v was accepted", about, c)
			}
		}
	})
}
