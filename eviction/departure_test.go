package eviction_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Departure 4: an unknown signal is not a healthy one.
func TestEvaluate_UnknownSignalChangesNothing(t *testing.T) {
	runScenarios(t, []scenario{
		{"soft timer continues while the signal is unknown", thresholds(soft("memory", "300Mi", time.Minute)), `
			0s  memory=200Mi -> cond=Memory
			20s memory=?     -> cond=Memory unknown=memory
			50s memory=?     -> cond=Memory unknown=memory
			60s memory=200Mi -> met=memory act=memory<300Mi cond=Memory
		`},
		{"no action for an unknown signal", thresholds(hard("memory", "100Mi")), `
			0s  memory=90Mi -> met=memory act=memory<100Mi cond=Memory
			10s memory=?    -> cond=Memory unknown=memory
			20s memory=90Mi -> met=memory act=memory<100Mi cond=Memory
		`},
		{"minimum reclaim continues after the gap", thresholds(reclaiming(hard("memory", "100Mi"), "100Mi")), `
			0s  memory=90Mi  -> met=memory act=memory<100Mi cond=Memory
			10s memory=?     -> cond=Memory unknown=memory
			20s memory=150Mi -> met=memory act=memory<100Mi cond=Memory
		`},
		{"condition stays True past the transition period while unknown",
			eviction.Settings{Thresholds: []eviction.Threshold{hard("memory", "100Mi")}, TransitionPeriod: time.Minute}, `
			0s   memory=90Mi -> met=memory act=memory<100Mi cond=Memory
			30s  memory=1Gi  -> cond=Memory
			50s  memory=?    -> cond=Memory unknown=memory
			110s memory=?    -> cond=Memory unknown=memory
			111s memory=?    -> unknown=memory
		`},
		{"condition evaluated again once observed",
			eviction.Settings{Thresholds: []eviction.Threshold{hard("memory", "100Mi")}, TransitionPeriod: time.Minute}, `
			0s   memory=90Mi -> met=memory act=memory<100Mi cond=Memory
			50s  memory=?    -> cond=Memory unknown=memory
			100s memory=1Gi  -> -
		`},
		{"state dropped after the transition period",
			eviction.Settings{Thresholds: []eviction.Threshold{reclaiming(soft("memory", "300Mi", 10*time.Second), "100Mi")}, TransitionPeriod: time.Minute}, `
			0s   memory=200Mi -> cond=Memory
			10s  memory=200Mi -> met=memory act=memory<300Mi cond=Memory
			20s  memory=?     -> cond=Memory unknown=memory
			80s  memory=?     -> cond=Memory unknown=memory
			81s  memory=?     -> unknown=memory
			# its timer and its minimum reclaim are dropped
			90s  memory=350Mi -> -
			100s memory=200Mi -> cond=Memory
			110s memory=200Mi -> met=memory act=memory<300Mi cond=Memory
		`},
		{"unknown signal sets no condition", thresholds(hard("memory", "100Mi")), `
			0s  memory=? -> unknown=memory
			10s memory=? -> unknown=memory
		`},
		{"one unknown filesystem retains the condition of all disks",
			eviction.Settings{Thresholds: []eviction.Threshold{hard("nodefs", "1Gi"), hard("imagefs", "1Gi")}, Layout: signals.Split, TransitionPeriod: 20 * time.Second}, `
			0s  nodefs=1 imagefs=2Gi containerfs=2Gi   -> met=nodefs act=nodefs<1Gi reclaim=containers cond=Disk
			10s nodefs=2Gi imagefs=? containerfs=2Gi   -> cond=Disk unknown=imagefs
			30s nodefs=2Gi imagefs=? containerfs=2Gi   -> cond=Disk unknown=imagefs
			31s nodefs=2Gi imagefs=? containerfs=2Gi   -> unknown=imagefs
		`},
		{"unknown signal does not block another one", thresholds(hard("memory", "100Mi"), hard("pids", "10")), `
			0s memory=? pids=5 -> met=pids act=pids<10 cond=PID unknown=memory
		`},
	})
}

