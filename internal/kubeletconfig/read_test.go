package kubeletconfig_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

const kubeletHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func read(t *testing.T, text string) kubeletconfig.Config {
	t.Helper()
	k, err := kubeletconfig.Read([]byte(kubeletHead + text))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestRead_Defaults(t *testing.T) {
	want := kubeletconfig.Config{
		Hard:             lines(t, "memory.available<100Mi", "nodefs.available<10%", "nodefs.inodesFree<5%", "imagefs.available<15%", "imagefs.inodesFree<5%"),
		TransitionPeriod: 5 * time.Minute, StorageLimits: true,
		ImageGC: kubeletconfig.ImageGC{HighPercent: 85, LowPercent: 80, MinimumAge: 2 * time.Minute},
	}
	for _, text := range []string{"", "evictionHard: null\n", "evictionPressureTransitionPeriod: 0s\n"} {
		if diff := cmp.Diff(want, read(t, text)); diff != "" {
			t.Errorf("%q: -want +got\n%s", text, diff)
		}
	}
}

func TestRead_AllFields(t *testing.T) {
	got := read(t, `
address: 127.0.0.1
authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 2m0s}}
shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 2}]
evictionHard: {memory.available: 200Mi, nodefs.available: "0%", imagefs.inodesFree: "100%", pid.available: "5%", swap.available: 1Gi}
evictionSoft: {memory.available: 1.5Gi}
evictionSoftGracePeriod: {memory.available: 8760h, nodefs.available: 1m}
evictionPressureTransitionPeriod: 30s
localStorageCapacityIsolation: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
imageMinimumGCAge: 5m
imageMaximumGCAge: 24h
`)
	want := kubeletconfig.Config{
		Hard: lines(t, "memory.available<200Mi", "pid.available<5%"), Soft: lines(t, "memory.available<1.5Gi"),
		Grace:            [signals.Count]time.Duration{signals.MemoryAvailable: 8760 * time.Hour},
		TransitionPeriod: 30 * time.Second,
		ImageGC:          kubeletconfig.ImageGC{HighPercent: 100, LowPercent: 99, MinimumAge: 5 * time.Minute, MaximumAge: 24 * time.Hour},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestRead_MergesDefaultsOnRequest(t *testing.T) {
	got := read(t, "mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 1Gi, nodefs.inodesFree: '0%'}\n").Hard
	want := lines(t, "memory.available<1Gi", "nodefs.available<10%", "imagefs.available<15%", "imagefs.inodesFree<5%")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestRead_RejectsInvalidFields(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "kind: must be KubeletConfiguration"},
		{"kind: Pod\napiVersion: v1\n", "apiVersion: v1: must begin with kubelet.config.k8s.io/"},
		{"[1]", "must be a mapping"},
		{kubeletHead + "evictionHard: [a]\n", "evictionHard: [\"a\"]: must be a mapping"},
		{kubeletHead + "evictionHard: {memory.available: lots}\n", "evictionHard[memory.available]: \"lots\": must be a positive quantity"},
		{kubeletHead + "evictionHard: {memory.available: ''}\n", "evictionHard[memory.available]"},
		{kubeletHead + "evictionHard: {memory.available: -1}\n", "evictionHard[memory.available]: -1: must be a positive quantity"},
		{kubeletHead + "evictionHard: {memory.available: 101%}\n", "must be a percentage between"},
		{kubeletHead + "evictionSoft: {memory.available: 1Gi}\n", "evictionSoft[memory.available]: 1Gi: has no entry in evictionSoftGracePeriod"},
		{kubeletHead + "evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: -1s}\n", "evictionSoftGracePeriod[memory.available]: \"-1s\": must not be negative"},
		{kubeletHead + "evictionPressureTransitionPeriod: soon\n", "evictionPressureTransitionPeriod: \"soon\": must be a duration"},
		{kubeletHead + "localStorageCapacityIsolation: 1\n", "localStorageCapacityIsolation: 1: must be true or false"},
		{kubeletHead + "a: 1\na: 2\n", "not valid YAML or JSON"},
	} {
		_, err := kubeletconfig.Read([]byte(test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got %v, want an error with %q", test.text, err, test.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(kubeletHead))
	f.Add([]byte(kubeletHead + "evictionHard: {memory.available: 1.5e3, pid.available: 5%}\nevictionSoft: {nodefs.available: 10%}\nevictionSoftGracePeriod: {nodefs.available: 1m}\n"))
	f.Add([]byte(`{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1","evictionHard":{"memory.available":"9E"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := kubeletconfig.Read(data)
		if err != nil {
			if len(k.Hard)+len(k.Soft) > 0 {
				t.Errorf("thresholds despite an error: %+v", k)
			}
			return
		}
		for _, l := range append(k.Hard, k.Soft...) {
			if l.Amount < 0 || l.Percent < 0 || l.Percent > 100 || l.Text == "" {
				t.Errorf("invalid threshold: %+v", l)
			}
		}
		if k.TransitionPeriod <= 0 {
			t.Errorf("transition period %s, want more than 0", k.TransitionPeriod)
		}
	})
}
