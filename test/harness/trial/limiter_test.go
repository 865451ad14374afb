package trial_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// TestLimiter_StopsIneffectiveEvictions: a process outside of all pods allocates the memory that evictions free,
// slowly and fast. Each eviction clears the threshold for a moment, and still no third pod is evicted; the
// decision names the consumer of the memory.
func TestLimiter_StopsIneffectiveEvictions(t *testing.T) {
	for _, rate := range []string{"20MiB/s", "100MiB/s"} {
		t.Run(rate, func(t *testing.T) {
			parallel(t)
			n := node(t, "ineffective")
			pods := map[string]*sandbox.Hog{}
			for i := range 5 {
				name := fmt.Sprintf("pod-%d", i)
				pods["default/"+name] = addHog(t, n, name, "", "fill 30MiB")
			}
			a := start(t, n, "--eviction-hard=memory.available<100Mi", often)
			daemon := startHolder(t, n, "daemon")
			fillUntil(t, n, daemon, 110, "")
			// Far less below the threshold than half of a pod, so that a check at any moment of the growth is
			// followed by enough of it.
			const below = 92
			for range 2 {
				fillUntil(t, n, daemon, below, " at "+rate)
				d := await(t, a, agent.Evicted, agent.Ineffective, agent.Failed)
				if d.Decision != agent.Evicted || pods[d.Pod] == nil {
					t.Fatalf("decision: %+v", d)
				}
				<-pods[d.Pod].Process.Done()
				delete(pods, d.Pod)
				await(t, a, agent.ReclaimDone)
			}
			// The growth continues until the end of the test. Without it, evictions would have a lasting
			// effect, and would go on.
			startFillUntil(t, n, daemon, below, " at "+rate)
			if err := daemon.Send("fill 30MiB at 512KiB/s"); err != nil {
				t.Fatal(err)
			}
			d := await(t, a, agent.Ineffective, agent.Failed, agent.Evicted)
			if d.Decision != agent.Ineffective || d.LimitedBy != "ineffective" {
				t.Errorf("decision: %+v", d)
			}
			d = await(t, a, agent.Ineffective, agent.Failed, agent.Evicted) // the same with its consumers
			if d.Repeated != agent.RepeatMeasured || len(d.Consumers) == 0 || d.Consumers[0].Name != "cgroup daemon" || d.Consumers[0].Amount < 200*mib {
				t.Errorf("decision: %+v", d)
			}
			t.Logf("%s: %+v", d.Reason, d.Consumers)
			burst := startHolder(t, n, "burst") // exhaustion appears imminent, and the level stays lower
			if _, err := burst.Do(within(t, time.Minute), "fill 30MiB"); err != nil {
				t.Fatal(err)
			}
			wait := aWhile // twenty periodic checks
			for _, h := range pods {
				checkAlive(t, h, wait)
				wait = 0
			}
			for len(a.Decisions) > 0 {
				if d := <-a.Decisions; d.Decision == agent.Evicted || d.Decision == agent.Failed {
					t.Errorf("after the limit for ineffective evictions: %s %s: %s", d.Decision, d.Pod, d.Reason)
				}
			}
			if ooms, err := n.OOMKills(); err != nil || ooms != 0 {
				t.Errorf("kernel OOM kills: %d, %v", ooms, err)
			}
		})
	}
}

// awaitSaved waits until the state file contains a text.
func awaitSaved(t *testing.T, n *trial.Node, text string) {
	t.Helper()
	ctx := within(t, patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		data, err := os.ReadFile(filepath.Join(n.Dir, "state.json"))
		if err == nil && strings.Contains(string(data), text) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("no %s in the state file: %s, %v", text, data, err)
		}
	}
}

// TestLimiter_QuotaSurvivesCrash: one pod an hour, and the agent dies after the first.
func TestLimiter_QuotaSurvivesCrash(t *testing.T) {
	n := node(t, "budget")
	const args = "--evictions-per-hour=1"
	addHog(t, n, "first", "", "fill 200MiB")
	second := addHog(t, n, "second", trial.Requesting("200Mi"), "fill 150MiB")
	if _, err := second.Do(within(t, time.Minute), "fill 90MiB"); err != nil {
		t.Fatal(err)
	}
	a, err := n.Start(within(t, patience), binary, "--eviction-hard=memory.available<100Mi", args, often)
	if err != nil {
		t.Fatal(err)
	}
	if d := await(t, a, agent.Evicted); d.Pod != "default/first" {
		t.Fatalf("decision: %+v", d)
	}
	awaitSaved(t, n, `"evictions"`)
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Do(within(t, time.Minute), "fill 190MiB"); err != nil {
		t.Fatal(err)
	}
	b := start(t, n, "--eviction-hard=memory.available<100Mi", args, often)
	d := await(t, b, agent.Limited, agent.Evicted)
	if d.Decision != agent.Limited || d.LimitedBy != "quota" || !strings.Contains(d.Reason, "1 evictions within an hour") {
		t.Errorf("decision: %+v", d)
	}
	quiet(t, n, b, second)
}