// Departure 8, through the encoding of a state file.
func TestRestore_ContinuesAfterRestart(t *testing.T) {
	runScenarios(t, []scenario{
		{"soft timer continues", thresholds(soft("memory", "300Mi", time.Minute)), `
			0s          memory=200Mi -> cond=Memory
			30s restart memory=200Mi -> cond=Memory
			60s         memory=200Mi -> met=memory act=memory<300Mi cond=Memory
		`},
		{"conditions continue", thresholds(hard("memory", "100Mi")), `
			0s           memory=90Mi -> met=memory act=memory<100Mi cond=Memory
			10s restart  memory=1Gi  -> cond=Memory
			299s restart memory=1Gi  -> cond=Memory
			300s restart memory=1Gi  -> -
		`},
		{"minimum reclaim continues", thresholds(reclaiming(hard("memory", "100Mi"), "100Mi")), `
			0s          memory=90Mi  -> met=memory act=memory<100Mi cond=Memory
			10s restart memory=150Mi -> met=memory act=memory<100Mi cond=Memory
			20s         memory=200Mi -> cond=Memory
		`},
		{"time of an unknown signal continues",
			eviction.Settings{Thresholds: []eviction.Threshold{hard("memory", "100Mi")}, TransitionPeriod: time.Minute}, `
			0s          memory=90Mi -> met=memory act=memory<100Mi cond=Memory
			10s         memory=?    -> cond=Memory unknown=memory
			70s restart memory=?    -> cond=Memory unknown=memory
			71s restart memory=?    -> unknown=memory
		`},
		{"samples count as new", thresholds(hard("memory", "100Mi")), `
			0s          memory=90Mi@0s -> met=memory act=memory<100Mi cond=Memory
			10s         memory=90Mi@0s -> met=memory cond=Memory
			20s restart memory=90Mi@0s -> met=memory act=memory<100Mi cond=Memory
		`},
		{"rate needs two checks of one process", thresholds(hard("memory", "100Mi")), `
			0s             memory=1Gi  -> -
			0.1s! restart  memory=10Mi -> -
			0.2s!          memory=5Mi  -> met=memory act=memory<100Mi cond=Memory
		`},
		{"clock set back: soft timer not extended",
			thresholds(soft("memory", "300Mi", time.Minute)), `
			3600s                    memory=200Mi -> cond=Memory
			3610s clock-30m restart  memory=200Mi -> cond=Memory
			3670s                    memory=200Mi -> met=memory act=memory<300Mi cond=Memory
		`},
		{"clock set back: condition not extended", thresholds(hard("memory", "100Mi")), `
			3600s                    memory=90Mi -> met=memory act=memory<100Mi cond=Memory
			3610s clock-30m restart  memory=1Gi  -> cond=Memory
			3910s                    memory=1Gi  -> -
		`},
	})
}

func TestRestore_DropsUnconfiguredThresholds(t *testing.T) {
	old := eviction.New(compile(t, thresholds(hard("memory", "100Mi"), soft("pids", "10", time.Minute))))
	var s signals.Snapshot
	s.At = epoch
	s.Node[signals.MemoryAvailable] = signals.Observed(1, 100, epoch)
	s.Node[signals.PIDAvailable] = signals.Observed(1, 100, epoch)
	old.Evaluate(&s)
	saved := old.Save()
	saved.Thresholds = append(saved.Thresholds, eviction.SavedThreshold{Threshold: "moon.available<1Gi", FirstObserved: epoch, ReclaimApplies: true})
	saved.Conditions = append(saved.Conditions, eviction.SavedCondition{Condition: "MoonPressure", True: true, LastMet: epoch})
	saved.Unknown = append(saved.Unknown, eviction.SavedUnknown{Signal: "moon.available", Since: epoch})
	now := eviction.New(compile(t, thresholds(hard("memory", "200Mi"), soft("pids", "10", time.Minute))))
	now.Restore(saved, epoch)
	got := now.Save()
	if len(got.Thresholds) != 1 || got.Thresholds[0].Threshold != "pid.available<10 for 1m0s" {
		t.Errorf("restored thresholds: %+v", got.Thresholds)
	}
	if len(got.Unknown) != 0 || len(got.Conditions) != 2 {
		t.Errorf("restored: %+v", got)
	}
}

