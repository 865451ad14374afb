package nodestatus

import (
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

func TestMode_OwnersAndReason(t *testing.T) {
	line := func(text string) []kubeletconfig.Threshold {
		parsed, err := kubeletconfig.ParseThreshold(signals.MemoryAvailable, text)
		if err != nil {
			t.Fatal(err)
		}
		return []kubeletconfig.Threshold{parsed}
	}
	bare, beside := &corev1.Node{}, &corev1.Node{}
	beside.Status.NodeInfo.KubeletVersion = "v1.36.0"
	for _, test := range []struct {
		mode    Mode
		node    *corev1.Node
		kubelet *kubeletconfig.Config
		memory  Owner
		why     string
	}{
		{Auto, bare, nil, StandardTypes, "the Node names no kubelet"},
		{Auto, beside, nil, OwnTypes, "the kubelet's configuration is not known, and it rewrites the standard types"},
		{Auto, beside, &kubeletconfig.Config{Soft: line("200Mi")}, KubeletReports, "the kubelet's own thresholds lie at or above all of the agent's"},
		{Auto, beside, &kubeletconfig.Config{Soft: line("50Mi")}, OwnTypes, "where the kubelet has no threshold at or above the agent's, it would rewrite the standard types"},
		{ModeOwn, beside, &kubeletconfig.Config{Soft: line("200Mi")}, OwnTypes, "--pressure-conditions is set so"},
		{Off, bare, nil, KubeletReports, "--pressure-conditions is set so"},
	} {
		owners, why := test.mode.Owners(test.node, test.kubelet, line("100Mi")), test.mode.Why(test.node, test.kubelet, line("100Mi"))
		if owners[signals.MemoryPressure] != test.memory || why != test.why {
			t.Errorf("%s: %s, %q; want memory=%s, %q", test.mode, owners, why, test.memory, test.why)
		}
	}
}

// The owners are logged at the start and at every change, not at every check.
func TestConditions_LogsOwnersOnChange(t *testing.T) {
	var now atomic.Uint32
	owner := func() Owner { return Owner(now.Load()) }
	now.Store(uint32(OwnTypes))
	p := ConditionParts{Owner: func(*corev1.Node) Owners { return owner().All() }, Why: func(*corev1.Node) string { return "since " + owner().String() }}
	run(t, p, func(_ *fakeAPI, c *Conditions, log *logcapture.Book) {
		c.Set(0, Crossings{})
		pass(time.Minute)
		now.Store(uint32(KubeletReports))
		pass(time.Minute)
		for part, times := range map[string]int{"Determined the owners": 2, "MemoryPressure=own": 1, "MemoryPressure=kubelet": 1, "since kubelet": 1} {
			if log.Count(part) != times {
				t.Errorf("%q is logged %d times, want %d: %s", part, log.Count(part), times, log)
			}
		}
	})
}
