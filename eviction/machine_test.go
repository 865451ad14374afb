package eviction_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// The kubelet's own rules, one scenario each.
func TestEvaluate_PeriodicChecks(t *testing.T) {
	runScenarios(t, []scenario{
		{"strictly less than the threshold", thresholds(hard("memory", "100Mi")), `
			0s  memory=100Mi    -> -
			10s memory=99Mi     -> met=memory act=memory<100Mi cond=Memory
			20s memory=0        -> met=memory act=memory<100Mi cond=Memory
		`},
		{"one byte less than the threshold", thresholds(hard("memory", "100Mi")), `
			0s  memory=104857600 -> -
			10s memory=104857599 -> met=memory act=memory<100Mi cond=Memory
		`},
		{"percentage of the observed capacity", thresholds(hard("nodefs", "10%")), `
			0s  nodefs=11Gi/100Gi containerfs=11Gi/100Gi -> -
			10s nodefs=11Gi/111Gi containerfs=12Gi/111Gi -> met=nodefs act=nodefs<10% reclaim=containers,images cond=Disk
		`},
		{"percentage truncated like the kubelet's float32", thresholds(hard("pids", "15%")), `
			# float32(15)/100 is a little more than 0.15, and 0.15 × 107374182400 comes to 16106128000
			0s  pids=16106128000/107374182400 -> -
			10s pids=16106127999/107374182400 -> met=pids act=pids<15% cond=PID
		`},
		{"exactly a tenth is less than 10%", thresholds(hard("memory", "10%")), `
			0s memory=10Gi/100Gi -> met=memory act=memory<10% cond=Memory
		`},
		{"soft threshold waits for exactly its grace period", thresholds(soft("memory", "300Mi", time.Minute)), `
			0s      memory=200Mi -> cond=Memory
			30s     memory=200Mi -> cond=Memory
			59.999s memory=200Mi -> cond=Memory
			60s     memory=200Mi -> met=memory act=memory<300Mi cond=Memory
		`},
		{"one sample above resets a soft timer", thresholds(soft("memory", "300Mi", time.Minute)), `
			0s  memory=200Mi -> cond=Memory
			50s memory=300Mi -> cond=Memory
			51s memory=200Mi -> cond=Memory
			61s memory=200Mi -> cond=Memory
			111s memory=200Mi -> met=memory act=memory<300Mi cond=Memory
		`},
		{"soft threshold with grace 0s", thresholds(soft("memory", "300Mi", 0)), `
			0s  memory=200Mi -> met=memory act=memory<300Mi cond=Memory
		`},
		{"minimum reclaim above the threshold", thresholds(reclaiming(hard("memory", "1Gi"), "500Mi")), `
			0s  memory=1200Mi -> -
			10s memory=1000Mi -> met=memory act=memory<1Gi cond=Memory
			20s memory=1200Mi -> met=memory act=memory<1Gi cond=Memory
			30s memory=1523Mi -> met=memory act=memory<1Gi cond=Memory
			40s memory=1524Mi -> cond=Memory
			50s memory=1200Mi -> cond=Memory
		`},
		{"minimum reclaim as an unbounded percentage", thresholds(reclaiming(hard("memory", "1Gi"), "150%")), `
			0s  memory=1Mi/2Gi -> met=memory act=memory<1Gi cond=Memory
			10s memory=2Gi/2Gi -> met=memory act=memory<1Gi cond=Memory
		`},
		{"no minimum reclaim during the grace period", thresholds(reclaiming(soft("memory", "300Mi", time.Minute), "200Mi")), `
			0s   memory=200Mi -> cond=Memory
			30s  memory=400Mi -> cond=Memory
			60s  memory=200Mi -> cond=Memory
			120s memory=200Mi -> met=memory act=memory<300Mi cond=Memory
			130s memory=499Mi -> met=memory act=memory<300Mi cond=Memory
			140s memory=500Mi -> cond=Memory
		`},
		{"condition cleared after the transition period", thresholds(hard("memory", "100Mi")), `
			0s   memory=90Mi -> met=memory act=memory<100Mi cond=Memory
			10s  memory=90Mi -> met=memory act=memory<100Mi cond=Memory
			20s  memory=1Gi  -> cond=Memory
			309.999s memory=1Gi -> cond=Memory
			310s memory=1Gi  -> -
			320s memory=90Mi -> met=memory act=memory<100Mi cond=Memory
		`},
		{"condition stays True during minimum reclaim",
			eviction.Settings{Thresholds: []eviction.Threshold{reclaiming(hard("memory", "100Mi"), "100Mi")}, TransitionPeriod: 15 * time.Second}, `
			0s  memory=90Mi  -> met=memory act=memory<100Mi cond=Memory
			10s memory=150Mi -> met=memory act=memory<100Mi cond=Memory
			20s memory=150Mi -> met=memory act=memory<100Mi cond=Memory
			30s memory=200Mi -> cond=Memory
			35s memory=200Mi -> -
		`},
		{"one action per sample", thresholds(hard("nodefs", "1Gi")), `
			0s  nodefs=900Mi@0s containerfs=2Gi@0s  -> met=nodefs act=nodefs<1Gi reclaim=containers,images cond=Disk
			10s nodefs=900Mi@0s containerfs=2Gi@0s  -> met=nodefs cond=Disk
			20s nodefs=900Mi@-5s containerfs=2Gi@0s -> met=nodefs cond=Disk
			30s nodefs=900Mi@1s containerfs=2Gi@1s  -> met=nodefs act=nodefs<1Gi reclaim=containers,images cond=Disk
		`},
		{"next signal acts if the first is stale", thresholds(hard("memory", "100Mi"), hard("pids", "100")), `
			0s  memory=90Mi@0s pids=200 -> met=memory act=memory<100Mi cond=Memory
			10s memory=90Mi@0s pids=50  -> met=memory,pids act=pids<100 cond=Memory,PID
		`},
		{"acting order of signals, hard before soft",
			thresholds(soft("memory", "300Mi", time.Second), hard("pids", "100"), hard("imagefs", "1Gi"), hard("memory", "100Mi"), hard("inodes", "1k")), `
			0s  memory=90Mi pids=1 imagefs=1 inodes=1 containerinodes=2k -> met=memory,inodes,imagefs,pids act=memory<100Mi cond=Disk,Memory,PID
			10s memory=200Mi pids=1 imagefs=1 inodes=1 containerinodes=2k -> met=memory,inodes,imagefs,pids act=memory<300Mi cond=Disk,Memory,PID
			20s memory=1Gi pids=1 imagefs=1 inodes=1 containerinodes=2k -> met=inodes,imagefs,pids act=inodes<1k reclaim=containers,images cond=Disk,Memory,PID
			30s memory=1Gi pids=1 imagefs=1 inodes=1k containerinodes=2k -> met=imagefs,pids act=imagefs<1Gi reclaim=containers,images cond=Disk,Memory,PID
			40s memory=1Gi pids=1 imagefs=1Gi inodes=1k containerinodes=2k -> met=pids act=pids<100 cond=Disk,Memory,PID
		`},
		{"threshold of 0 is never met", thresholds(hard("memory", "0.0%")), `
			0s memory=0 -> -
			10s        -> unknown=memory
		`},
		{"no threshold", thresholds(), `
			0s memory=0 -> -
		`},
	})
}

