package trial_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/statefile"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

const often = "--monitoring-period=100ms"

func TestDryRun_KillsNothing(t *testing.T) {
	n := node(t, "dry")
	h := addHog(t, n, "hog", "", "fill 430MiB")
	a := start(t, n, "--eviction-hard=memory.available<100Mi", "--dry-run", often)
	d := await(t, a, agent.WouldEvict)
	if d.Pod != "default/hog" || len(d.Conditions) != 1 || d.Conditions[0] != "MemoryPressure" {
		t.Errorf("decision: %+v", d)
	}
	quiet(t, n, a, h)
}

func TestSoftEvict_LetsPodTerminate(t *testing.T) {
	n := node(t, "soft")
	h := addHog(t, n, "hog", "{terminationGracePeriodSeconds: 20, containers: [{name: app, image: hog}]}", "fill 350MiB")
	a := start(t, n, "--eviction-hard=", "--eviction-soft=memory.available<200Mi",
		"--eviction-soft-grace-period=memory.available=300ms", "--eviction-max-pod-grace-period=10", often)
	if d := await(t, a, agent.SoftEvicting, agent.Evicted); d.Decision != agent.SoftEvicting || *d.Grace != 10 {
		t.Errorf("decision %+v, want a soft eviction with a grace period of 10 s", d)
	}
	if d := await(t, a, agent.SoftEnded); len(d.Failed) > 0 || d.ProcessesRemain {
		t.Errorf("end of the soft eviction: %+v", d)
	}
	<-h.Process.Done()
	if status, ok := h.Process.State().Sys().(syscall.WaitStatus); !ok || status.Signal() == syscall.SIGKILL {
		t.Errorf("the pod was killed (%v), want its end at SIGTERM", h.Process.State())
	}
	await(t, a, agent.ReclaimDone)
}

func TestSoftEvict_EscalatesAtHardThreshold(t *testing.T) {
	n := node(t, "hurry")
	stubborn := addHog(t, n, "stubborn", "{terminationGracePeriodSeconds: 600, containers: [{name: app, image: hog}]}", "term ignore")
	if _, err := stubborn.Do(t.Context(), "fill 250MiB"); err != nil {
		t.Fatal(err)
	}
	other := addHog(t, n, "other", trial.Requesting("200Mi"), "fill 80MiB")
	a := start(t, n, "--eviction-hard=memory.available<100Mi", "--eviction-soft=memory.available<200Mi",
		"--eviction-soft-grace-period=memory.available=100ms", "--eviction-max-pod-grace-period=600", often)
	if d := await(t, a, agent.SoftEvicting); d.Pod != "default/stubborn" {
		t.Fatalf("decision: %+v", d)
	}
	if _, err := other.Do(t.Context(), "fill 90MiB at 100MiB/s"); err != nil {
		t.Fatal(err)
	}
	if d := await(t, a, agent.Escalated, agent.Evicted); d.Decision != agent.Escalated || d.Pod != "default/stubborn" {
		t.Errorf("decision: %+v", d)
	}
	// A pod that has not exited inflight.EscalationTimeout later is evicted again. That eviction replaces the
	// soft one, which is withdrawn. The wait for the memory of a slow kill ends after the soft eviction.
	for ended, freed := false, false; !ended || !freed; {
		d := await(t, a, append(alarms, agent.SoftEnded, agent.Withdrawn, agent.ReclaimDone)...)
		if !isAbout(d, "default/stubborn") {
			t.Errorf("the decision is not about the stubborn pod alone: %+v", d)
		}
		ended = ended || d.Decision == agent.SoftEnded || d.Decision == agent.Withdrawn
		freed = freed || d.Decision == agent.ReclaimDone
	}
	<-stubborn.Process.Done()
	quietBut(t, n, a, "default/stubborn", other)
}

