package config_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Each fault class of the kubelet's parsing and validation, as a flag and as a
// field, is rejected with the name of the option and a remedy.
func TestLoad_RejectsEachFaultClass(t *testing.T) {
	for _, tc := range []struct {
		flag, field, key, value string // one fault
		want                    string // in the problem
		context                 string // flags that go with it
	}{
		{"eviction-hard", "evictionHard", "memory.free", "1Gi", `unsupported eviction signal "memory.free"`, ""},
		{"eviction-soft", "evictionSoft", "disk", "1Gi", "unsupported eviction signal", ""},
		{"eviction-soft-grace-period", "evictionSoftGracePeriod", "disk", "1m", "unsupported eviction signal", ""},
		{"eviction-minimum-reclaim", "evictionMinimumReclaim", "disk", "1Gi", "unsupported eviction signal", ""},
		{"eviction-hard", "evictionHard", "memory.available", "-5%", "percentage of at least 0%", ""},
		{"eviction-hard", "evictionHard", "memory.available", "100.1%", "must not be above 100%", ""},
		{"eviction-hard", "evictionHard", "memory.available", "ten%", "percentage", ""},
		{"eviction-hard", "evictionHard", "memory.available", "NaN%", "percentage", ""},
		{"eviction-hard", "evictionHard", "memory.available", "Inf%", "percentage", ""},
		{"eviction-hard", "evictionHard", "memory.available", "0", "must be positive", ""},
		{"eviction-hard", "evictionHard", "memory.available", "-1Gi", "must be positive", ""},
		{"eviction-hard", "evictionHard", "memory.available", "1GB", "quantity or a percentage", ""},
		{"eviction-soft", "evictionSoft", "memory.available", "0", "must be positive", "--eviction-soft-grace-period=memory.available=1m"},
		{"eviction-soft", "evictionSoft", "memory.available", "1Gi", "grace period must be specified for the soft eviction threshold memory.available", ""},
		{"eviction-soft-grace-period", "evictionSoftGracePeriod", "memory.available", "-1m", "not negative", ""},
		{"eviction-soft-grace-period", "evictionSoftGracePeriod", "memory.available", "60", "duration", ""},
		{"evictions-per-hour", "evictionsPerHour", "", "-1", "not negative", ""},
		{"max-ineffective-evictions", "maxIneffectiveEvictions", "", "two", "whole number", ""},
		{"ineffective-eviction-backoff", "ineffectiveEvictionBackoff", "", "0s", "above 0s", ""},
		{"ineffective-eviction-backoff", "ineffectiveEvictionBackoff", "", "61m", "at most 1h0m0s", ""},
		{"max-ineffective-evictions", "maxIneffectiveEvictions", "", "101", "at most 100", ""},
		{"owner-backoff", "ownerBackoff", "", "-1s", "at least 0s", ""},
		{"owner-backoff", "ownerBackoff", "", "31m", "at most 30m0s", ""},
		{"protected-namespaces", "protectedNamespaces", "", "*", "name of a namespace", ""},
		{"eviction-policy-namespaces", "evictionPolicyNamespaces", "", "Team-A", "name of a namespace", ""},
		{"recording-size", "recordingSize", "", "15Mi", "between 16Mi and 1Gi", ""},
		{"recording-size", "recordingSize", "", "1025Mi", "between 16Mi and 1Gi", ""},
		{"recording-size", "recordingSize", "", "much", "between 16Mi and 1Gi", ""},
		{"recording-dir", "recordingDir", "", "var/lib/plimsoll", "absolute path", ""},
		{"eviction-record-owner", "evictionRecordOwner", "", "agent", "must be one of node, none", ""},
		{"decision-log-size", "decisionLogSize", "", "15Mi", "between 16Mi and 1Gi", ""},
		{"decision-log-dir", "decisionLogDir", "", "./decisions", "absolute path", ""},
		{"stats-provider", "statsProvider", "", "docker", "must be one of cgroup, cri, cadvisor", ""},
		{"soft-eviction", "softEviction", "", "never", "must be one of status, direct", ""},
		{"garbage-collection", "garbageCollection", "", "yes", "must be one of auto, on, off", ""},
		{"pressure-conditions", "pressureConditions", "", "mine", "must be one of auto, kubelet, own, standard, off", ""},
		{"image-gc-high-threshold", "imageGCHighThresholdPercent", "", "101", "between 0 and 100", ""},
		{"image-gc-low-threshold", "imageGCLowThresholdPercent", "", "85", "must be below imageGCHighThresholdPercent, which is 85", ""},
		{"image-gc-low-threshold", "imageGCLowThresholdPercent", "", "-1", "between 0 and 100", ""},
		{"minimum-image-ttl-duration", "imageMinimumGCAge", "", "-1s", "must be at least 0s", ""},
		{"image-maximum-gc-age", "imageMaximumGCAge", "", "1m", "must be above imageMinimumGCAge, which is 2m0s", ""},
		{"minimum-container-ttl-duration", "minimumContainerTTLDuration", "", "-1s", "must be at least 0s", ""},
		{"maximum-dead-containers", "maximumDeadContainers", "", "few", "whole number", ""},
		{"runtime-request-timeout", "runtimeRequestTimeout", "", "0s", "must be at least 1ms", ""},
		{"host-root", "hostRoot", "", "host", "absolute path", ""},
		{"healthz-bind-address", "healthzBindAddress", "", "localhost:10350", "must be IP:PORT", ""},
		{"health-socket", "healthSocket", "", "health.sock", "absolute path", ""},
		{"tls-cert-file", "tlsCertFile", "", "/tls.crt", "needs tlsPrivateKeyFile", ""},
		{"tls-private-key-file", "tlsPrivateKeyFile", "", "/tls.key", "needs tlsCertFile", ""},
		{"eviction-minimum-reclaim", "evictionMinimumReclaim", "memory.available", "0%", "above 0%", ""},
		{"eviction-minimum-reclaim", "evictionMinimumReclaim", "memory.available", "-5%", "percentage", ""},
		{"eviction-minimum-reclaim", "evictionMinimumReclaim", "memory.available", "-5Mi", "must not be negative", ""},
		{"eviction-minimum-reclaim", "evictionMinimumReclaim", "memory.available", "lots", "quantity or a percentage", ""},
		{"kube-reserved", "kubeReserved", "memory", "-1Gi", "not negative", ""},
		{"system-reserved", "systemReserved", "cpu", "two", "quantity", ""},
		{"system-reserved", "systemReserved", "gpu", "1", "can not be reserved", ""},
		{"enforce-node-allocatable", "enforceNodeAllocatable", "", "everything", "can not be enforced", ""},
		{"enforce-node-allocatable", "enforceNodeAllocatable", "", "pods,pods", "given twice", ""},
		{"enforce-node-allocatable", "enforceNodeAllocatable", "", "none,pods", "can not be combined", ""},
		{"eviction-max-pod-grace-period", "evictionMaxPodGracePeriod", "", "30s", "whole number", ""},
		{"eviction-max-pod-grace-period", "evictionMaxPodGracePeriod", "", "4294967296", "whole number", ""},
		{"eviction-pressure-transition-period", "evictionPressureTransitionPeriod", "", "5", "duration", ""},
		{"eviction-pressure-transition-period", "evictionPressureTransitionPeriod", "", "-5m", "must not be negative", ""},
		{"local-storage-capacity-isolation", "localStorageCapacityIsolation", "", "maybe", "true or false", ""},
		{"monitoring-period", "monitoringPeriod", "", "1ms", "at least 5ms", ""},
		{"early-eviction-horizon", "earlyEvictionHorizon", "", "-1s", "must not be negative", ""},
		{"early-eviction", "earlyEviction", "", "sometimes", "use imminent, immediate or never", ""},
		{"eviction-choice", "evictionChoice", "", "largest", "use helps or kubelet", ""},
		{"max-fill-rate", "maxFillRate", "", "-1Gi", "not negative", ""},
		{"max-fill-rate", "maxFillRate", "", "fast", "quantity", ""},
		{"node-cgroup", "nodeCgroup", "", "kubepods", "absolute path", ""},
		{"node-cgroup", "nodeCgroup", "", "/a/../b", "absolute path", ""},
		{"proc-root", "procRoot", "", "", "absolute path", ""},
		{"cgroup-root", "cgroupRoot", "", "/sys/", "absolute path", ""},
		{"logging-format", "loggingFormat", "", "xml", "text or json", ""},
		{"v", "verbosity", "", "-1", "must not be negative", ""},
		{"dry-run", "dryRun", "", "perhaps", "true or false", ""},
		{"disarm-file", "disarmFile", "", "disarm", "absolute path", ""},
	} {
		t.Run(tc.field+" "+tc.key+" "+tc.value, func(t *testing.T) {
			given, inFile := tc.value, `"`+tc.value+`"`
			if tc.key != "" {
				separator := "="
				if tc.flag == "eviction-hard" || tc.flag == "eviction-soft" {
					separator = "<"
				}
				given, inFile = tc.key+separator+tc.value, "{"+tc.key+": "+inFile+"}"
			}
			switch {
			case tc.field == "enforceNodeAllocatable":
				inFile = "[" + tc.value + "]"
			case strings.HasSuffix(tc.field, "Namespaces"):
				inFile = "[" + inFile + "]"
			}
			args := []string{"--" + tc.flag + "=" + given}
			if tc.context != "" {
				args = append(args, tc.context)
			}
			_, err := load(t, "", args...)
			oneFault(t, err, "--"+tc.flag, tc.want)
			text := tc.field + ": " + inFile + "\n"
			if tc.context != "" {
				text += "evictionSoftGracePeriod: {memory.available: 1m}\n"
			}
			_, err = load(t, text)
			oneFault(t, err, tc.field, tc.want)
		})
	}
}

