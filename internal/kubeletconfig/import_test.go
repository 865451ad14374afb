package kubeletconfig_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// of returns a capacity function for memory, nodefs and other signals.
func of(memory, nodefs signals.Amount) kubeletconfig.Capacity {
	return func(s signals.Signal) signals.Amount {
		switch s {
		case signals.MemoryAvailable:
			return memory
		case signals.NodefsAvailable:
			return nodefs
		}
		return 1 << 20
	}
}

func unknown(signals.Signal) signals.Amount { return 0 }

func share(t *testing.T, s kubeletconfig.Sources, capacity kubeletconfig.Capacity) kubeletconfig.Shared {
	t.Helper()
	shared, err := s.Share(capacity)
	if err != nil {
		t.Fatal(err)
	}
	return shared
}

func TestShare_HalvesDefaults(t *testing.T) {
	shared := share(t, kubeletconfig.Sources{File: []byte(kubeletHead)}, unknown)
	for _, want := range []string{"memory.available: \"100Mi\"", "nodefs.available: \"12.5%\"", "imagefs.available: \"15%\"", "nodefs.inodesFree: \"5%\""} {
		if !strings.Contains(string(shared.Agent), want) {
			t.Errorf("the agent's configuration has no %s:\n%s", want, shared.Agent)
		}
	}
	want := `evictionHard:
  memory.available: "50Mi"
  nodefs.available: "10%"
  nodefs.inodesFree: "2.5%"
  imagefs.available: "7.5%"
  imagefs.inodesFree: "2.5%"
evictionSoft:
  memory.available: "100Mi"
  nodefs.available: "12.5%"
  nodefs.inodesFree: "5%"
  imagefs.available: "15%"
  imagefs.inodesFree: "5%"
evictionSoftGracePeriod:
  memory.available: "8760h"
  nodefs.available: "8760h"
  nodefs.inodesFree: "8760h"
  imagefs.available: "8760h"
  imagefs.inodesFree: "8760h"
systemReserved:
  memory: "50Mi"
`
	if !strings.HasSuffix(string(shared.Kubelet), want) {
		t.Errorf("the kubelet's configuration:\n%s\nwant the suffix:\n%s", shared.Kubelet, want)
	}
}

func TestShare_UsesCapacities(t *testing.T) {
	shared := share(t, kubeletconfig.Sources{File: []byte(kubeletHead + "systemReserved: {ephemeral-storage: 1Gi, cpu: 100m}\n")}, of(8<<30, 100_000_000_000))
	for _, want := range []string{"nodefs.available: \"5%\"", "ephemeral-storage: \"6073741899\"", "cpu: \"100m\"", "memory: \"50Mi\""} {
		if !strings.Contains(string(shared.Kubelet), want) {
			t.Errorf("the kubelet's configuration has no %s:\n%s", want, shared.Kubelet)
		}
	}
}

func TestSources_ReadDropInsAndFlags(t *testing.T) {
	s := kubeletconfig.Sources{
		File:    []byte(kubeletHead + "evictionHard: {memory.available: 200Mi, nodefs.available: 10%}\nkubeReserved: {memory: 1Gi}\n"),
		DropIns: [][]byte{[]byte(kubeletHead + "evictionHard: {memory.available: 300Mi}\nlocalStorageCapacityIsolation: false\n")},
	}
	c, err := s.Read()
	if err != nil || fmt.Sprint(c.Hard) != "[memory.available<300Mi nodefs.available<10%]" || c.StorageLimits {
		t.Errorf("%v, %v, %v", c.Hard, c.StorageLimits, err)
	}
	s.Args = []string{"/usr/bin/kubelet", "--config=/etc/k.yaml", "--eviction-hard=memory.available<1Gi", "--eviction-soft", "pid.available<100", "--eviction-soft-grace-period=pid.available=1m", "--local-storage-capacity-isolation", "--image-gc-high-threshold=90"}
	c, err = s.Read()
	if err != nil || fmt.Sprint(c.Hard, c.Soft) != "[memory.available<1Gi] [pid.available<100]" || !c.StorageLimits || c.ImageGC.HighPercent != 90 {
		t.Errorf("%+v, %v", c, err)
	}
	if shared := share(t, s, unknown); !strings.Contains(strings.Join(shared.Notes, "\n"), "command line") {
		t.Errorf("no note about flags with precedence over files: %q", shared.Notes)
	}
}

