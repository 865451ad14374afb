package simulate_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/simulate"
)

var worlds = flag.Int("worlds", 12, "number of random nodes that are recorded and replayed")

// A replay with the recorded configuration decides the same, byte for byte, over restarts of the
// agent, other layouts of disks, failed kills and withdrawn evictions.
func TestReplay_DecidesTheSame(t *testing.T) {
	var checks, acted, brief, grew, helped, evicted, decisions, again, size int
	for seed := range uint64(*worlds) {
		w, data := recordedWorld(t, seed, 3, 2*time.Minute)
		replay := simulate.NewReplay(data)
		err := replay.Run(func(c *simulate.Repeated) error {
			if a := c.Check.Act; a != nil {
				acted++
				if o := c.Outcome; o != nil && (o.Spared != a.Spared || (o.KubeletsPod == nil) != (a.KubeletsPod == nil) || o.KubeletsPod != nil && o.KubeletsPod.UID != a.KubeletsPod.UID) {
					t.Fatalf("seed %d, at %s: %d pods are spared, recorded are %d", seed, c.At, o.Spared, a.Spared)
				}
				grows, helps := growthOf(c.Outcome)
				grew, helped = grew+grows, helped+helps
			}
			if c.Check.Brief {
				brief++
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
		checks, evicted, size = checks+s.Checks, evicted+w.evicted, size+len(data)
		lines, repeated := recordedLines(data)
		if !slices.Equal(lines, w.lines) {
			t.Fatalf("seed %d: %d lines of the decision log are recorded, %d were written, or they differ", seed, len(lines), len(w.lines))
		}
		decisions, again = decisions+len(lines), again+repeated
	}
	t.Logf("%d checks, %d of them considered pods, in %d a pod grew, %d evicted one for its growth, %d are brief; %d evictions, %d decisions, %d of them with their consumers; %d bytes",
		checks, acted, grew, helped, brief, evicted, decisions, again, size)
	if acted < 50**worlds || evicted < 2**worlds || grew < *worlds || helped == 0 || brief < *worlds || again == 0 {
		t.Error("the worlds are too quiet")
	}
}

// A change of the configuration is in the recording from the check on that adopted it.
func TestReplay_DecidesTheSameAfterReload(t *testing.T) {
	reconfigured, acted := 0, 0
	for seed := range uint64(*worlds) {
		w, data := recordedWorldOf(t, seed, 2, 3*time.Minute, true)
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
		if s := replay.Summary; err != nil || s.Runs != 2 || s.Checks != s.Same || s.Damage != (recording.Damage{}) {
			t.Fatalf("seed %d: %v, %+v", seed, err, s)
		}
		reconfigured += w.reconfigured
	}
	if reconfigured < 5**worlds || acted < 20**worlds {
		t.Errorf("%d changes of the configuration, %d checks considered pods: the worlds are too quiet", reconfigured, acted)
	}
}

// recordedLines returns the recorded lines of the decision log, and how many were written again with
// their consumers.
func recordedLines(data []byte) (lines []string, repeated int) {
	r := recording.NewReader(data)
	for e := r.Next(); e != nil; e = r.Next() {
		if e.Decision != nil {
			lines = append(lines, string(e.Decision.Line))
			if strings.Contains(lines[len(lines)-1], `"repeated":"measured"`) {
				repeated++
			}
		}
	}
	return lines, repeated
}

// A check that is recorded in part is repeated and not compared, nor are those behind it.
func TestReplay_ComparesNoChecksBehindPartOfOne(t *testing.T) {
	replay := simulate.NewReplay(rewritten(t, func(c *recording.Check) { c.Cut = c.Seq == 1 }))
	if err := replay.Run(func(*simulate.Repeated) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if s := replay.Summary; s.Same != 1 || s.Approximate != 3 || s.Differ != 0 {
		t.Errorf("%+v", s)
	}
}

// rewritten returns the recording of a leak with changed checks.
func rewritten(t *testing.T, change func(*recording.Check)) (data []byte) {
	t.Helper()
	var e *recording.Encoder
	r := recording.NewReader(leak(t, podOf("hog"), podOf("other")))
	for entry := r.Next(); entry != nil; entry = r.Next() {
		switch {
		case entry.Header != nil:
			e = recording.NewEncoder(*entry.Header)
			data, _ = e.Header(data)
		case entry.Check != nil:
			change(entry.Check)
			data, _ = e.Check(data, entry.Check)
		}
	}
	return data
}

// Names in a recording of another origin do not reach a terminal as they are.
func TestReplay_WritesNoControlCharacters(t *testing.T) {
	var text bytes.Buffer
	data := leak(t, podOf("hog\x1b[2J\x07"), podOf("other"))
	if err := simulate.NewReplay(data).WriteText(&text); err != nil {
		t.Fatal(err)
	}
	c, err := simulate.CompareRecording(data, other(t, "300Mi", ""))
	if err == nil {
		err = c.WriteText(&text)
	}
	if err != nil || !strings.Contains(text.String(), "EVICT default/hog?[2J? for") || strings.ContainsAny(text.String(), "\x1b\x07") {
		t.Errorf("%v, %q", err, text.String())
	}
	const version = "1\x1b]0;x\x07"
	scenario, _ := exported(t, checkedOnce(t, recording.Header{Node: "n\x1b]0;x\x07\nextra: 1", Version: version, Config: []byte("{}")}))
	if !strings.HasPrefix(scenario, "# Made of a recording: node n?]0;x??extra: 1, agent 1?]0;x?, cgroup v2, from ") || strings.ContainsAny(scenario, "\x1b\x07") {
		t.Errorf("%.300q", scenario)
	}
	err = simulate.NewReplay(checkedOnce(t, recording.Header{Version: version})).WriteText(io.Discard)
	if err == nil || !strings.Contains(err.Error(), "of agent 1?]0;x?: ") || strings.ContainsAny(err.Error(), "\x1b\x07") {
		t.Errorf("%q", err)
	}
}

// checkedOnce returns a recording with one check.
func checkedOnce(t *testing.T, h recording.Header) []byte {
	t.Helper()
	h.Started, h.CgroupVersion = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), 2
	e := recording.NewEncoder(h)
	data, err := e.Header(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := signals.Snapshot{At: h.Started}
	s.Node[signals.MemoryAvailable] = signals.Observed(900*mebi, 4<<30, s.At)
	data, ok := e.Check(data, &recording.Check{Snapshot: s})
	if !ok {
		t.Fatal("not encoded")
	}
	return data
}

// FuzzReplay reads recordings of another origin: any payload in a valid frame, behind a valid recording.
func FuzzReplay(f *testing.F) {
	valid := leak(f, podOf("hog"), podOf("other"))
	configuration := other(f, "700Mi", "")
	r := recording.NewReader(valid)
	for e := r.Next(); e != nil; e = r.Next() {
		f.Add(e.Frame[8:])
	}
	f.Fuzz(func(_ *testing.T, payload []byte) {
		if len(payload) == 0 || len(payload) > recording.MaxPayload {
			return
		}
		data := append(bytes.Clone(valid), sealed(payload)...)
		data = append(data, data...)
		_ = simulate.NewReplay(data).WriteText(io.Discard)
		_ = simulate.NewReplay(data).WriteJSON(io.Discard)
		_, _ = simulate.CompareRecording(data, configuration)
		_ = simulate.ExportScenario(data, io.Discard)
		_, _ = recording.Excerpt(data, time.Time{}, time.Time{}, io.Discard)
		recording.Describe(data)
	})
}

// sealed returns the frame of a payload.
func sealed(payload []byte) []byte {
	castagnoli, n := crc32.MakeTable(crc32.Castagnoli), len(payload)
	frame := append([]byte{0xF1, byte(n), byte(n >> 8), byte(n >> 16), 0, 0, 0, 0}, payload...)
	binary.LittleEndian.PutUint32(frame[4:], crc32.Update(crc32.Checksum(frame[:4], castagnoli), castagnoli, payload))
	return frame
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
		if err := simulate.NewReplay(data).Run(nil); !errors.Is(err, recording.ErrNoRecording) {
			t.Errorf("%s: %v", about, err)
		}
	}
	e := recording.NewEncoder(recording.Header{Started: time.Now(), Version: "9", Config: []byte(`{"kind":"AgentConfiguration"}`)})
	data, err := e.Header(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := simulate.NewReplay(data).Run(nil); err == nil || errors.Is(err, recording.ErrNoRecording) {
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

// A check that cannot act yet has the reason in its text.
func TestReplay_NamesWhatEvictionWaitsFor(t *testing.T) {
	c, err := config.ParseFile([]byte("apiVersion: plimsoll.dev/v1alpha1\nkind: AgentConfiguration\nevictionHard: {memory.available: 300Mi, nodefs.available: 10%}\nenforceNodeAllocatable: []\n"))
	if err != nil {
		t.Fatal(err)
	}
	effective, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	policy, err := c.Policy(signals.Single)
	if err != nil {
		t.Fatal(err)
	}
	const freed = "memory or disk space of default/old is still being freed"
	for want, act := range map[string]recording.Act{
		"blocked: " + freed: {Signal: signals.MemoryAvailable, Blocks: []string{"", freed}},
		"garbage is being collected: no pod is evicted yet": {Signal: signals.NodefsAvailable, Collections: []recording.Collection{{}}},
	} {
		begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		s := signals.Snapshot{At: begun.Add(time.Second)}
		s.Node[signals.MemoryAvailable] = signals.Observed(900*mebi, 4<<30, s.At)
		s.Node[signals.NodefsAvailable] = signals.Observed(90<<30, 100<<30, s.At)
		s.Node[act.Signal].Available = mebi
		v := agent.NewRepeater(policy, c.Limits.Policy()).Repeat(&s, &agent.Trace{Blocks: act.Blocks}).Verdict
		act.Acted = true
		e := recording.NewEncoder(recording.Header{Started: begun, Config: effective, State: []byte(`{"exact":true}`)})
		data, _ := e.Header(nil)
		data, _ = e.Check(data, &recording.Check{Snapshot: s, Met: v.GracePassed, Unknown: v.Unknown, Conditions: v.Conditions, StorageLimits: true, Act: &act})
		var text strings.Builder
		if err := simulate.NewReplay(data).WriteText(&text); err != nil || !strings.Contains(text.String(), "\n          "+want+"\n\nchecks: 1") {
			t.Errorf("%v, no %q in\n%s", err, want, text.String())
		}
	}
}

// A recording with another decision than its input leads to is reported, with both decisions.
func TestReplay_ReportsOtherDecisions(t *testing.T) {
	changed := rewritten(t, func(c *recording.Check) {
		if c.Act != nil {
			c.Act.Evicted.Pod = c.Act.Ranking[1]
		}
	})
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