// Departure 6: only thresholds met with their grace passed, stale or not, count after garbage
// collection.
func TestStillMet_AfterGarbageCollection(t *testing.T) {
	policy := compile(t, thresholds(reclaiming(hard("nodefs", "1Gi"), "500Mi"), soft("memory", "300Mi", time.Minute), hard("pids", "10")))
	check := func(words ...string) (*eviction.Machine, eviction.Verdict) {
		runner := &runner{policy: policy, machine: eviction.New(policy)}
		if _, err := runner.check([]string{"0s", "nodefs=5Gi", "containerfs=5Gi", "memory=1Gi", "pids=5@0s"}); err != nil {
			t.Fatal(err)
		}
		if _, err := runner.check(append([]string{"10s", "containerfs=5Gi"}, words...)); err != nil {
			t.Fatal(err)
		}
		return runner.machine, runner.verdict
	}
	for _, tc := range []struct {
		about string
		first []string // observed in the check
		then  []string // after garbage collection
		want  bool
	}{
		{"enough freed", []string{"nodefs=1", "memory=1Gi", "pids=50"}, []string{"nodefs=1524Mi", "memory=1Gi", "pids=50"}, false},
		{"minimum reclaim not freed", []string{"nodefs=1", "memory=1Gi", "pids=50"}, []string{"nodefs=1523Mi", "memory=1Gi", "pids=50"}, true},
		{"soft threshold in grace period", []string{"nodefs=1", "memory=1Mi", "pids=50"}, []string{"nodefs=2Gi", "memory=1Mi", "pids=50"}, false},
		{"another threshold met meanwhile", []string{"nodefs=1", "memory=1Gi", "pids=50"}, []string{"nodefs=2Gi", "memory=1Gi", "pids=5"}, false},
		{"another met threshold with a stale sample", []string{"nodefs=1", "memory=1Gi", "pids=5@0s"}, []string{"nodefs=2Gi", "memory=1Gi", "pids=5"}, true},
		{"signal no longer observed", []string{"nodefs=1", "memory=1Gi", "pids=50"}, []string{"memory=1Gi", "pids=50"}, true},
	} {
		m, v := check(tc.first...)
		if v.Target == nil || v.Target.Signal != signals.NodefsAvailable {
			t.Fatalf("%s: unexpected first verdict: %s", tc.about, brief(&v))
		}
		var after signals.Snapshot
		for _, word := range append(tc.then, "containerfs=5Gi") {
			if err := observe(&after, word, epoch); err != nil {
				t.Fatal(err)
			}
		}
		if got := m.StillMet(&v, &after.Node); got != tc.want {
			t.Errorf("%s: StillMet returned %v", tc.about, got)
		}
	}
}

