package nodestatus_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
	"plimsoll.dev/plimsoll/internal/nodestatus"
)

// lines parses thresholds such as memory.available<100Mi.
func lines(t *testing.T, texts ...string) []kubeletconfig.Threshold {
	t.Helper()
	var all []kubeletconfig.Threshold
	for _, text := range texts {
		name, value, _ := strings.Cut(text, "<")
		s, err := signals.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		line, err := kubeletconfig.ParseThreshold(s, value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line)
	}
	return all
}

func nodeWithKubelet(version string) *corev1.Node {
	n := &corev1.Node{}
	n.Status.NodeInfo.KubeletVersion = version
	n.Status.Capacity = corev1.ResourceList{
		corev1.ResourceMemory:           resource.MustParse("10Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	return n
}

func TestDetect_ComparesThresholds(t *testing.T) {
	const kubelet, own, standard = nodestatus.KubeletReports, nodestatus.OwnTypes, nodestatus.StandardTypes
	const kubeletVersion = "v1.36.3"
	tests := []struct {
		name       string
		version    string
		soft, hard []string // the kubelet's
		lines      []string // the agent's
		disk, mem  nodestatus.Owner
		pid        nodestatus.Owner
	}{
		{"no kubelet", "", nil, nil, []string{"memory.available<1Gi"}, standard, standard, standard},
		{"kubelet without thresholds", kubeletVersion, nil, nil, []string{"memory.available<1Gi", "nodefs.available<10%", "pid.available<1k"}, own, own, own},
		{"condition without thresholds of the agent", kubeletVersion, nil, nil, []string{"memory.available<1Gi"}, kubelet, own, kubelet},
		{"soft threshold equal to the agent's", kubeletVersion, []string{"memory.available<1Gi"}, []string{"memory.available<100Mi"}, []string{"memory.available<1Gi"}, kubelet, kubelet, kubelet},
		{"soft threshold above", kubeletVersion, []string{"memory.available<2Gi"}, nil, []string{"memory.available<1Gi"}, kubelet, kubelet, kubelet},
		{"soft threshold below", kubeletVersion, []string{"memory.available<1023Mi"}, nil, []string{"memory.available<1Gi"}, kubelet, own, kubelet},
		{"hard threshold equal to the agent's", kubeletVersion, nil, []string{"memory.available<1Gi"}, []string{"memory.available<1Gi"}, kubelet, kubelet, kubelet},
		{"one of two thresholds uncovered", kubeletVersion, []string{"nodefs.available<10%"}, nil, []string{"nodefs.available<10%", "nodefs.inodesFree<5%"}, own, kubelet, kubelet},
		{"agent's soft threshold uncovered", kubeletVersion, []string{"memory.available<100Mi"}, nil, []string{"memory.available<100Mi", "memory.available<1Gi"}, kubelet, own, kubelet},
		{"percentage of known capacity", kubeletVersion, []string{"memory.available<10%"}, nil, []string{"memory.available<1Gi"}, kubelet, kubelet, kubelet},
		{"lower percentage of known capacity", kubeletVersion, []string{"memory.available<9%"}, nil, []string{"memory.available<1Gi"}, kubelet, own, kubelet},
		{"lower percentage", kubeletVersion, []string{"nodefs.inodesFree<4%"}, nil, []string{"nodefs.inodesFree<5%"}, own, kubelet, kubelet},
		{"equal percentages", kubeletVersion, []string{"nodefs.inodesFree<5%"}, nil, []string{"nodefs.inodesFree<5.0%"}, kubelet, kubelet, kubelet},
		{"percentage of unknown capacity", kubeletVersion, []string{"imagefs.available<50%"}, nil, []string{"imagefs.available<1Gi"}, own, kubelet, kubelet},
		{"threshold of another signal", kubeletVersion, []string{"imagefs.available<50%"}, nil, []string{"nodefs.available<10%"}, own, kubelet, kubelet},
		{"allocatable memory covered by memory", kubeletVersion, []string{"memory.available<1Gi"}, nil, []string{"memory.available<1Gi", "allocatableMemory.available<1Gi"}, kubelet, kubelet, kubelet},
		{"containerfs covered by nodefs", kubeletVersion, []string{"nodefs.available<10%"}, nil, []string{"nodefs.available<10%", "containerfs.available<10%"}, kubelet, kubelet, kubelet},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			k := kubeletconfig.Config{Soft: lines(t, test.soft...), Hard: lines(t, test.hard...)}
			got := nodestatus.Detect(nodeWithKubelet(test.version), &k, lines(t, test.lines...))
			want := nodestatus.Owners{signals.DiskPressure: test.disk, signals.MemoryPressure: test.mem, signals.PIDPressure: test.pid}
			if got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestDetect_UsesOwnTypesForUnknownKubeletConfig(t *testing.T) {
	got := nodestatus.Detect(nodeWithKubelet("v1.36.3"), nil, lines(t, "memory.available<1Gi"))
	if want := (nodestatus.Owners{signals.MemoryPressure: nodestatus.OwnTypes}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestParseMode_SelectsOwners(t *testing.T) {
	n := nodeWithKubelet("v1.36.3")
	for text, want := range map[string]nodestatus.Owner{
		"auto": nodestatus.OwnTypes, "kubelet": nodestatus.KubeletReports, "own": nodestatus.OwnTypes,
		"standard": nodestatus.StandardTypes, "off": nodestatus.KubeletReports,
	} {
		m, err := nodestatus.ParseMode(text)
		if err != nil {
			t.Fatal(err)
		}
		all := lines(t, "memory.available<1Gi", "nodefs.available<10%", "pid.available<1k")
		if got := m.Owners(n, nil, all); got != want.All() {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	if _, err := nodestatus.ParseMode("kublet"); err == nil || !strings.Contains(err.Error(), "auto, kubelet, own, standard, off") {
		t.Errorf("unknown mode: got error %v", err)
	}
}
