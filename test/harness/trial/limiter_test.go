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

// TestLimiter_StopsIneffectiveEvictions: a process outside of all pods allocates the node's memory, slowly and
// fast. Each eviction clears the threshold for a moment, and still no third pod is evicted; the
// decision names the consumer of the memory. An OOM kill at the node's own limit then hits the
// largest consumer.
func TestLimiter_StopsIneffectiveEvictions(t *testing.T) {
	// At higher rates the number of evicted pods depends on the duration of a kill.
	for _, rate := range []string{"20MiB/s", "100MiB/s"} {
		t.Run(rate, func(t *testing.T) {
			parallel(t)
			n := node(t, "ineffective")
			var pods []*sandbox.Hog
			for i := range 5 {
				pods = append(pods, addHog(t, n, fmt.Sprintf("pod-%d", i), "", "fill 30MiB"))
			}
			a := start(t, n, "--eviction-hard=memory.available<100Mi", often)
			daemon := startHolder(t, n, "daemon")
			// As much as is available after four evictions, less the rest above the kernel's
			// own limit.
			filled := make(chan error, 1)
			go func() {
				_, err := daemon.Do(within(t, time.Minute), "fill 330MiB at "+rate)
				filled <- err
			}()
			d := await(t, a, agent.Ineffective, agent.Failed)
			if d.Decision != agent.Ineffective || d.LimitedBy != "ineffective" {
				t.Errorf("decision: %+v", d)
			}
			d = await(t, a, agent.Ineffective, agent.Failed) // the same with its consumers
			if d.Repeated != agent.RepeatMeasured || len(d.Consumers) == 0 || d.Consumers[0].Name != "cgroup daemon" || d.Consumers[0].Amount < 200*mib {
				t.Errorf("decision: %+v", d)
			}
			t.Logf("%s: %+v", d.Reason, d.Consumers)
			if err := <-filled; err != nil {
				t.Fatal(err)
			}
			if _, err := daemon.Do(within(t, time.Minute), "dip 50MiB for 2s"); err != nil { // twenty periodic checks, and imminent exhaustion
				t.Fatal(err)
			}
			deadPods := 0
			for _, h := range pods {
				select {
				case <-h.Process.Done():
					deadPods++
				default:
				}
			}
			if deadPods != 2 {
				t.Errorf("got %d killed pods, want 2", deadPods)
			}
			evicted := 0
			for len(a.Decisions) > 0 {
				if d := <-a.Decisions; d.Decision == agent.Evicted {
					evicted++
				}
			}
			if evicted > 0 {
				t.Errorf("%d pods were evicted after the limit for ineffective evictions", evicted)
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
