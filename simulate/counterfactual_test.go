package simulate_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
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
		soft       string // with a grace period of 5 s
		kept       string
		grown      string
		leastKept  signals.Bytes // MiB
		leastGrown signals.Bytes
	}{
		"the same":                 {"300Mi", "", "12:00:21 default/hog", "12:00:21 default/hog", 290, 290},
		"earlier":                  {"700Mi", "", "12:00:11 default/hog", "12:00:11 default/hog", 600, 600},
		"earlier, soft":            {"300Mi", "950Mi", "12:00:11 default/hog", "12:00:11 default/hog", 600, 600},
		"later, soft":              {"100Mi", "700Mi", "12:00:21 default/hog", "12:00:21 default/hog", 290, 290},
		"not at all, within bound": {"250Mi", "", "", "12:00:31 default/hog", 290, 214},
		"never":                    {"100Mi", "", "", "", 290, 214},
	} {
		more := ""
		if tc.soft != "" {
			more = fmt.Sprintf("evictionSoft: {memory.available: %s}\nevictionSoftGracePeriod: {memory.available: 5s}\n", tc.soft)
		}
		c, err := simulate.CompareRecording(data, other(t, tc.threshold, more))
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

// Several configurations have the results that each of them has alone.
func TestCompareEach_EqualsCompareRecording(t *testing.T) {
	for seed := range uint64(3) {
		_, data := recordedWorld(t, seed, 2, 70*time.Second)
		configs := []*config.Agent{other(t, "100Mi", ""), other(t, "300Mi", ""), other(t, "900Mi", "evictionChoice: kubelet\n"), other(t, "10%", "")}
		all, err := simulate.CompareEach(data, configs)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range configs {
			alone, err := simulate.CompareRecording(data, c)
			if err != nil {
				t.Fatal(err)
			}
			var got, want bytes.Buffer
			if err := errors.Join(all[i].WriteText(&got), alone.WriteText(&want)); err != nil || got.String() != want.String() {
				t.Errorf("seed %d, configuration %d: %v, got\n%s\nwant\n%s", seed, i, err, got.String(), want.String())
			}
		}
	}
}

// An OOM kill at 12 s for the memory of the node does not happen if a pod was evicted at 11 s, which frees 400 MiB: in the
// pessimistic course only if that covers the missing amount. At 21 s the recorded agent has evicted it, so that both
// courses have the memory of the recording.
func TestCompare_AvoidsOOMKills(t *testing.T) {
	const killed = `{"decision":"oom-kill","limitOf":"node"}`
	missing := func(available, shortage int) string {
		return fmt.Sprintf(`{"decision":"would-evict","signal":"memory.available","available":%d,"choice":{"cause":"memory.available","shortage":%d}}`, available*mebi, shortage*mebi)
	}
	for about, tc := range map[string]struct {
		lines     map[float64]string // by their seconds
		threshold string
		recorded  int64
		kept      int64
		grown     int64
	}{
		"avoided, if the size is kept": {map[float64]string{12: killed}, "700Mi", 1, 0, 1},
		"not avoided":                  {map[float64]string{12: `{"decision":"oom-kill","limitOf":"pods"}`}, "250Mi", 1, 1, 1},
		"before the eviction":          {map[float64]string{10.9: killed}, "700Mi", 1, 1, 1},
		"too soon after it":            {map[float64]string{11.02: killed}, "700Mi", 1, 1, 1},
		"as recorded":                  {map[float64]string{30: killed}, "700Mi", 1, 1, 1},
		"at the limit of a pod":        {map[float64]string{12: `{"decision":"oom-kill","limitOf":"pod"}`}, "700Mi", 0, 0, 0},
		"another line":                 {map[float64]string{12: `{"decision":"evict","limitOf":"node"}`}, "700Mi", 0, 0, 0},

		"the missing amount is free":         {map[float64]string{11.5: missing(600, 400), 12: killed}, "700Mi", 1, 0, 0},
		"less than that is free":             {map[float64]string{11.5: missing(600, 401), 12: killed}, "700Mi", 1, 0, 1},
		"memory fell after the decision":     {map[float64]string{2: missing(900, 101), 12: killed}, "700Mi", 1, 0, 1},
		"memory fell, and enough is free":    {map[float64]string{2: missing(900, 100), 12: killed}, "700Mi", 1, 0, 0},
		"not evicted, and little is missing": {map[float64]string{11.5: missing(600, 1), 12: killed}, "250Mi", 1, 1, 1},
		"the decision is too old":            {map[float64]string{-49: missing(600, 100), 12: killed}, "700Mi", 1, 0, 1},
		"the decision is later":              {map[float64]string{12: killed, 12.5: missing(600, 100)}, "700Mi", 1, 0, 1},
		"the choice has no missing amount":   {map[float64]string{11.5: missing(600, 0), 12: killed}, "700Mi", 1, 0, 1},
		"the decision is for a disk":         {map[float64]string{11.5: strings.ReplaceAll(missing(600, 100), "memory", "nodefs"), 12: killed}, "700Mi", 1, 0, 1},
		"an eviction freed memory":           {map[float64]string{20.25: missing(290, 10), 22: killed}, "1500Mi", 1, 0, 1},
		"a kill freed memory":                {map[float64]string{11.5: missing(600, 100), 12: killed, 13: killed}, "700Mi", 2, 0, 1},
		"several processes":                  {map[float64]string{11.5: missing(600, 100), 12: `{"decision":"oom-kill","limitOf":"node","kills":50}`}, "700Mi", 50, 0, 50},
	} {
		c, err := simulate.CompareRecording(withLines(t, tc.lines), other(t, tc.threshold, ""))
		if err != nil {
			t.Fatal(err)
		}
		if c.Recorded.Kills != tc.recorded || c.Kept.Kills != tc.kept || c.Grown.Kills != tc.grown {
			t.Errorf("%s: %d recorded, %d and %d with the other configuration, want %d, %d and %d", about, c.Recorded.Kills, c.Kept.Kills, c.Grown.Kills, tc.recorded, tc.kept, tc.grown)
		}
	}
}

// withLines is the recording of a leak with lines of the decision log: each behind the last check that is at most half a
// second later.
func withLines(t *testing.T, lines map[float64]string) (data []byte) {
	t.Helper()
	var e *recording.Encoder
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	left := slices.Sorted(maps.Keys(lines))
	r := recording.NewReader(leak(t, podOf("hog"), podOf("other")))
	for entry := r.Next(); entry != nil; entry = r.Next() {
		for now := entry.Time(); e != nil && len(left) > 0 && !now.IsZero(); left = left[1:] {
			at := begun.Add(time.Duration(left[0] * float64(time.Second)))
			if !now.After(at.Add(time.Second / 2)) {
				break
			}
			data, _ = e.Decision(data, &recording.Decision{At: at, Line: []byte(lines[left[0]])})
		}
		switch {
		case entry.Header != nil:
			e = recording.NewEncoder(*entry.Header)
			data, _ = e.Header(data)
		case entry.Check != nil:
			data, _ = e.Check(data, entry.Check)
		case entry.Usage != nil:
			data, _ = e.Usage(data, entry.Usage)
		}
	}
	return data
}

// The time without memory ends with a run: what was the case until the next one is not known.
func TestCompare_CountsTimeWithoutMemory(t *testing.T) {
	var data []byte
	for run := range 2 {
		r := recording.NewReader(leak(t, podOf("hog"), podOf("other")))
		var e *recording.Encoder
		for entry := r.Next(); entry != nil; entry = r.Next() {
			switch {
			case entry.Header != nil:
				entry.Header.SinceBoot = time.Duration(run)
				e = recording.NewEncoder(*entry.Header)
				data, _ = e.Header(data)
			case entry.Check != nil:
				c := entry.Check
				c.Snapshot.At = c.Snapshot.At.Add(time.Duration(run) * time.Hour)
				if c.Seq >= 2 { // no second of it is without memory
					c.Clock = time.Hour
				}
				if c.Seq == 1 || c.Seq == 3 {
					c.Snapshot.Node[signals.MemoryAvailable].Available = 0
				}
				data, _ = e.Check(data, c)
			}
		}
	}
	c, err := simulate.CompareRecording(data, other(t, "100Mi", ""))
	if err != nil {
		t.Fatal(err)
	}
	if c.Recorded.ExhaustedFor != 20*time.Second {
		t.Errorf("recorded for %s", c.Recorded.ExhaustedFor)
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
		"least memory left        290Mi     290Mi                        214Mi\n", "OOM kills of the node    0         0                            0\n",
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
