package trial_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// TestEvict_OnlyPodsThatWouldNotRecover is the short form of the measurement: workloads come close to the limit, and no
// pod is evicted that would have survived checks every 10 s and the kernel. Workloads beyond
// the limit do not cause an OOM kill. Where files are page cache, some are streamed, used at
// random and unpacked.
func TestEvict_OnlyPodsThatWouldNotRecover(t *testing.T) {
	sandbox.Need(t)
	inMemory, err := trial.InMemory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// Both occur: steps below the threshold that end, and others that continue until an
	// early check evicts.
	shown := func(rows []*trial.Row) bool {
		all := sum(rows)
		return all.Crossed > all.Exhausts && all.Exhausts > 0 && all.Early > 0
	}
	r := trial.Regret{Binary: binary, Limit: 512 * mib, Seed: 6, Disk: !inMemory, For: 45 * time.Second, MaxHold: 2 * time.Second,
		Shown: shown, Log: func(what string) { t.Log(what) }}
	rows, gap, err := r.Run(within(t, 3*time.Minute))
	for _, row := range rows {
		t.Logf("%+v", *row)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("maximum time between two samples: %v", gap)
	all := sum(rows)
	if all.Regrets > 0 {
		t.Errorf("%d evictions of pods that would have survived, in %d steps", all.Regrets, all.Steps)
	}
	t.Logf("%d of %d evictions were not judged, because the sampler was late", all.NotJudged, all.Periodic+all.Early)
	if all.OOMKills > 0 {
		t.Errorf("the kernel killed %d times", all.OOMKills)
	}
}

// sum adds up the counts of all workloads.
func sum(rows []*trial.Row) (all trial.Row) {
	for _, row := range rows {
		all.Steps, all.Crossed, all.Exhausts = all.Steps+row.Steps, all.Crossed+row.Crossed, all.Exhausts+row.Exhausts
		all.Periodic, all.Early, all.OOMKills = all.Periodic+row.Periodic, all.Early+row.Early, all.OOMKills+row.OOMKills
		all.Regrets, all.NotJudged = all.Regrets+row.Regrets, all.NotJudged+row.NotJudged
	}
	return all
}

// TestEvict_IgnoresThrashingAtOwnLimit: a pod reads a file larger than its own limit again and
// again, on a node with sufficient free memory.
func TestEvict_IgnoresThrashingAtOwnLimit(t *testing.T) {
	n := node(t, "thrash")
	bystander := addHog(t, n, "bystander", "", "fill 20MiB")
	pod, err := n.AddPod("thrasher", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := pod.LimitMemory(64 * mib); err != nil {
		t.Fatal(err)
	}
	h, err := n.StartHog(within(t, patience), pod, "app")
	if err != nil {
		t.Fatal(err)
	}
	a := start(t, n, "--eviction-hard=memory.available<100Mi", "-v=2", often)
	await(t, a, agent.Nothing)
	thrashing := within(t, patience)
	for checks := 0; checks < 20; { // more than once only on a busy machine
		if _, err := h.Do(thrashing, "thrash 128MiB in "+t.TempDir()+" for 5s"); err != nil {
			t.Fatalf("after %d periodic checks: %v", checks, err)
		}
		checks += calmChecks(t, a)
	}
	quiet(t, n, a, h, bystander)
}

// calmChecks returns the number of periodic checks since the last call. They must have raised no alarm.
func calmChecks(t *testing.T, a *trial.Agent) (checks int) {
	t.Helper()
	for len(a.Decisions) > 0 {
		d := <-a.Decisions
		switch {
		case d.Decision == agent.Nothing && len(d.Conditions) == 0:
			checks++
		case d.Decision == agent.Stalled && len(d.Conditions) == 0 && len(d.Stalls) > 0 && d.Stalls[0].Pod == "default/thrasher":
			t.Logf("%s: %+v", d.Reason, d.Stalls) // only if a stall has woken the agent, which takes seconds
		default:
			t.Errorf("false alarm: %+v", d)
		}
	}
	return checks
}
