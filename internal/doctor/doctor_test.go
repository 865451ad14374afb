package doctor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

const gib = 1 << 30

func line(t *testing.T, text string, grace time.Duration) doctor.Line {
	t.Helper()
	name, value, _ := strings.Cut(text, "<")
	s, err := signals.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := kubeletconfig.ParseThreshold(s, value)
	if err != nil {
		t.Fatal(err)
	}
	return doctor.Line{Threshold: l, Grace: grace}
}

func kubelet(t *testing.T, text string) doctor.Fact[doctor.Kubelet] {
	t.Helper()
	c, err := kubeletconfig.Read([]byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	return doctor.Known(doctor.Kubelet{Present: true, Config: c, Source: "/var/lib/kubelet/config.yaml"})
}

const sharedKubelet = `
evictionHard: {memory.available: 250Mi, nodefs.available: 5%, imagefs.available: 5%}
evictionSoft: {memory.available: 500Mi, nodefs.available: 10%, imagefs.available: 12%}
evictionSoftGracePeriod: {memory.available: 8760h, nodefs.available: 8760h, imagefs.available: 8760h}
`

// healthy returns a node without findings.
func healthy(t *testing.T) doctor.Facts {
	t.Helper()
	return doctor.Facts{
		Node: "n1",
		Ours: doctor.Ours{
			Lines: []doctor.Line{line(t, "memory.available<500Mi", 0), line(t, "allocatableMemory.available<500Mi", 0),
				line(t, "nodefs.available<10%", 0), line(t, "imagefs.available<12%", 0)},
			MaxFillRate: 4 * gib, Reclaim: "auto", StorageLimits: "auto", PressureConditions: "auto", NodeCgroup: "/", DisarmFile: "/run/plimsoll/disarm",
		},
		KernelRelease: doctor.Known("6.1.0-18-amd64"),
		Cgroups:       doctor.Known(doctor.Cgroups{Version: 2}),
		StallFault:    doctor.Known(""),
		Pods:          doctor.Known(doctor.Pods{Root: "/kubepods.slice", Populated: true, Places: []string{"/kubepods", "/kubepods.slice"}}),
		Swap:          doctor.Known(signals.Bytes(0)),
		Processes: doctor.Known([]doctor.Process{{PID: 1, Name: "systemd"}, {PID: 7, Name: "plimsoll", Args: []string{"/plimsoll", "agent"}},
			{PID: 8, Name: "plimsoll", Args: []string{"/plimsoll", "doctor"}}, {PID: 9, Name: "plimsoll", Args: []string{"/plimsoll", "agent", "--node-cgroup=/other"}}}),
		StateFault: doctor.Known(""),
		Disarmed:   doctor.Known(false), KernelLogFault: doctor.Known(""),
		Capacity: doctor.Known(doctor.Capacity{signals.MemoryAvailable: 16 * gib, signals.NodefsAvailable: 100 * gib}),
		Kubelet:  kubelet(t, sharedKubelet),
		Runtime:  doctor.Known(doctor.Runtime{}),
		Server: &doctor.Server{Ahead: doctor.Known(-300 * time.Millisecond), Denied: doctor.Known([]doctor.Right(nil)),
			KubeletVersion: doctor.Known("v1.37.2"), Images: doctor.Known([]string{"registry.k8s.io/pause:3.10"})},
	}
}

// softEvictions is a kubelet that evicts before the agent's hard threshold.
const softEvictions = `evictionSoft: {memory.available: 700Mi, nodefs.available: 10%, imagefs.available: 12%}
evictionSoftGracePeriod: {memory.available: 1m30s, nodefs.available: 8760h, imagefs.available: 8760h}`

// variant introduces one fault, or another valid state.
type variant struct {
	codes string // expected codes, with commas, and no others
	text  string // contained in the finding or in its remedy
	apply func(*testing.T, *doctor.Facts)
}

var variants = []variant{
	{"", "", func(*testing.T, *doctor.Facts) {}},
	{"pods-source-missing", "neither an API server nor", func(_ *testing.T, f *doctor.Facts) { f.Server = nil }},
	{"", "", func(_ *testing.T, f *doctor.Facts) { f.Server, f.Ours.PodManifests = nil, "/pods" }},
	{"pods-source-missing", "cannot be read: no such file", func(_ *testing.T, f *doctor.Facts) {
		f.Server, f.Ours.PodManifests, f.Pods.Value.ManifestsFault = nil, "/pods", "no such file"
	}},
	{"pods-cgroup-missing", "none of /kubepods, /kubepods.slice exists, though the node has a kubelet", func(_ *testing.T, f *doctor.Facts) {
		f.Pods.Value.Root, f.Pods.Value.Populated = "", false
	}},
	{"pods-cgroup-missing", "a process of a pod runs in /kubelet/kubepods/podab", func(_ *testing.T, f *doctor.Facts) {
		f.Pods.Value.Root, f.Pods.Value.Populated, f.Pods.Value.Elsewhere = "", false, "/kubelet/kubepods/podab"
	}},
	{"pods-cgroup-missing", "--kubelet-cgroup-root", func(_ *testing.T, f *doctor.Facts) { // a leftover
		f.Pods.Value.Populated, f.Pods.Value.Elsewhere = false, "/kubelet/kubepods/podab"
	}},
	{"", "", func(_ *testing.T, f *doctor.Facts) { f.Pods.Value.Populated = false }}, // a node without pods
	{"pods-cgroup-missing", "/pods has 2 manifests", func(_ *testing.T, f *doctor.Facts) {
		f.Server, f.Kubelet, f.Ours.PodManifests = nil, doctor.Known(doctor.Kubelet{}), "/pods"
		f.Pods.Value = doctor.Pods{Places: f.Pods.Value.Places, Manifests: 2}
	}},
	{"", "", func(_ *testing.T, f *doctor.Facts) { // before the first pod
		f.Server, f.Kubelet, f.Ours.PodManifests = nil, doctor.Known(doctor.Kubelet{}), "/pods"
		f.Pods.Value = doctor.Pods{Places: f.Pods.Value.Places}
	}},
	{"", "", func(_ *testing.T, f *doctor.Facts) { f.Kubelet = doctor.Known(doctor.Kubelet{}) }},
	{"", "", func(_ *testing.T, f *doctor.Facts) { f.KernelRelease = doctor.Known("5.3") }},
	{"kernel-old", "5.2.9-arch1", func(_ *testing.T, f *doctor.Facts) { f.KernelRelease = doctor.Known("5.2.9-arch1") }},
	{"kernel-old", "4.18.0", func(_ *testing.T, f *doctor.Facts) { f.KernelRelease = doctor.Known("4.18.0-553.el8") }},
	{"kernel-old", "no version", func(_ *testing.T, f *doctor.Facts) { f.KernelRelease = doctor.Known("custom") }},
	{"cgroups-unusable", "no memory controller", func(_ *testing.T, f *doctor.Facts) {
		f.Cgroups = doctor.Known(doctor.Cgroups{Fault: "it has no memory controller"})
	}},
	{"cgroup-controller-missing", "pids", func(_ *testing.T, f *doctor.Facts) {
		f.Cgroups.Value.Missing = []string{"pids"}
	}},
	{"cgroup-v1", "", func(_ *testing.T, f *doctor.Facts) { f.Cgroups.Value.Version = 1 }},
	{"cgroup-kill-missing", "", func(_ *testing.T, f *doctor.Facts) { f.Cgroups.Value.NoKill = true }},
	{"cgroup-hybrid", "", func(_ *testing.T, f *doctor.Facts) {
		f.Cgroups = doctor.Known(doctor.Cgroups{Version: 1, Hybrid: true})
	}},
	{"psi-off", "no such file", func(_ *testing.T, f *doctor.Facts) { f.StallFault = doctor.Known("no such file") }},
	{"swap-on", "2Gi", func(_ *testing.T, f *doctor.Facts) { f.Swap = doctor.Known(signals.Bytes(2 * gib)) }},
	{"systemd-oomd", "process 77", withProcess("systemd-oomd")},
	{"other-eviction-agent", "earlyoom runs as process 77", withProcess("earlyoom")},
	{"other-eviction-agent", "koordlet:v1.6", func(_ *testing.T, f *doctor.Facts) {
		f.Server.Images = doctor.Known([]string{"r.example:5000/koordinator-sh/koordlet:v1.6@sha256:00"})
	}},
	{"two-agents", "7, 77", func(_ *testing.T, f *doctor.Facts) {
		f.Processes.Value = append(f.Processes.Value, doctor.Process{PID: 77, Name: "plimsoll", Args: []string{"plimsoll", "agent", "--node-cgroup", "/"}})
	}},
	{"two-agents", "7, 77", func(_ *testing.T, f *doctor.Facts) {
		f.Processes.Value = append(f.Processes.Value, doctor.Process{PID: 77, Name: "plimsoll", Args: []string{"plimsoll", "agent", "--config=/a.yaml"}})
	}},
	{"kernel-log-unreadable", "agent.kernelLog", func(_ *testing.T, f *doctor.Facts) { f.KernelLogFault = doctor.Known("open /dev/kmsg: no such file") }},
	{"state-not-writable", "read-only", func(_ *testing.T, f *doctor.Facts) { f.StateFault = doctor.Known("read-only file system") }},
	{"disarmed-by-file", "/run/plimsoll/disarm", func(_ *testing.T, f *doctor.Facts) { f.Disarmed = doctor.Known(true) }},
	{"threshold-small", "raise the threshold to 901Mi", func(_ *testing.T, f *doctor.Facts) { f.Ours.MaxFillRate *= 4 }},
	{"threshold-small", "allocatableMemory.available<1Mi protects up to 18Mi/s", func(t *testing.T, f *doctor.Facts) {
		f.Ours.Lines[1] = line(t, "allocatableMemory.available<1Mi", 0)
		f.Kubelet = doctor.Known(doctor.Kubelet{})
	}},
	{"", "", func(t *testing.T, f *doctor.Facts) { // the kubelet's memory.available acts there first
		f.Ours.Lines[1] = line(t, "allocatableMemory.available<1Mi", 0)
	}},
	{"", "", func(t *testing.T, f *doctor.Facts) { // a higher one acts first
		f.Ours.Lines = append(f.Ours.Lines, line(t, "allocatableMemory.available<1Mi", 0))
		f.Kubelet = doctor.Known(doctor.Kubelet{})
	}},

	{"kubelet-hard-memory", "memory.available<500Mi (/var/lib/kubelet/config.yaml) is not below", withKubelet("evictionHard: {memory.available: 500Mi, nodefs.available: 5%}")},
	{"kubelet-hard-memory", "memory.available<50%", withKubelet("evictionHard: {memory.available: 50%, nodefs.available: 5%}")},
	{"kubelet-hard-other", "nodefs.available<20Gi", withKubelet("evictionHard: {memory.available: 50Mi, nodefs.available: 20Gi}")},
	{"kubelet-soft-evicts", "met for 1m30s", withKubelet(softEvictions)},
	{"", "", func(t *testing.T, f *doctor.Facts) { // the agent's soft threshold comes first
		withKubelet(softEvictions)(t, f)
		f.Ours.Lines = append(f.Ours.Lines, line(t, "memory.available<700Mi", time.Minute))
	}},
	{"kubelet-does-not-report", `evictionSoft: {memory.available: "500Mi"} and evictionSoftGracePeriod: {memory.available: "8760h"}`,
		withKubelet("evictionSoft: {memory.available: 499Mi, nodefs.available: 10%, imagefs.available: 12%}")},
	{"", "", func(t *testing.T, f *doctor.Facts) { // by its own condition types
		withKubelet("evictionSoft: {}\nevictionSoftGracePeriod: {}")(t, f)
		f.Ours.PressureConditions = "own"
	}},
	{"kubelet-not-comparable", "imagefs.available<1Gi of the kubelet", func(t *testing.T, f *doctor.Facts) {
		withKubelet("evictionHard: {memory.available: 50Mi, nodefs.available: 5%, imagefs.available: 1Gi}")(t, f)
	}},
	{"kubelet-no-backstop", "memory.available", withKubelet("evictionHard: {memory.available: 0%, nodefs.available: 5%}")},
	{"image-gc-both", "from 85% on", func(_ *testing.T, f *doctor.Facts) { f.Ours.Reclaim = "on" }},
	{"", "", func(t *testing.T, f *doctor.Facts) {
		withKubelet("imageGCHighThresholdPercent: 100")(t, f)
		f.Ours.Reclaim = "on"
	}},
	{"image-gc-late", "10% of imagefs are left", withKubelet("imageGCHighThresholdPercent: 90")},
	{"storage-limits-both", "", func(_ *testing.T, f *doctor.Facts) { f.Ours.StorageLimits = "on" }},
	{"kubelet-blind,storage-limits-unenforced", "", func(t *testing.T, f *doctor.Facts) {
		withKubelet("localStorageCapacityIsolation: false")(t, f)
		f.Ours.StorageLimits = "off"
	}},
	{"kubelet-blind", "config.yaml) is false", withKubelet("localStorageCapacityIsolation: false")}, // the agent enforces the limits

	{"runtime-unreachable", "connection refused", func(_ *testing.T, f *doctor.Facts) { f.Runtime.Value.Fault = "connection refused" }},
	{"runtime-api-old", "v1alpha2", func(_ *testing.T, f *doctor.Facts) {
		f.Runtime.Value.Fault, f.Runtime.Value.Old = "unknown service: only v1alpha2", true
	}},
	{"right-missing", "patch pods/status is missing: evicted pods are started again", func(_ *testing.T, f *doctor.Facts) {
		f.Server.Denied = doctor.Known([]doctor.Right{{Verb: "patch", Resource: "pods", Subresource: "status", Loss: "evicted pods are started again"}})
	}},
	{"record-right-missing", "create configmaps in plimsoll-evictions is missing: evictions are not recorded", func(_ *testing.T, f *doctor.Facts) {
		f.Server.Denied = doctor.Known([]doctor.Right{{Verb: "create", Resource: "configmaps", Namespace: "plimsoll-evictions", Loss: "evictions are not recorded", Record: true}})
	}},
	{"clock-skew", "5s behind", func(_ *testing.T, f *doctor.Facts) { f.Server.Ahead = doctor.Known(-5 * time.Second) }},
	{"clock-skew-large", "1m0s ahead of", func(_ *testing.T, f *doctor.Facts) { f.Server.Ahead = doctor.Known(time.Minute) }},
	{"kubelet-version", "v1.33.2", func(_ *testing.T, f *doctor.Facts) { f.Server.KubeletVersion = doctor.Known("v1.33.2") }},
	{"kubelet-version", "v1.38.0", func(_ *testing.T, f *doctor.Facts) { f.Server.KubeletVersion = doctor.Known("v1.38.0-alpha.1") }},

	{"unknown-kernel", "EIO", func(_ *testing.T, f *doctor.Facts) { f.KernelRelease = doctor.Unknown[string]("EIO") }},
	{"unknown-cgroups", "EIO", func(_ *testing.T, f *doctor.Facts) { f.Cgroups = doctor.Unknown[doctor.Cgroups]("EIO") }},
	{"unknown-psi", "EIO", func(_ *testing.T, f *doctor.Facts) { f.StallFault = doctor.Unknown[string]("EIO") }},
	{"unknown-swap", "EIO", func(_ *testing.T, f *doctor.Facts) { f.Swap = doctor.Unknown[signals.Bytes]("EIO") }},
	{"unknown-processes", "EIO", func(_ *testing.T, f *doctor.Facts) { f.Processes = doctor.Unknown[[]doctor.Process]("EIO") }},
	{"unknown-capacity", "EIO", func(_ *testing.T, f *doctor.Facts) { f.Capacity = doctor.Unknown[doctor.Capacity]("EIO") }},
	{"unknown-state", "EIO", func(_ *testing.T, f *doctor.Facts) { f.StateFault = doctor.Unknown[string]("EIO") }},
	{"unknown-disarm-file", "EIO", func(_ *testing.T, f *doctor.Facts) { f.Disarmed = doctor.Unknown[bool]("EIO") }},
	{"unknown-kubelet", "EIO", func(_ *testing.T, f *doctor.Facts) { f.Kubelet = doctor.Unknown[doctor.Kubelet]("EIO") }},
	{"unknown-runtime", "EIO", func(_ *testing.T, f *doctor.Facts) { f.Runtime = doctor.Unknown[doctor.Runtime]("EIO") }},
	{"unknown-clock", "EIO", func(_ *testing.T, f *doctor.Facts) { f.Server.Ahead = doctor.Unknown[time.Duration]("EIO") }},
	{"unknown-rights", "EIO", func(_ *testing.T, f *doctor.Facts) { f.Server.Denied = doctor.Unknown[[]doctor.Right]("EIO") }},
	{"unknown-kubelet-version", "EIO", func(_ *testing.T, f *doctor.Facts) { f.Server.KubeletVersion = doctor.Unknown[string]("EIO") }},
	{"unknown-pods", "EIO", func(_ *testing.T, f *doctor.Facts) { f.Server.Images = doctor.Unknown[[]string]("EIO") }},
}

func withProcess(name string) func(*testing.T, *doctor.Facts) {
	return func(_ *testing.T, f *doctor.Facts) {
		f.Processes.Value = append(f.Processes.Value, doctor.Process{PID: 77, Name: name})
	}
}

// withKubelet changes the kubelet's configuration by a drop-in file.
func withKubelet(text string) func(*testing.T, *doctor.Facts) {
	return func(t *testing.T, f *doctor.Facts) {
		var preserved strings.Builder
		for l := range strings.Lines(sharedKubelet) {
			field, _, _ := strings.Cut(l, ":")
			if !strings.Contains("\n"+text, "\n"+field+":") {
				preserved.WriteString(l)
			}
		}
		f.Kubelet = kubelet(t, preserved.String()+text+"\n")
	}
}

func codesOf(found []doctor.Finding) string {
	var codes []string
	for _, f := range found {
		codes = append(codes, f.Code)
	}
	return strings.Join(codes, ",")
}

func TestExamine_ReportsEachFinding(t *testing.T) {
	covered := map[string]bool{}
	for i, p := range variants {
		f := healthy(t)
		p.apply(t, &f)
		found := doctor.Examine(f)
		if got := codesOf(found); got != p.codes {
			t.Errorf("variant %d: found %q, want %q: %+v", i, got, p.codes, found)
			continue
		}
		for code := range strings.SplitSeq(p.codes, ",") {
			covered[code] = true
		}
		for _, x := range found {
			if x.Node != "n1" || x.What == "" || x.Remedy == "" || !strings.Contains(x.What+x.Remedy, p.text) {
				t.Errorf("variant %d: %+v, want text with %q", i, x, p.text)
			}
		}
	}
	for _, c := range doctor.NodeCodes() {
		if !covered[c.Code] {
			t.Errorf("no test case for %s", c.Code)
		}
	}
}

// Every unknown fact is reported, and no node without known facts is healthy.
func TestExamine_ReportsUnknownFacts(t *testing.T) {
	found := doctor.Examine(doctor.Facts{Server: &doctor.Server{}})
	var want []string
	for _, c := range doctor.NodeCodes() {
		if strings.HasPrefix(c.Code, "unknown-") {
			want = append(want, c.Code)
		}
	}
	for _, f := range found {
		want = slices.DeleteFunc(want, func(code string) bool { return code == f.Code })
	}
	if len(want) > 0 || !doctor.Incomplete(found) || len(doctor.Errors(found, nil)) > 0 {
		t.Errorf("missing findings %v in %+v", want, found)
	}
}

func TestErrors_OmitsAcceptedCodes(t *testing.T) {
	f := healthy(t)
	withProcess("earlyoom")(t, &f)
	f.Ours.Lines[0] = line(t, "memory.available<100Mi", 0)
	found := doctor.Examine(f)
	if got := doctor.Errors(found, []string{"kubelet-hard-memory"}); !slices.Equal(got, []string{"other-eviction-agent"}) || doctor.Worst(found) != doctor.Error {
		t.Errorf("got errors %v of %s", got, codesOf(found))
	}
	if found[0].Severity != doctor.Error || found[len(found)-1].Severity == doctor.Error {
		t.Errorf("not sorted by severity: %s", codesOf(found))
	}
}

func TestCodes_FollowOneForm(t *testing.T) {
	known := map[string]doctor.Code{}
	for _, c := range doctor.Codes() {
		if before, found := known[c.Code]; found && before.Means != c.Means && !strings.HasPrefix(c.Code, "unknown-") {
			t.Errorf("%s means two things", c.Code)
		}
		known[c.Code] = c
		if c.Code != strings.ToLower(c.Code) || strings.ContainsAny(c.Code, " _,") || !strings.HasSuffix(c.Means, ".") || c.Remedy == "" || strings.HasSuffix(c.Remedy, ".") {
			t.Errorf("%+v", c)
		}
	}
}