func TestShare_RejectsInvalidConfiguration(t *testing.T) {
	for text, want := range map[string]string{
		"evictionHard: {nodefs.available: 99.99999%}\n": "leaves no room",
		"evictionHard: {nodefs.available: 10%}\nevictionSoft: {nodefs.available: 5Gi}\nevictionSoftGracePeriod: {nodefs.available: 1m}\n": "can not be compared",
		"systemReserved: {memory: lots}\n":         "systemReserved.memory",
		"evictionHard: {memory.available: lots}\n": "must be a positive quantity",
	} {
		shared, err := kubeletconfig.Sources{File: []byte(kubeletHead + text)}.Share(unknown)
		if err == nil || !strings.Contains(err.Error(), want) || shared.Agent != nil {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

// allocatable returns the resources that a kubelet of that configuration offers to pods, in
// thousandths: capacity without reservations and without the hard threshold.
func allocatable(t *testing.T, s kubeletconfig.Sources, resource string, sig signals.Signal, capacity signals.Amount) int64 {
	t.Helper()
	c, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	left := int64(capacity) * 1000
	for _, field := range []string{"systemReserved", "kubeReserved"} {
		last := ""
		for _, data := range append([][]byte{s.File}, s.DropIns...) {
			var faults strictyaml.Faults
			for _, e := range strictyaml.Parse(data, &faults).Entries() {
				if e.Key != field {
					continue
				}
				for _, r := range e.Value.Entries() {
					if r.Key == resource {
						last = r.Value.Text()
					}
				}
			}
		}
		if last != "" {
			q, err := strictyaml.ParseQuantity(last)
			if err != nil {
				t.Fatal(err)
			}
			left -= q.MilliValue()
		}
	}
	for _, h := range c.Hard {
		if h.Signal == sig {
			left -= int64(h.Of(capacity)) * 1000
		}
	}
	return left
}

// random returns a random, plausible configuration.
func random(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString(kubeletHead)
	amounts := []string{"1", "3", "50Mi", "100Mi", "1.5Gi", "1000000007", "12345k"}
	percents := []string{"0%", "1%", "5%", "10%", "12.5%", "33.3%", "0.1%", "60%"}
	pick := func(of []string) string { return of[r.IntN(len(of))] }
	writeMap := func(field string, of []string, values [][]string) {
		fmt.Fprintf(&b, "%s:\n", field)
		for i, key := range of {
			fmt.Fprintf(&b, "  %s: %q\n", key, pick(values[i%len(values)]))
		}
	}
	var hard []string
	for s := range signals.All {
		if r.IntN(3) > 0 {
			hard = append(hard, s.String())
		}
	}
	kind := [][]string{amounts, percents}[r.IntN(2)]
	if r.IntN(5) > 0 && len(hard) > 0 {
		writeMap("evictionHard", hard, [][]string{kind})
		if r.IntN(2) == 0 {
			writeMap("evictionSoft", hard[:1], [][]string{kind})
			writeMap("evictionSoftGracePeriod", hard[:1], [][]string{{"1m30s", "0s", "2h"}})
		}
	}
	if r.IntN(2) == 0 {
		writeMap("systemReserved", []string{"memory", "ephemeral-storage"}[:1+r.IntN(2)], [][]string{{"0", "1Gi", "500M", "0.5Gi", "12345"}})
	}
	if r.IntN(2) == 0 {
		writeMap("kubeReserved", []string{"memory", "cpu"}, [][]string{{"250Mi", "1", "1G"}})
	}
	return b.String()
}

// The guarantees of an import: allocatable is unchanged, to the byte; the agent evicts no pods that use
// no more than allocatable; no configured hard threshold of the kubelet is at or above the agent's; and
// the doctor finds none of thresholdsAgree.
func TestShare_PreservesAllocatable(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		capacity := of(signals.Amount(1<<30+r.Int64N(1<<36)), signals.Amount(1<<33+r.Int64N(1<<41)))
		known := capacity
		if r.IntN(2) == 0 {
			known = unknown
		}
		before := kubeletconfig.Sources{File: []byte(random(r))}
		shared, err := before.Share(known)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, before.File)
		}
		after := kubeletconfig.Sources{File: before.File, DropIns: [][]byte{shared.Kubelet}}
		for _, x := range []struct {
			resource string
			sig      signals.Signal
		}{{"memory", signals.MemoryAvailable}, {"ephemeral-storage", signals.NodefsAvailable}} {
			was, is := allocatable(t, before, x.resource, x.sig, capacity(x.sig)), allocatable(t, after, x.resource, x.sig, capacity(x.sig))
			if was != is {
				t.Errorf("seed %d: allocatable %s was %d, is %d\n%s\n%s", seed, x.resource, was, is, before.File, shared.Kubelet)
			}
			if configured := strings.Contains(string(before.File), "allocatableMemory"); x.sig == signals.MemoryAvailable && !configured {
				checkAllPods(t, seed, after, shared, is, capacity(x.sig))
			}
		}
		checkWithDoctor(t, seed, after, shared, capacity)
	}
}

