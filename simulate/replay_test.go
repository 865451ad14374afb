package simulate_test

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/simulate"
)

var worlds = flag.Int("worlds", 12, "number of random nodes that are recorded and replayed")

// A replay with the recorded configuration decides the same, byte for byte, over restarts of the
// agent, other layouts of disks, failed kills and withdrawn evictions.
func TestReplay_DecidesTheSame(t *testing.T) {
	var checks, acted, evicted, decisions, size int
	for seed := range uint64(*worlds) {
		w, data := recordedWorld(t, seed, 3, 2*time.Minute)
		replay := simulate.NewReplay(data)
		err := replay.Run(func(c *simulate.Repeated) error {
			if c.Check.Act != nil {
				acted++
			}
			if !bytes.Equal(c.Recorded, c.Replayed) {
				t.Fatalf("seed %d, at %s, exact %t:\nrecorded %s\nreplayed %s", seed, c.At, c.Exact, c.Recorded, c.Replayed)
			}
			return nil
		})
		s := replay.Summary
		if err != nil || s.Runs != 3 || s.Checks != s.Same || s.Damage != (recording.Damage{}) {
			t.Fatalf("seed %d: %v, %+v", seed, err, s)
		}
		checks, evicted, decisions, size = checks+s.Checks, evicted+w.evicted, decisions+w.decisions, size+len(data)
	}
	t.Logf("%d checks, %d of them considered pods, %d evictions, %d decisions, %d bytes", checks, acted, evicted, decisions, size)
	if acted < 50**worlds || evicted < 2**worlds {
		t.Errorf("only %d checks considered pods, with %d evictions: the worlds are too quiet", acted, evicted)
	}
}