func TestEvict_ForkBombForPIDs(t *testing.T) {
	sandbox.Need(t)
	n, err := trial.NewNode("pids", 512*mib, sandbox.PidsMax(300))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	calm := addHog(t, n, "calm", "", "fill 10MiB")
	bomb := addHog(t, n, "bomb", "", "")
	a := start(t, n, "--eviction-hard=pid.available<100", often)
	if err := bomb.Send("fork 230"); err != nil {
		t.Fatal(err)
	}
	d := await(t, a, agent.Evicted)
	if d.Pod != "default/bomb" || d.Signal != "pid.available" {
		t.Errorf("decision: %+v", d)
	}
	<-bomb.Process.Done()
	quiet(t, n, a, calm)
}

// saved waits until the state file contains a threshold and returns the state.
func saved(t *testing.T, n *trial.Node) eviction.Saved {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if s, err := statefile.Decisions(filepath.Join(n.Dir, "state.json")); err == nil && len(s.Thresholds) > 0 {
			return s
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("no threshold in the state file")
		}
	}
}

func TestGracePeriod_SurvivesCrash(t *testing.T) {
	n := node(t, "crash")
	addHog(t, n, "hog", "", "fill 350MiB")
	soft := []string{"--eviction-hard=", "--eviction-soft=memory.available<200Mi",
		"--eviction-soft-grace-period=memory.available=1h", often}
	first, err := n.Start(t.Context(), binary, soft...)
	if err != nil {
		t.Fatal(err)
	}
	await(t, first, agent.Pending)
	before := saved(t, n)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	second := start(t, n, soft...)
	d := await(t, second, agent.Pending)
	after := saved(t, n)
	if got, want := after.Thresholds[0].FirstObserved, before.Thresholds[0].FirstObserved; !got.Equal(want) {
		t.Errorf("start of the grace period: %s before the crash, %s after it", want, got)
	}
	if len(d.Conditions) != 1 {
		t.Errorf("the condition was lost by the crash: %+v", d)
	}
}

// TestEvict_FindsNewPod checks that a pod is evicted that the check before did not have. The periods are long enough
// that it usually appears and fills the memory within one.
func TestEvict_FindsNewPod(t *testing.T) {
	n := node(t, "newborn")
	old := addHog(t, n, "old", trial.Requesting("100Mi"), "fill 60MiB")
	a := start(t, n, "--eviction-hard=memory.available<100Mi", "--monitoring-period=5s")
	newborn := addHog(t, n, "newborn", "", "fill 100MiB")
	if err := a.AwaitPods(within(t, patience), 2); err != nil {
		t.Fatal(err)
	}
	if err := newborn.Send("fill 270MiB"); err != nil {
		t.Fatal(err)
	}
	if d := await(t, a, agent.Evicted, agent.Failed); d.Pod != "default/newborn" {
		t.Errorf("decision: %+v", d)
	}
	<-newborn.Process.Done()
	quiet(t, n, a, old)
}

func TestAgent_ReportsBrokenManifestAndStateFile(t *testing.T) {
	n := node(t, "broken")
	addHog(t, n, "hog", "", "fill 430MiB")
	if err := os.WriteFile(filepath.Join(n.Manifests(), "bad.yaml"), []byte("kind: Pod\nmetadata: {name: bad}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.Dir, "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := n.Start(within(t, patience), binary, "--eviction-hard=memory.available<100Mi", often)
	if err != nil {
		t.Fatal(err)
	}
	if d := await(t, a, agent.Evicted); d.Pod != "default/hog" {
		t.Errorf("decision: %+v", d)
	}
	if err := a.Stop(); err != nil {
		t.Error(err)
	}
	for range a.Decisions {
		continue
	}
	for _, want := range []string{"bad.yaml", "metadata.uid", "damaged"} {
		if !strings.Contains(a.Log(), want) {
			t.Errorf("%q is not named in:\n%s", want, a.Log())
		}
	}
	if _, err := os.Stat(filepath.Join(n.Dir, "state.json.damaged")); err != nil {
		t.Errorf("the damaged state file was not set aside: %v", err)
	}
}
