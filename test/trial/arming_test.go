package trial_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/sandbox"
	"plimsoll.dev/plimsoll/test/trial"
)

// atOnce is how soon a word has to take effect.
const atOnce = time.Second

// disarm makes the file as a person would, and returns when.
func disarm(t *testing.T, n *trial.Node) time.Time {
	t.Helper()
	begun := time.Now()
	if err := os.WriteFile(n.DisarmFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return begun
}

// soon checks that a decision follows in time.
func soon(t *testing.T, a *trial.Agent, since time.Time, verb agent.Verb) *agent.Decision {
	t.Helper()
	d := await(t, a, verb)
	if took := d.Time.Sub(since); took > atOnce {
		t.Errorf("%s after %s", verb, took)
	}
	return d
}

// lives checks that a hog goes on for so long.
func lives(t *testing.T, h *sandbox.Hog, d time.Duration) {
	t.Helper()
	select {
	case <-h.Process.Done():
		t.Errorf("the pod was ended: %v", h.Process.State())
	case <-time.After(d):
	}
}

func TestAFileDisarmsWhileMemoryIsShort(t *testing.T) {
	n := node(t, "disarmed")
	hogs := []*sandbox.Hog{addHog(t, n, "big", "", "fill 300MiB"), addHog(t, n, "small", "", "fill 130MiB")}
	disarm(t, n)
	a := start(t, n, "--eviction-hard=memory.available<100Mi", often)
	d := await(t, a, agent.WouldEvict)
	if d.Pod != "default/big" || len(d.Ranking) != 2 || len(d.Conditions) != 1 || d.Message == "" {
		t.Errorf("decision: %+v", d)
	}
	lives(t, hogs[0], 2*atOnce)
	lives(t, hogs[1], 0)

	armed := time.Now()
	if err := os.Remove(n.DisarmFile()); err != nil {
		t.Fatal(err)
	}
	soon(t, a, armed, agent.Armed)
	if d := soon(t, a, armed, agent.Evicted); d.Pod != "default/big" {
		t.Errorf("decision: %+v", d)
	}
	<-hogs[0].Process.Done()
	await(t, a, agent.Settled)
	quiet(t, n, a, hogs[1])
}

// Nothing is due for a minute, and nobody notices the file before the kill but
// who looks right before it.
func TestAFileIsSeenBeforeAKill(t *testing.T) {
	n := node(t, "unseen")
	h := addHog(t, n, "hog", "", "fill 300MiB")
	a := start(t, n, "--eviction-hard=memory.available<100Mi", trial.NoRegularLook)
	disarm(t, n)
	if err := h.Send("fill 185MiB at 400MiB/s"); err != nil {
		t.Fatal(err)
	}
	if d := await(t, a, agent.WouldEvict, agent.Evicted); d.Decision != agent.WouldEvict {
		t.Errorf("decision: %+v", d)
	}
	quiet(t, n, a, h)
}

// It was sent SIGTERM, which it ignores; its grace period ends, and a hard
// threshold is crossed, and nobody kills it.
func TestDisarmedInMidPressureNobodyIsKilledAnyMore(t *testing.T) {
	n := node(t, "midway")
	const grace = 3 * time.Second
	h := addHog(t, n, "stubborn", "{terminationGracePeriodSeconds: 600, containers: [{name: app, image: hog}]}", "term ignore")
	if _, err := h.Do(within(t, time.Minute), "fill 350MiB"); err != nil {
		t.Fatal(err)
	}
	a := start(t, n, "--eviction-hard=memory.available<100Mi", "--eviction-soft=memory.available<200Mi",
		"--eviction-soft-grace-period=memory.available=100ms", "--eviction-max-pod-grace-period=3", often)
	await(t, a, agent.Terminating)
	since := disarm(t, n)
	soon(t, a, since, agent.Disarmed)
	soon(t, a, since, agent.Withdrawn)
	if _, err := h.Do(within(t, time.Minute), "fill 80MiB"); err != nil {
		t.Fatal(err)
	}
	await(t, a, agent.WouldEvict)
	lives(t, h, grace+atOnce)
	quiet(t, n, a, h)
}

// The signal is the file's: who starts the agent again has not armed it.
func TestASignalDisarmsAndLasts(t *testing.T) {
	n := node(t, "signalled")
	h := addHog(t, n, "hog", "", "fill 300MiB")
	args := []string{"--eviction-hard=memory.available<100Mi", often}
	first := start(t, n, args...)
	since := time.Now()
	if err := syscall.Kill(first.PID, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	soon(t, first, since, agent.Disarmed)
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(n.DisarmFile()); err != nil || !strings.Contains(string(text), "SIGUSR1") {
		t.Errorf("the file: %q, %v", text, err)
	}
	if _, err := h.Do(within(t, time.Minute), "fill 130MiB"); err != nil {
		t.Fatal(err)
	}
	second := start(t, n, args...)
	await(t, second, agent.WouldEvict)
	quiet(t, n, second, h)
}