func TestEvaluate_AllocatableMemory(t *testing.T) {
	bound := func(ts ...eviction.Threshold) eviction.Settings {
		return eviction.Settings{Thresholds: ts, BindAllocatable: true}
	}
	runScenarios(t, []scenario{
		{"hard memory threshold also for allocatable memory", bound(reclaiming(hard("memory", "100Mi"), "50Mi")), `
			0s  memory=1Gi allocatable=90Mi  -> met=allocatable act=allocatable<100Mi cond=Memory
			10s memory=1Gi allocatable=149Mi -> met=allocatable act=allocatable<100Mi cond=Memory
			20s memory=90Mi allocatable=90Mi -> met=memory,allocatable act=memory<100Mi cond=Memory
		`},
		{"soft threshold not for allocatable memory", bound(soft("memory", "100Mi", time.Second)), `
			0s  memory=1Gi allocatable=0 -> -
			10s memory=1Gi               -> -
		`},
		{"soft threshold with grace 0s", bound(soft("memory", "100Mi", 0)), `
			0s  memory=1Gi allocatable=0 -> met=allocatable act=allocatable<100Mi cond=Memory
		`},
		{"not observed without enforcement", thresholds(hard("memory", "100Mi")), `
			0s  memory=1Gi allocatable=0 -> -
			10s memory=1Gi               -> -
		`},
		{"enforced without a hard memory threshold", bound(hard("pids", "10")), `
			0s  pids=100 -> -
		`},
		{"configured threshold before the copy", bound(hard("memory", "100Mi"), hard("allocatable", "200Mi")), `
			0s  memory=1Gi allocatable=150Mi -> met=allocatable act=allocatable<200Mi cond=Memory
			10s memory=1Gi allocatable=50Mi  -> met=allocatable act=allocatable<200Mi cond=Memory
		`},
	})
}