// thresholdsAgree are the codes that must be absent after an import.
var thresholdsAgree = []string{"kubelet-hard-memory", "kubelet-hard-other", "kubelet-soft-evicts", "kubelet-does-not-report", "kubelet-not-comparable", "storage-limits-both", "storage-limits-unenforced"}

// policyOf returns the policy of the agent.
func policyOf(t *testing.T, shared kubeletconfig.Shared) *eviction.Policy {
	t.Helper()
	c, err := config.ParseFile(shared.Agent)
	if err != nil {
		t.Fatalf("the agent rejects its configuration: %v\n%s", err, shared.Agent)
	}
	policy, err := c.Policy(signals.Single)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// The thresholds of the agent for the limit of all pods. In the first case the limit falls from 300Mi to
// 175Mi, below the whole threshold for memory.
func TestShare_DividesThresholdsForAllPods(t *testing.T) {
	const capacity = 8 << 30
	for name, test := range map[string]struct {
		kubelet string
		known   kubeletconfig.Capacity
		want    string
	}{
		"limit below the whole threshold": {"evictionHard: {memory.available: 250Mi}\nkubeReserved: {memory: 7892Mi}\n", unknown, "[allocatableMemory.available<64000Ki]"},
		"defaults":                        {"", unknown, "[allocatableMemory.available<25Mi]"},
		"percentage":                      {"evictionHard: {memory.available: 5%}\n", of(capacity, 1<<40), "[allocatableMemory.available<1.25%]"},
		"percentage of unknown capacity":  {"evictionHard: {memory.available: 4%}\n", unknown, "[allocatableMemory.available<2%]"},
		"enforced by name":                {"evictionHard: {memory.available: 250Mi}\nenforceNodeAllocatable: [pods, system-reserved]\n", unknown, "[allocatableMemory.available<64000Ki]"},
		"not enforced":                    {"evictionHard: {memory.available: 250Mi}\nenforceNodeAllocatable: [none]\n", unknown, "[]"},
		"no threshold for memory":         {"evictionHard: {nodefs.available: 10%}\n", unknown, "[]"},
		"minimum reclaim":                 {"evictionHard: {memory.available: 250Mi}\nevictionMinimumReclaim: {memory.available: 10Mi}\n", unknown, "[allocatableMemory.available<64000Ki reclaim 10Mi]"},
		"configured, higher":              {"evictionHard: {memory.available: 250Mi, allocatableMemory.available: 600Mi}\n", unknown, "[allocatableMemory.available<300Mi]"},
		"configured, lower":               {"evictionHard: {memory.available: 250Mi, allocatableMemory.available: 100Mi}\n", unknown, "[allocatableMemory.available<64000Ki]"},
		"configured, limit unchanged":     {"evictionHard: {allocatableMemory.available: 100Mi}\n", unknown, "[allocatableMemory.available<100Mi]"},
		"configured, soft": {
			"evictionHard: {memory.available: 250Mi}\nevictionSoft: {allocatableMemory.available: 600Mi}\nevictionSoftGracePeriod: {allocatableMemory.available: 1m}\n",
			unknown, "[allocatableMemory.available<64000Ki allocatableMemory.available<300Mi for 1m0s]",
		},
	} {
		shared := share(t, kubeletconfig.Sources{File: []byte(kubeletHead + test.kubelet)}, test.known)
		got := []string{}
		for _, threshold := range policyOf(t, shared).Thresholds {
			if threshold.Signal != signals.AllocatableMemoryAvailable {
				continue
			}
			text := threshold.String()
			if threshold.MinReclaim != (eviction.Value{}) {
				text += " reclaim " + threshold.MinReclaim.String()
			}
			got = append(got, text)
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("%s: got %v, want %s\n%s", name, got, test.want, shared.Agent)
		}
	}
}

// checkAllPods checks that for the limit of all pods the agent evicts after the kubelet, which evicts
// when they use more than allocatable. offered is allocatable, in thousandths.
func checkAllPods(t *testing.T, seed uint64, after kubeletconfig.Sources, shared kubeletconfig.Shared, offered int64, capacity signals.Amount) {
	t.Helper()
	kubelet, err := after.Read()
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", seed, err, shared.Kubelet)
	}
	at := slices.IndexFunc(kubelet.Hard, func(h kubeletconfig.Threshold) bool { return h.Signal == signals.MemoryAvailable })
	if at < 0 {
		return // a soft threshold without a grace period may apply to the limit, as it did
	}
	limit := signals.Amount(offered/1000) + kubelet.Hard[at].Of(capacity)
	for _, threshold := range policyOf(t, shared).Thresholds {
		if threshold.Signal != signals.AllocatableMemoryAvailable || !threshold.Hard() {
			continue
		}
		if line := limit - threshold.Value.Of(limit).Value; int64(line) <= offered/1000 {
			t.Errorf("seed %d: %s evicts when all pods use more than %d, and allocatable is %d\n%s", seed, threshold, line, offered/1000, shared.Agent)
		}
	}
}

