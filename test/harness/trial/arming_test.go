package trial_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// aWhile is the time in which a defect would end an observed pod.
const aWhile = 2 * time.Second

// disarm creates the disarm file as an operator would.
func disarm(t *testing.T, n *trial.Node) {
	t.Helper()
	if err := os.WriteFile(n.DisarmFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// arm removes the file.
func arm(t *testing.T, n *trial.Node) {
	t.Helper()
	if err := os.Remove(n.DisarmFile()); err != nil {
		t.Fatal(err)
	}
}

// signal sends a signal to the agent.
func signal(t *testing.T, a *trial.Agent, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(a.PID, s); err != nil {
		t.Fatal(err)
	}
}

// TestDisarmFile_TakesEffectAtNextCheck: a periodic check that begins after the file was created or
// removed uses the new state, even before the notification of the change.
func TestDisarmFile_TakesEffectAtNextCheck(t *testing.T) {
	n := node(t, "effect")
	// The log fits the pipe and the agent's queue while this process is late: a full queue drops lines.
	const period = 50 * time.Millisecond
	a := start(t, n, "--eviction-hard=memory.available<100Mi", "-v=2", "--monitoring-period="+period.String())
	takesEffect := func(change func(*testing.T, *trial.Node), verb agent.Verb) {
		await(t, a, agent.Nothing) // with -v=2 each check is in the log
		signal(t, a, syscall.SIGSTOP)
		change(t, n)
		since := time.Now()
		<-time.After(period)          // a check is overdue
		signal(t, a, syscall.SIGCONT) // with the notification not read
		for d := await(t, a, verb, agent.Nothing); d.Decision != verb; d = await(t, a, verb, agent.Nothing) {
			if d.Time.After(since) {
				t.Errorf("a check %s after the change precedes %q", d.Time.Sub(since), verb)
			}
		}
	}
	for range 20 {
		takesEffect(disarm, agent.Disarmed)
		takesEffect(arm, agent.Armed)
	}
}

// checkAlive checks that a hog survives for the given time.
func checkAlive(t *testing.T, h *sandbox.Hog, d time.Duration) {
	t.Helper()
	select {
	case <-h.Process.Done():
		t.Errorf("the pod ended: %v", h.Process.State())
	case <-time.After(d):
	}
}

// TestDisarmFile_DisarmsUnderPressure: no periodic check is due for an hour, and the change of
// the file triggers a new decision.
func TestDisarmFile_DisarmsUnderPressure(t *testing.T) {
	n := node(t, "disarmed")
	hogs := []*sandbox.Hog{addHog(t, n, "big", "", "fill 300MiB"), addHog(t, n, "small", "", "fill 130MiB")}
	disarm(t, n)
	a := start(t, n, "--eviction-hard=memory.available<100Mi", trial.NoPeriodicCheck)
	d := await(t, a, agent.WouldEvict)
	if d.Pod != "default/big" || len(d.Ranking) != 2 || len(d.Conditions) != 1 || d.Message == "" {
		t.Errorf("decision: %+v", d)
	}
	checkAlive(t, hogs[0], aWhile)
	checkAlive(t, hogs[1], 0)

	arm(t, n)
	await(t, a, agent.Armed)
	if d := await(t, a, agent.Evicted); d.Pod != "default/big" {
		t.Errorf("decision: %+v", d)
	}
	<-hogs[0].Process.Done()
	await(t, a, agent.ReclaimDone)
	quiet(t, n, a, hogs[1])
}

// TestDisarmFile_IsReadBeforeKill: memory is filled as soon as the file exists, so that the check
// right before the kill is the first that can detect it.
func TestDisarmFile_IsReadBeforeKill(t *testing.T) {
	n := node(t, "unseen")
	h := addHog(t, n, "hog", "", "fill 300MiB")
	a := start(t, n, "--eviction-hard=memory.available<100Mi", often)
	disarm(t, n)
	if err := h.Send("fill 150MiB"); err != nil {
		t.Fatal(err)
	}
	if d := await(t, a, agent.WouldEvict, agent.Evicted); d.Decision != agent.WouldEvict {
		t.Errorf("decision: %+v", d)
	}
	quiet(t, n, a, h)
}

// TestDisarmFile_WithdrawsSoftEviction: after SIGTERM, which the pod ignores, neither
// the end of its grace period nor a crossed hard threshold leads to a kill.
func TestDisarmFile_WithdrawsSoftEviction(t *testing.T) {
	n := node(t, "midway")
	const grace = 10 * time.Second
	h := addHog(t, n, "stubborn", "{terminationGracePeriodSeconds: 600, containers: [{name: app, image: hog}]}", "term ignore")
	if _, err := h.Do(within(t, time.Minute), "fill 350MiB"); err != nil {
		t.Fatal(err)
	}
	a := start(t, n, "--eviction-hard=memory.available<100Mi", "--eviction-soft=memory.available<200Mi",
		"--eviction-soft-grace-period=memory.available=100ms", "--eviction-max-pod-grace-period=10", often)
	await(t, a, agent.SoftEvicting)
	disarm(t, n)
	await(t, a, agent.Disarmed)
	await(t, a, agent.Withdrawn)
	if _, err := h.Do(within(t, time.Minute), "fill 80MiB"); err != nil {
		t.Fatal(err)
	}
	await(t, a, agent.WouldEvict)
	checkAlive(t, h, grace+aWhile)
	quiet(t, n, a, h)
}

// TestSignal_DisarmsAcrossRestart: the signal creates the file, and a restart of the agent does not
// arm it.
func TestSignal_DisarmsAcrossRestart(t *testing.T) {
	n := node(t, "signalled")
	h := addHog(t, n, "hog", "", "fill 300MiB")
	args := []string{"--eviction-hard=memory.available<100Mi", trial.NoPeriodicCheck}
	first := start(t, n, append(args, "-v=2")...)
	await(t, first, agent.Nothing) // an agent disarmed before its first check reports no change
	signal(t, first, syscall.SIGUSR1)
	await(t, first, agent.Disarmed)
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