// Departure 9, and the garbage collection of each layout.
func TestEvaluate_FilesystemLayouts(t *testing.T) {
	in := func(l signals.Layout, ts ...eviction.Threshold) eviction.Settings {
		return eviction.Settings{Thresholds: ts, Layout: l}
	}
	runScenarios(t, []scenario{
		{"single: containerfs follows nodefs",
			in(signals.Single, hard("nodefs", "1Gi"), hard("containerfs", "3Gi"), hard("imagefs", "2Gi")), `
			0s  nodefs=2Gi containerfs=900Mi imagefs=2Gi -> met=containerfs act=containerfs<1Gi reclaim=containers,images cond=Disk
			10s nodefs=2Gi containerfs=2Gi imagefs=2Gi   -> cond=Disk
		`},
		{"dedicated: containerfs follows imagefs",
			in(signals.Dedicated, hard("nodefs", "1Gi"), soft("imagefs", "2Gi", time.Second), hard("imageinodes", "100")), `
			0s  nodefs=900Mi imagefs=2Gi containerfs=1Gi imageinodes=1k containerinodes=1k -> met=nodefs act=nodefs<1Gi cond=Disk
			10s nodefs=1Gi imagefs=2Gi containerfs=1Gi imageinodes=1k containerinodes=99 -> met=containerfs,containerinodes act=containerfs<2Gi reclaim=containers,images cond=Disk
		`},
		{"split: each filesystem collects its own garbage",
			in(signals.Split, hard("nodefs", "1Gi"), hard("imagefs", "1Gi")), `
			0s  nodefs=1 imagefs=1 containerfs=1       -> met=nodefs,imagefs,containerfs act=nodefs<1Gi reclaim=containers cond=Disk
			10s nodefs=1Gi imagefs=1 containerfs=1     -> met=imagefs,containerfs act=imagefs<1Gi reclaim=images cond=Disk
			20s nodefs=1Gi imagefs=1Gi containerfs=1   -> met=containerfs act=containerfs<1Gi reclaim=containers cond=Disk
			30s nodefs=1Gi imagefs=1Gi                 -> cond=Disk unknown=containerfs
		`},
		{"configured containerfs without its source", in(signals.Dedicated, hard("containerfs", "3Gi"), hard("nodefs", "1Gi")), `
			0s  nodefs=2Gi containerfs=0 -> -
			10s nodefs=2Gi               -> -
		`},
	})
}

func TestNewPolicy_RejectsTooManyThresholds(t *testing.T) {
	var s eviction.Settings
	for i := range 70 {
		s.Thresholds = append(s.Thresholds, eviction.Threshold{Signal: signals.MemoryAvailable, Value: eviction.Value{Quantity: signals.Quantity{Value: signals.Amount(i + 1)}}})
	}
	if _, err := eviction.NewPolicy(s); err == nil {
		t.Error("70 thresholds were accepted, want an error above 64")
	}
}

// A product beyond the maximum integer is saturated on every processor.
func TestValue_SaturatesOnOverflow(t *testing.T) {
	v := eviction.Value{Fraction: 3, Percent: "300%"}
	if got := v.Of(1 << 62).Value; got != 1<<63-1 {
		t.Errorf("300%% of 4Ei is %d, want the maximum", got)
	}
}

// Of several thresholds of a signal, the highest is met first. Memory thresholds also apply to
// allocatable memory, where a lower one of its own stays behind the copy.
func TestPolicy_HighestThreshold(t *testing.T) {
	settings := thresholds(hard("memory", "100Mi"), hard("allocatable", "25%"), hard("allocatable", "50Mi"), soft("memory", "25%", time.Minute))
	settings.BindAllocatable = true
	policy := compile(t, settings)
	const mebi = 1 << 20
	for _, c := range []struct {
		signal     signals.Signal
		hard       bool
		capacity   signals.Amount
		want       signals.Amount
		configured bool
	}{
		{signals.MemoryAvailable, true, 4096 * mebi, 100 * mebi, true},
		{signals.MemoryAvailable, false, 4096 * mebi, 1024 * mebi, true},
		{signals.AllocatableMemoryAvailable, true, 300 * mebi, 100 * mebi, true},
		{signals.AllocatableMemoryAvailable, true, 4000 * mebi, 1000 * mebi, true},
		{signals.AllocatableMemoryAvailable, false, 4000 * mebi, 0, false},
		{signals.PIDAvailable, true, 1 << 15, 0, false},
	} {
		if got, configured := policy.HighestThreshold(c.signal, c.hard, c.capacity); got != c.want || configured != c.configured {
			t.Errorf("%s, hard %t, of %d: got %d, %t, want %d, %t", c.signal, c.hard, c.capacity, got, configured, c.want, c.configured)
		}
	}
}