func TestLoad_DecisionLogNeedsItsOwnDirectory(t *testing.T) {
	_, err := load(t, "", "--recording-dir=/var/a", "--decision-log-dir=/var/a")
	oneFault(t, err, "--decision-log-dir", "must not be recordingDir")
	if _, err = load(t, "recordingDir: /var/a\ndecisionLogDir: /var/a/decisions\n"); err != nil {
		t.Error(err)
	}
}

func oneFault(t *testing.T, err error, where, want string) {
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

// One run reports all faults: in the file, on the command line, and between the two.
func TestLoad_ReportsAllFaults(t *testing.T) {
	_, err := load(t, `
evictionHard: {memory.available: 0, nodefs.available: 200%, moon.available: 1}
evictionSoft: {pid.available: 10}
evictionMaxPodGracePeriod: soon
monitoringPeriod: 1ms
speling: true
dryRun: 7
`, "--eviction-minimum-reclaim=memory.available=0%,memory", "--eviction-minimum-reclaim=pid.available=1,pid.available=2", "--logging-format=xml")
	want := []string{
		"speling: true: unknown field",
		"evictionMaxPodGracePeriod: ",
		"dryRun: 7: must be true or false",
		"--eviction-minimum-reclaim: memory: must be written as key=value",
		"--eviction-minimum-reclaim: pid.available=2: pid.available is given twice",
		"--eviction-minimum-reclaim memory.available: 0%: a percentage to reclaim must be above 0%",
		"evictionHard[memory.available]: 0: must be positive",
		"evictionHard[moon.available]: 1: unsupported eviction signal",
		"evictionHard[nodefs.available]: 200%: must not be above 100%",
		"evictionSoft[pid.available]: 10: grace period must be specified",
		"monitoringPeriod: 1ms: must be at least 5ms",
		"--logging-format: xml: must be text or json",
	}
	if err == nil {
		t.Fatal("faulty configuration was accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	for _, w := range want {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, w) }) {
			t.Errorf("no line begins with %q", w)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d lines, want %d:\n%s", len(lines), len(want), err)
	}
}

func FuzzParseFile(f *testing.F) {
	for _, seed := range []string{
		"evictionHard: {memory.available: 100Mi, nodefs.available: 10%}", "evictionHard: {}", "evictionSoft: {memory.available: 1e3}\nevictionSoftGracePeriod: {memory.available: 1h}",
		"evictionMinimumReclaim: {pid.available: 300%}", "enforceNodeAllocatable: [pods, none]", "maxFillRate: 1e30", "monitoringPeriod: 9999999h", "kubeReserved: {memory: 1Ei}\nsystemReserved: {memory: 8E}",
	} {
		f.Add([]byte(head + seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.ParseFile(data)
		checkParsed(t, c, err)
	})
}

func FuzzFlags(f *testing.F) {
	for _, seed := range []string{
		"memory.available<100Mi,nodefs.available<10%", "", " , ,", "memory.available<0.0%", "pid.available<1e3,pid.available<2", "a<b<c", "imagefs.inodesFree<99.99999999%", "memory.available<0x1p3%",
	} {
		f.Add(seed, "memory.available=1Gi", "memory.available=30s")
	}
	f.Fuzz(func(t *testing.T, thresholds, reclaim, grace string) {
		set := pflag.NewFlagSet("agent", pflag.ContinueOnError)
		flags := config.AddFlags(set)
		if err := set.Parse([]string{"--eviction-hard=" + thresholds, "--eviction-soft=" + thresholds, "--eviction-minimum-reclaim=" + reclaim, "--eviction-soft-grace-period=" + grace}); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load("", flags)
		checkParsed(t, c, err)
	})
}

// checkParsed checks the result of any input: faults of one line each, or a policy
// with thresholds in range.
func checkParsed(t *testing.T, c *config.Agent, err error) {
	t.Helper()
	if err != nil {
		var faults strictyaml.Faults
		if !errors.As(err, &faults) {
			t.Fatalf("got %v, want a list of faults", err)
		}
		if lines := strings.Split(err.Error(), "\n"); len(lines) != len(faults) {
			t.Errorf("%d faults on %d lines: %q", len(faults), len(lines), err)
		}
		return
	}
	for _, layout := range []signals.Layout{signals.Single, signals.Dedicated, signals.Split} {
		policy, err := c.Policy(layout)
		if err != nil {
			t.Fatalf("valid configuration without a policy: %v", err)
		}
		for _, th := range policy.Thresholds {
			line, reclaim := th.Value.Of(1<<40).Value, th.MinReclaim.Of(1<<40).Value
			if line < 0 || th.Value.Percent == "" && line == 0 || th.Value.Percent != "" && line > 1<<40 || reclaim < 0 || th.Grace < 0 {
				t.Errorf("threshold %s, reclaim %s: line %d, reclaim %d", th, th.MinReclaim, line, reclaim)
			}
		}
	}
	if c.FillRate() <= 0 || c.MonitoringPeriod <= 0 || c.ReservedMemory() < 0 {
		t.Errorf("%+v", c)
	}
}

// The largest content that is read, of values that the parser makes the most of, costs an agent a bounded part of
// its memory, whether it is valid or not.
func TestParseFile_BoundsMemory(t *testing.T) {
	head := options.FileHead(config.Kind)
	for name, content := range map[string]string{
		"list":            "protectedNamespaces: [" + strings.Repeat("a,", options.MaxFileBytes/2),
		"lines":           "protectedNamespaces:\n" + strings.Repeat("- a\n", options.MaxFileBytes/4),
		"repeated fields": strings.Repeat("verbosity: 1\n", options.MaxFileBytes/13),
	} {
		content = (head + content)[:options.MaxFileBytes-2]
		if name == "list" {
			content = strings.TrimSuffix(content, ",") + "]"
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := config.ParseFile([]byte(content))
		runtime.ReadMemStats(&after)
		if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 64 {
			t.Errorf("%s: %d MiB are allocated, error %.200v", name, allocated, err)
		}
	}
}

// The size of a file is checked before it is read. A configuration in a recording comes from no file.
func TestParseFile_BoundsSize(t *testing.T) {
	head := options.FileHead(config.Kind)
	text := []byte(head + strings.Repeat("#", options.MaxFileBytes+1-len(head)))
	if _, err := config.ParseFile(text[:options.MaxFileBytes]); err != nil {
		t.Errorf("%d bytes: %v", options.MaxFileBytes, err)
	}
	if _, err := config.ParseFile(text); err == nil || err.Error() != "it is larger than 131072 bytes" {
		t.Errorf("%d bytes: %v", len(text), err)
	}
}