// Early checks, at the boundary of imminent exhaustion.
func TestEvaluate_EarlyChecks(t *testing.T) {
	runScenarios(t, []scenario{
		{"dip without imminent exhaustion", thresholds(hard("memory", "100Mi"), soft("memory", "300Mi", time.Minute)), `
			0s     memory=1Gi   -> -
			9s!    memory=99Mi  -> -
			# 1Mi per second: 98 s to exhaustion
			9.9s!  memory=98Mi  -> -
			10s    memory=1Gi   -> -
		`},
		{"exhausted within the horizon", thresholds(hard("memory", "100Mi")), `
			0s   memory=200 -> met=memory act=memory<100Mi cond=Memory
		`},
		{"exhausted exactly at the horizon", thresholds(hard("memory", "1000")), `
			0s   memory=1500 -> -
			# 600 per second: 300 last exactly 500 ms
			1s!  memory=900  -> -
			2s!  memory=300  -> met=memory act=memory<1k cond=Memory
		`},
		{"exhausted later than the horizon", thresholds(hard("memory", "1000")), `
			0s   memory=1501 -> -
			1s!  memory=901  -> -
			2s!  memory=301  -> -
		`},
		{"exhausted, without a rate", thresholds(hard("memory", "1000")), `
			0s!  memory=0 -> met=memory act=memory<1k cond=Memory
			10s! memory=0 -> met=memory act=memory<1k cond=Memory
		`},
		{"falling fast above the threshold", thresholds(hard("memory", "100Mi")), `
			0s      memory=1Gi   -> -
			0.001s! memory=100Mi -> -
			0.002s! memory=99Mi  -> met=memory act=memory<100Mi cond=Memory
		`},
		{"rising memory", thresholds(hard("memory", "100Mi")), `
			0s!    memory=1Mi -> -
			0.01s! memory=2Mi -> -
		`},
		{"rate since an early check without effect", thresholds(hard("memory", "1000")), `
			0s   memory=10000 -> -
			9s!  memory=900   -> -
			10s! memory=850   -> -
		`},
		{"no rate without a previous check", thresholds(hard("memory", "1000")), `
			0s!  memory=?   -> unknown=memory
			1s!  memory=900 -> -
			2s!  memory=1   -> met=memory act=memory<1k cond=Memory
		`},
		{"soft memory, disks and PIDs wait for a periodic check", thresholds(hard("memory", "1000"), soft("memory", "5000", 0), hard("pids", "10"), hard("nodefs", "1Gi"), soft("allocatable", "1Gi", time.Second)), `
			0s    memory=9000 pids=1k nodefs=2Gi containerfs=2Gi allocatable=2Gi -> -
			0.5s! memory=500 pids=1 nodefs=1 containerfs=1 allocatable=1 -> met=memory act=memory<1k cond=Memory
			10s   memory=9000 pids=1k nodefs=2Gi containerfs=2Gi allocatable=2Gi -> cond=Memory
		`},
		{"allocatable memory alone", eviction.Settings{Thresholds: []eviction.Threshold{hard("memory", "1000")}, BindAllocatable: true}, `
			0s    memory=1Gi allocatable=9000 -> -
			0.5s! memory=1Gi allocatable=500  -> met=allocatable act=allocatable<1k cond=Memory
		`},
		{"one signal met, another one falling", eviction.Settings{Thresholds: []eviction.Threshold{hard("memory", "1000")}, BindAllocatable: true}, `
			0s    memory=900 allocatable=9000 -> met=memory act=memory<1k cond=Memory
			0.5s! memory=900 allocatable=1500 -> cond=Memory
		`},
		{"hysteresis of an early check applies to the next periodic one", thresholds(reclaiming(hard("memory", "1000"), "1000")), `
			0s    memory=9000 -> -
			0.5s! memory=500  -> met=memory act=memory<1k cond=Memory
			10s   memory=1500 -> met=memory act=memory<1k cond=Memory
			20s   memory=2000 -> cond=Memory
		`},
		{"sample of an early check counts as used", thresholds(hard("memory", "1000")), `
			0s    memory=9000    -> -
			0.5s! memory=500     -> met=memory act=memory<1k cond=Memory
			0.6s  memory=500@0.5s -> met=memory cond=Memory
		`},
		{"early check without effect uses no sample", thresholds(hard("memory", "1000")), `
			0s    memory=9000 -> -
			9s!   memory=990  -> -
			10s   memory=990@9s -> met=memory act=memory<1k cond=Memory
		`},
		{"early check starts no soft timer", thresholds(soft("memory", "1000", 10*time.Second)), `
			0s    memory=9000 -> -
			1s!   memory=10   -> -
			10s   memory=10   -> cond=Memory
			20s   memory=10   -> met=memory act=memory<1k cond=Memory
		`},
		{"early check resets no timer", thresholds(soft("memory", "1000", 10*time.Second)), `
			0s    memory=10   -> cond=Memory
			5s!   memory=9000 -> cond=Memory
			10s   memory=10   -> met=memory act=memory<1k cond=Memory
		`},
		{"early check clears no condition", eviction.Settings{Thresholds: []eviction.Threshold{hard("memory", "1000")}, TransitionPeriod: 20 * time.Second}, `
			0s    memory=10   -> met=memory act=memory<1k cond=Memory
			25s!  memory=9000 -> cond=Memory
			26s   memory=9000 -> -
		`},
		{"immediate: early checks are as periodic ones", eviction.Settings{Thresholds: []eviction.Threshold{hard("memory", "1000"), hard("pids", "10")}, EarlyEviction: eviction.Immediate}, `
			0s!   memory=999 pids=100 -> met=memory act=memory<1k cond=Memory
			1s!   memory=9000 pids=1  -> met=pids act=pids<10 cond=Memory,PID
		`},
		{"never: early checks are ignored", eviction.Settings{Thresholds: []eviction.Threshold{hard("memory", "1000")}, EarlyEviction: eviction.Never}, `
			0s    memory=9000 -> -
			1s!   memory=0    -> -
			2s!   memory=?    -> unknown=memory
			10s   memory=0    -> met=memory act=memory<1k cond=Memory
		`},
	})
}
