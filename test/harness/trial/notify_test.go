package trial_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// noTimer disables all timed checks for an hour: any check is then a wake-up by the kernel.
var noTimer = []string{"--max-fill-rate=1", trial.NoPeriodicCheck, "--early-eviction=immediate"}

// pastTheLine grows a hog of 350 MiB past the threshold of a node of 512 MiB, and no further.
const pastTheLine = "fill 80MiB at 200MiB/s"

func TestWakeup_OnMemoryThreshold(t *testing.T) {
	n := node(t, "crossing")
	if n.Version() != 1 {
		t.Skip("cgroup v2 has no thresholds of usage")
	}
	wakesPastTheLine(t, n, addHog(t, n, "hog", "", "fill 350MiB"), "crossing")
}

func TestWakeup_OnMemoryLimit(t *testing.T) {
	n := node(t, "limit")
	if n.Version() != 2 {
		t.Skip("cgroup v1 has no memory.events")
	}
	h := addHog(t, n, "hog", "", "fill 350MiB")
	if err := os.WriteFile(filepath.Join(n.Node.Dir("memory"), "memory.high"), []byte("420M"), 0); err != nil {
		t.Fatal(err)
	}
	wakesPastTheLine(t, n, h, "limit")
}

// wakesPastTheLine checks that a hog which grows past the threshold wakes the agent by a source, and that the agent
// decides before its next timer. A stall may come first: a source is registered beside the loop, and has a pace. The
// hog stays alive, because its exit could precede the registration.
func wakesPastTheLine(t *testing.T, n *trial.Node, h *sandbox.Hog, source string) {
	t.Helper()
	address := freeAddress(t)
	a := start(t, n, append(noTimer, "--eviction-hard=memory.available<100Mi", "--dry-run", "-v=2", "--healthz-bind-address="+address)...)
	await(t, a, agent.Nothing) // otherwise the first check could be the one that decides
	if err := h.Send(pastTheLine); err != nil {
		t.Fatal(err)
	}
	d := await(t, a, agent.WouldEvict, agent.Evicted, agent.Failed)
	if d.Decision != agent.WouldEvict || d.Pod != "default/hog" || d.Check != "early" || len(d.WokenBy) == 0 {
		t.Errorf("decision: %+v", d)
	}
	awaitPage(t, address, "/metrics", func(text string) bool { return hasWoken(text, source) })
	quiet(t, n, a, h)
}

// hasWoken reports whether a source has woken the agent, by its metrics.
func hasWoken(metrics, source string) bool {
	_, rest, found := strings.Cut(metrics, `plimsoll_wakeups_total{source="`+source+`"} `)
	return found && !strings.HasPrefix(rest, "0\n")
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := trial.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// awaitPage waits until a page of the agent's HTTP server has a text. A failed request counts as another text: the
// server bounds the time of a request, which a delayed client exceeds.
func awaitPage(t *testing.T, address, page string, has func(text string) bool) {
	t.Helper()
	end, tick := within(t, patience), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for {
		text, err := trial.Get(end, "http://"+address+page)
		if err == nil && has(text) {
			return
		}
		select {
		case <-tick.C:
		case <-end.Done():
			t.Fatalf("%s has not the text: %v\n%s", page, err, text)
		}
	}
}

func TestWakeup_OnStallWithoutPressure(t *testing.T) {
	n := node(t, "stalls")
	pod, err := n.AddPod("throttled", "")
	if err != nil {
		t.Fatal(err)
	}
	h, err := n.StartHog(t.Context(), pod, "app")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	does := "thrash 128MiB in " + t.TempDir() + " for 10m" // longer than the test
	if n.Version() == 2 {                                  // tasks above memory.high are throttled, which counts as stall
		does = "fill 100MiB at 10MiB/s"
		if err := os.WriteFile(filepath.Join(pod.Dir("memory"), "memory.high"), []byte("64M"), 0); err != nil {
			t.Fatal(err)
		}
	} else if err := pod.LimitMemory(64 * mib); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	a := start(t, n, append(noTimer, "--eviction-hard=memory.available<100Mi", "--healthz-bind-address="+address)...)
	awaitPage(t, address, "/readyz?verbose", func(text string) bool {
		return strings.Contains(text, "[+]notifications ok: psi on machine")
	})
	if err := h.Send(does); err != nil {
		t.Fatal(err)
	}
	awaitPage(t, address, "/metrics", func(text string) bool { return hasWoken(text, "stall") })
	// Stalls of the machine affect all cgroups: waits beside the node can wake the agent before
	// the pod reaches its limit.
	d := await(t, a, agent.Stalled, agent.Evicted, agent.Failed)
	for ; d.Decision == agent.Stalled && strings.Contains(d.Reason, "not explained by limits"); d = await(t, a, agent.Stalled, agent.Evicted, agent.Failed) {
		t.Logf("beside the pod: %s", d.Reason)
	}
	if d.Decision != agent.Stalled || len(d.Conditions) != 0 || len(d.Stalls) == 0 || d.Stalls[0].Pod != "default/throttled" {
		t.Errorf("decision: %+v", d)
	}
	if !strings.Contains(d.Reason, "default/throttled waits at a limit of its own, which is no pressure of the node") {
		t.Errorf("why: %s", d.Reason)
	}
	quiet(t, n, a, h)
}