// A replay that begins in the middle, or behind a gap, waits for a state, and says so.
func TestReplay_ContinuesBehindGaps(t *testing.T) {
	for seed := range uint64(10) {
		_, data := recordedWorld(t, seed, 1, 5*time.Minute)
		damaged := bytes.Clone(data)
		for i := range 40 {
			damaged[len(damaged)/3+i] ^= 0x55
		}
		replay := simulate.NewReplay(damaged)
		if err := replay.Run(func(c *simulate.Repeated) error {
			if c.Exact && !bytes.Equal(c.Recorded, c.Replayed) {
				t.Errorf("seed %d, at %s:\nrecorded %s\nreplayed %s", seed, c.At, c.Recorded, c.Replayed)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		s := replay.Summary
		if s.Unknown+s.Damage.Undecoded == 0 || s.Same == 0 || s.Differ != 0 || s.Damage.Places != 1 || s.Checks != s.Same+s.Unknown+s.Approximate {
			t.Errorf("seed %d: %+v", seed, s)
		}
	}
}

func TestReplay_RefusesOtherData(t *testing.T) {
	for about, data := range map[string][]byte{"empty": nil, "text": []byte("apiVersion: plimsoll.dev/v1alpha1\nkind: NodeScenario\n")} {
		if err := simulate.NewReplay(data).Run(nil); !errors.Is(err, simulate.ErrNoRecording) {
			t.Errorf("%s: %v", about, err)
		}
	}
	e := recording.NewEncoder(recording.Header{Started: time.Now(), Version: "9", Config: []byte(`{"kind":"AgentConfiguration"}`)})
	data, err := e.Header(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := simulate.NewReplay(data).Run(nil); err == nil || errors.Is(err, simulate.ErrNoRecording) {
		t.Errorf("a configuration of another version: %v", err)
	}
}

func TestReplay_WritesDecisions(t *testing.T) {
	data := leak(t, podOf("hog"), podOf("other"))
	var text, lines bytes.Buffer
	if err := simulate.NewReplay(data).WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"      1s  agent 1.2.3 on node node-7 (cgroup v2), from 2026-03-01T12:00:01Z\n          thresholds: memory.available<300Mi\n",
		"     21s  memory.available 290Mi of 4Gi   [MemoryPressure]\n", "EVICT default/hog for memory.available",
		"\nchecks: 4, from 2026-03-01T12:00:01Z to 2026-03-01T12:00:31Z, runs of the agent: 1\n4 decide the same, 0 otherwise\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "11s") {
		t.Errorf("a check without news in\n%s", text.String())
	}
	if err := simulate.NewReplay(data).WriteJSON(&lines); err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSpace(lines.String()), "\n"); len(got) != 4 || !strings.Contains(got[2], `"evicted":{"pod":"default/hog"`) || strings.Contains(got[2], "replayed") {
		t.Errorf("%d lines: %s", len(got), lines.String())
	}
}

// A recording with another decision than its input leads to is reported, with both decisions.
func TestReplay_ReportsOtherDecisions(t *testing.T) {
	data := leak(t, podOf("hog"), podOf("other"))
	var changed []byte
	e := recording.NewEncoder(recording.Header{})
	r := recording.NewReader(data)
	for entry := r.Next(); entry != nil; entry = r.Next() {
		switch {
		case entry.Header != nil:
			e = recording.NewEncoder(*entry.Header)
			changed, _ = e.Header(changed)
		case entry.Check != nil:
			if a := entry.Check.Act; a != nil {
				a.Evicted.Pod = a.Ranking[1]
			}
			changed, _ = e.Check(changed, entry.Check)
		}
	}
	var text, lines bytes.Buffer
	replay := simulate.NewReplay(changed)
	if err := replay.WriteText(&text); !errors.Is(err, simulate.ErrDiffers) || replay.Summary.Differ != 1 || replay.Summary.Same != 3 {
		t.Errorf("%v, %+v", err, replay.Summary)
	}
	if !strings.Contains(text.String(), "21s  DIFFERS\n") || !strings.Contains(text.String(), "3 decide the same, 1 otherwise") {
		t.Errorf("text %s", text.String())
	}
	if err := simulate.NewReplay(changed).WriteJSON(&lines); !errors.Is(err, simulate.ErrDiffers) || !strings.Contains(lines.String(), `{"at":"21s","recorded":{`) {
		t.Errorf("%v, %s", err, lines.String())
	}
}

// A run goes on in the next segment. The last check of the segment before is lost.
func TestReplay_NoticesLostEndOfSegment(t *testing.T) {
	r := recording.NewReader(leak(t, podOf("hog"), podOf("other")))
	var e *recording.Encoder
	var data []byte
	checks := 0
	for entry := r.Next(); entry != nil; entry = r.Next() {
		switch {
		case entry.Header != nil:
			e = recording.NewEncoder(*entry.Header)
			data, _ = e.Header(data)
			e.DropState()
		case entry.Check != nil:
			data, _ = e.Check(data, entry.Check)
			if checks++; checks == 3 {
				data = data[:len(data)-1]
				e.Reset(2)
				data, _ = e.Header(data)
			}
		}
	}
	replay := simulate.NewReplay(data)
	if err := replay.Run(func(*simulate.Repeated) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if s := replay.Summary; s.Same != 2 || s.Unknown != 1 || s.Differ != 0 || s.Runs != 1 || s.Damage.Tail != 1 {
		t.Errorf("%+v", s)
	}
}

// The check with the eviction was not recorded, as the next one notes. Without it the state is not known.
func TestReplay_NoticesLostChecks(t *testing.T) {
	r := recording.NewReader(leak(t, podOf("hog"), podOf("other")))
	var e *recording.Encoder
	var data []byte
	for entry := r.Next(); entry != nil; entry = r.Next() {
		switch {
		case entry.Header != nil:
			e = recording.NewEncoder(*entry.Header)
			data, _ = e.Header(data)
		case entry.Check != nil && entry.Check.Act == nil:
			if entry.Check.Seq == 3 {
				entry.Check.Lost = 1
			}
			data, _ = e.Check(data, entry.Check)
		}
	}
	replay := simulate.NewReplay(data)
	if err := replay.Run(func(*simulate.Repeated) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if s := replay.Summary; s.Same != 2 || s.Unknown != 1 || s.Differ != 0 {
		t.Errorf("%+v", s)
	}
}

func TestReplay_NamesWhatIsNotRepeated(t *testing.T) {
	s := simulate.ReplaySummary{Runs: 2, Checks: 9, Same: 3, Unknown: 4, Approximate: 2, Damage: recording.Damage{Places: 1, Bytes: 7}}
	for _, want := range []string{"4 were not repeated", "2 were repeated, but not compared", "7 unreadable bytes in 1 places"} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("no %q in %s", want, s.String())
		}
	}
}