func checkWithDoctor(t *testing.T, seed uint64, after kubeletconfig.Sources, shared kubeletconfig.Shared, capacity kubeletconfig.Capacity) {
	t.Helper()
	policy := policyOf(t, shared)
	kubelet, err := after.Read()
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", seed, err, shared.Kubelet)
	}
	f := doctor.Facts{Ours: doctor.Ours{PressureConditions: "auto", Reclaim: "auto", StorageLimits: "auto"},
		Kubelet: doctor.Known(doctor.Kubelet{Present: true, Config: kubelet}), Capacity: doctor.Known(doctor.Capacity{})}
	for _, p := range policy.Thresholds {
		line, err := kubeletconfig.ParseThreshold(p.Signal, p.Value.String())
		if err != nil {
			t.Fatal(err)
		}
		if p.Signal.Definition().Filesystem != signals.Containerfs {
			f.Ours.Lines = append(f.Ours.Lines, doctor.Line{Threshold: line, Grace: p.Grace})
		}
		f.Capacity.Value[p.Signal] = capacity(p.Signal)
	}
	for _, found := range doctor.Examine(f) {
		for _, code := range thresholdsAgree {
			if found.Code == code {
				t.Errorf("seed %d: %s: %s\n%s\n%s\n%s", seed, code, found.What, after.File, shared.Agent, shared.Kubelet)
			}
		}
	}
}

func FuzzShare(f *testing.F) {
	f.Add([]byte(kubeletHead), int64(8<<30))
	f.Add([]byte(kubeletHead+"evictionHard: {memory.available: 1.5e3, pid.available: 5%, nodefs.available: 50%}\nsystemReserved: {memory: 1Gi}\n"), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, capacity int64) {
		s := kubeletconfig.Sources{File: data}
		shared, err := s.Share(func(signals.Signal) signals.Amount { return signals.Amount(capacity) })
		if err != nil {
			return
		}
		s.DropIns = [][]byte{shared.Kubelet}
		if _, err := s.Read(); err != nil {
			t.Errorf("rejected kubelet configuration: %v\n%s", err, shared.Kubelet)
		}
	})
}
