package simulate_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/simulate"
)

// other returns a configuration with another hard threshold of memory.
func other(t testing.TB, threshold, more string) *config.Agent {
	t.Helper()
	c, err := config.ParseFile([]byte("apiVersion: plimsoll.dev/v1alpha1\nkind: AgentConfiguration\nevictionHard: {memory.available: " + threshold + "}\nenforceNodeAllocatable: []\n" + more))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func evictionsOf(c *simulate.Course) (all []string) {
	for _, e := range c.Evictions {
		all = append(all, e.At.UTC().Format(time.TimeOnly)+" "+e.Pod)
	}
	return all
}

// The recorded agent evicted a leak of 30 MiB a second at 21 s, which freed 700 MiB. At 31 s it would
// have 700 MiB with its size, and 986 MiB with its growth, measured from 0 s on.
func TestCompare_BetweenBounds(t *testing.T) {
	data := leak(t, podOf("hog"), podOf("other"))
	for about, tc := range map[string]struct {
		threshold  string
		kept       string
		grown      string
		leastKept  signals.Bytes // MiB
		leastGrown signals.Bytes
	}{
		"the same":                 {"300Mi", "12:00:21 default/hog", "12:00:21 default/hog", 290, 290},
		"earlier":                  {"700Mi", "12:00:11 default/hog", "12:00:11 default/hog", 600, 600},
		"not at all, within bound": {"250Mi", "", "12:00:31 default/hog", 290, 214},
		"never":                    {"100Mi", "", "", 290, 214},
	} {
		c, err := simulate.CompareRecording(data, other(t, tc.threshold, ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(evictionsOf(&c.Recorded), " "); got != "12:00:21 default/hog" || c.Recorded.Least.Value != 290*mebi || c.Checks != 4 {
			t.Errorf("%s: recorded %s, %d checks, %d left", about, got, c.Checks, c.Recorded.Least.Value)
		}
		if kept, grown := strings.Join(evictionsOf(&c.Kept), " "), strings.Join(evictionsOf(&c.Grown), " "); kept != tc.kept || grown != tc.grown {
			t.Errorf("%s: evicted %q and %q, want %q and %q", about, kept, grown, tc.kept, tc.grown)
		}
		if kept, grown := c.Kept.Least.Value/mebi, c.Grown.Least.Value/mebi; kept != tc.leastKept || grown != tc.leastGrown {
			t.Errorf("%s: %d and %d MiB left at least, want %d and %d", about, kept, grown, tc.leastKept, tc.leastGrown)
		}
		if c.Recorded.Pressure[signals.MemoryPressure] != 10*time.Second || !c.Grown.Exhausted.IsZero() {
			t.Errorf("%s: pressure %s, exhausted at %s", about, c.Recorded.Pressure[signals.MemoryPressure], c.Grown.Exhausted)
		}
	}
}

// A comparison with the recorded configuration itself decides nearly as recorded: whatever was not
// recorded is left out, and nothing panics or goes on for ever.
func TestCompare_WithRecordedConfiguration(t *testing.T) {
	recorded, again := 0, 0
	for seed := range uint64(6) {
		w, data := recordedWorld(t, seed, 2, 70*time.Second)
		c, err := simulate.CompareRecording(data, w.config)
		if err != nil {
			t.Fatal(err)
		}
		recorded, again = recorded+len(c.Recorded.Evictions), again+len(c.Kept.Evictions)
		if len(c.Recorded.Evictions) < w.evicted {
			t.Errorf("seed %d: %d evictions of %d", seed, len(c.Recorded.Evictions), w.evicted)
		}
	}
	if recorded < 10 || again < recorded/3 || again > 3*recorded {
		t.Errorf("%d evictions recorded, %d with the same configuration", recorded, again)
	}
}

func TestCounterfactual_StatesWhatIsAssumed(t *testing.T) {
	c, err := simulate.CompareRecording(leak(t, podOf("hog"), podOf("other")), other(t, "250Mi", ""))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"checks: 4, from 2026-03-01T12:00:01Z to 2026-03-01T12:00:31Z\n",
		"pods evicted             1         0                            1\n",
		"MemoryPressure           10s       0s                           0s\n",
		"least memory left        290Mi     290Mi                        214Mi\n",
		"other configuration, pods keep their size:\n  no eviction\n", "  2026-03-01T12:00:31Z  default/hog for memory.available\n", "Known: ", "Assumed:",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if _, err := simulate.CompareRecording(nil, other(t, "1Mi", "")); !errors.Is(err, recording.ErrNoRecording) {
		t.Errorf("no recording: %v", err)
	}
}
