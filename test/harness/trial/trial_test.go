package trial_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

const mib = 1 << 20

var binary string

func TestMain(m *testing.M) {
	hog.RunIfSet()
	os.Exit(run(m))
}

// run builds the binary under test.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "plimsoll-trial-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary, err = trial.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// patience bounds every wait of a test.
const patience = 2 * time.Minute

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// parallel runs a subtest beside others of its kind: their nodes mostly wait. Not in the virtual
// machine, where the checks of an agent near its threshold use up an emulated processor.
func parallel(t *testing.T) {
	if os.Getenv("PLIMSOLL_VM") != "1" {
		t.Parallel()
	}
}

// node creates a node of 512 MiB that the end of the test removes.
func node(t *testing.T, name string) *trial.Node {
	t.Helper()
	sandbox.Need(t)
	n, err := trial.NewNode(name, 512*mib)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func addHog(t *testing.T, n *trial.Node, name, spec, does string) *sandbox.Hog {
	t.Helper()
	h, err := n.AddHog(t.Context(), name, spec)
	if err != nil {
		t.Fatal(err)
	}
	if does != "" {
		if _, err := h.Do(within(t, time.Minute), does); err != nil {
			t.Fatalf("%s: %s: %v", name, does, err)
		}
	}
	return h
}

func start(t *testing.T, n *trial.Node, args ...string) *trial.Agent {
	t.Helper()
	a, err := n.Start(within(t, patience), binary, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func await(t *testing.T, a *trial.Agent, verbs ...agent.Verb) *agent.Decision {
	t.Helper()
	d, err := a.Await(within(t, patience), verbs...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEvict_PrecedesOOMKill(t *testing.T) {
	sandbox.Need(t)
	for _, rate := range []int64{100 * mib, 500 * mib, 1000 * mib} {
		t.Run(fmt.Sprintf("%d MiB per second", rate/mib), func(t *testing.T) {
			f := trial.Fill{Binary: binary, Limit: 512 * mib, Threshold: 100 * mib, Rate: rate}
			for range maxNotJudged {
				r, err := f.Run(within(t, time.Minute))
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%+v", r)
				if r.Early() {
					t.Errorf("an early check evicted although exhaustion was not imminent: %+v", r)
				}
				if !f.Judged(&r) {
					t.Logf("not judged: two checks were %s apart, and a thread of the agent waited %s for a processor", r.CheckGap, r.Waited)
					continue
				}
				if !r.Saved() {
					t.Errorf("the hog was not evicted before the OOM kill: %+v", r)
				}
				return
			}
			t.Errorf("none of %d fills could be judged: the agent waits for processors on this machine", maxNotJudged)
		})
	}
}

// maxNotJudged is the number of fills of which one must have an agent that gets a processor in time.
const maxNotJudged = 10

// alarms are the decisions about the end of a pod.
var alarms = []agent.Verb{agent.Evicted, agent.SoftEvicting, agent.Failed}

// quiet fails the test if the agent evicted or tried to evict a pod, or does not run any more.
func quiet(t *testing.T, n *trial.Node, a *trial.Agent, hogs ...*sandbox.Hog) {
	t.Helper()
	quietBut(t, n, a, "", hogs...)
}

// quietBut is quiet without the decisions about one pod.
func quietBut(t *testing.T, n *trial.Node, a *trial.Agent, pod string, hogs ...*sandbox.Hog) {
	t.Helper()
	for len(a.Decisions) > 0 {
		if d := <-a.Decisions; slices.Contains(alarms, d.Decision) && !isAbout(&d, pod) {
			t.Errorf("false alarm: %s %s: %s", d.Decision, d.Pod, d.Reason)
		}
	}
	if _, _, err := sandbox.CPUTime(a.PID); err != nil {
		t.Errorf("the agent has ended: %v", err)
	}
	for _, h := range hogs {
		if !h.Process.Alive() {
			t.Error("the other pod was killed")
		}
	}
	if ooms, err := n.OOMKills(); err != nil || ooms != 0 {
		t.Errorf("kernel OOM kills: %d, %v", ooms, err)
	}
}

// isAbout reports whether a decision is about one pod alone. The decision that no pod could be evicted names the
// pods that it failed for.
func isAbout(d *agent.Decision, pod string) bool {
	if d.Pod == "" && len(d.Failed) == 0 || d.Pod != "" && d.Pod != pod {
		return false
	}
	return !slices.ContainsFunc(d.Failed, func(f agent.PodReason) bool { return f.Pod != pod })
}

// TestEvict_WaitsThroughShortDip checks that early checks do not evict while memory lasts. The first dip ends once the
// agent has found it.
func TestEvict_WaitsThroughShortDip(t *testing.T) {
	n := node(t, "dip")
	resident := addHog(t, n, "resident", "", "fill 376MiB")
	dipper := addHog(t, n, "dipper", "", "")
	a := start(t, n, "--eviction-hard=memory.available<100Mi", "-v=2", trial.NoPeriodicCheck)
	await(t, a, agent.Nothing) // the only periodic check
	if _, err := dipper.Do(within(t, patience), "fill 60MiB at 50MiB/s"); err != nil {
		t.Fatal(err)
	}
	if d := await(t, a, agent.Pending, agent.Evicted, agent.Failed); d.Decision != agent.Pending {
		t.Errorf("the agent did not wait through the dip: %+v", d)
	}
	for _, does := range []string{"release", "dip 60MiB at 50MiB/s for 1s"} {
		if _, err := dipper.Do(within(t, patience), does); err != nil {
			t.Fatal(err)
		}
	}
	quiet(t, n, a, resident, dipper)
}

func TestEvict_IgnoresPageCache(t *testing.T) {
	n := node(t, "cache")
	h := addHog(t, n, "streamer", "", "fill 50MiB")
	a := start(t, n, "--eviction-hard=memory.available<100Mi", "-v=2", often)
	full := n.Crossing(t.Context(), 100*mib)
	if _, err := h.Do(within(t, 2*time.Minute), "cache 450MiB in "+t.TempDir()+" fsync"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-full:
	default:
		t.Error("the page cache did not fill the node")
	}
	await(t, a, agent.Nothing)
	quiet(t, n, a, h)
}
