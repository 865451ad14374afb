package trial

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"plimsoll.dev/plimsoll/internal/recording"
)

// evicting is a node with a decision at 300 s and an eviction of another pod by a kubelet.
func evicting(node string) *moments {
	return &moments{node: node, to: 600, lines: map[float64]keys{300: about("would-evict", "a"), 330: about("would-evict", "a")},
		gone: map[int]map[string]recording.End{310: {"b": recording.EvictedForMemory}}}
}

// A row has the time, the node, the pod, the place of its record, and what was available.
func TestReport_RowNamesItsRecord(t *testing.T) {
	data := evicting("node-7").recorded(t)
	r := compare(t, Options{}, data)
	d := r.Decisions[0]
	if !d.Time.Equal(at(300)) || !d.Last.Equal(at(330)) || d.Repeats != 1 || d.Node != "node-7" || d.Pod != "shop/a" || d.Record.File != "node.recording" ||
		*d.Available != 50*mib || *d.Least != (1000-390)*mib || d.Threshold != "memory.available<100Mi" || d.Kubelet != "shop/a" || !d.DryRun {
		t.Errorf("%+v", d)
	}
	for _, place := range []Place{d.Record, d.Other.Record, r.Evictions[0].Record, r.Evictions[0].Decision.Record} {
		found := false
		for e := range entries(data) {
			found = found || e.Offset == place.Offset && (e.Decision != nil || e.Usage != nil && len(e.Usage.Gone) == 1)
		}
		if !found {
			t.Errorf("no record %s", place)
		}
	}
	want := []Node{{Name: "node-7", Begin: at(0), End: at(601), Files: 1, Arming: []string{"disarmed"}, Checks: 600, Usages: 600}}
	if !reflect.DeepEqual(r.Nodes, want) || !r.Begin.Equal(at(0)) || !r.End.Equal(at(601)) || len(r.Missing) != 0 {
		t.Errorf("%+v, from %s to %s, missing %q", r.Nodes, r.Begin, r.End, r.Missing)
	}
	if s := r.Summary; s.DryRun != (Decisions{Total: 1, AnotherPod: 1}) || s.Armed != (Decisions{}) || s.Evictions != (Evictions{Total: 1, AnotherPod: 1}) || s.OOMKills != (OOMKills{}) {
		t.Errorf("%+v", s)
	}
}

func entries(data []byte) func(func(*recording.Entry) bool) {
	return func(yield func(*recording.Entry) bool) {
		r := recording.NewReader(data)
		for e := r.Next(); e != nil && yield(e); e = r.Next() {
		}
	}
}

// Nodes are compared each by itself, and a time and the names of nodes select rows.
func TestReport_SelectsTimeAndNodes(t *testing.T) {
	quiet := &moments{node: "node-8", to: 600, gone: map[int]map[string]recording.End{310: {"a": recording.EvictedForMemory}}}
	once := evicting("node-9")
	delete(once.lines, 330)
	files := [][]byte{evicting("node-7").recorded(t), quiet.recorded(t), once.recorded(t)}
	all := []string{"decision 300 shop/a another-pod shop/b", "eviction 311 shop/b another-pod", "eviction 311 shop/a others-only"}
	for _, tc := range []struct {
		about string
		o     Options
		want  []string
	}{
		{"two nodes", Options{Nodes: []string{"node-8", "node-7"}}, all},
		{"one node", Options{Nodes: []string{"node-8"}}, all[2:]},
		{"until the decision", Options{End: at(305), Nodes: []string{"node-8", "node-7"}}, all[:1]},
		{"from the evictions on", Options{Begin: at(305), Nodes: []string{"node-8", "node-7"}}, all[1:]},
		{"a short window", Options{Window: time.Second, End: at(320), Nodes: []string{"node-8", "node-7"}}, []string{"decision 300 shop/a another-pod shop/b", "eviction 311 shop/b another-pod", "eviction 311 shop/a others-only"}},
		{"a shorter window", Options{Window: time.Second / 2, Nodes: []string{"node-9"}}, []string{"decision 300 shop/a plimsoll-only", "eviction 311 shop/b others-only"}},
	} {
		if got := outcomes(compare(t, tc.o, files...)); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.about, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
		}
	}
}

// A record counts once, in however many files it is. The lines of the decision log have no choice, so that those
// of the recording are preferred.
func TestReport_CountsEachRecordOnce(t *testing.T) {
	m := evicting("node-7")
	m.lines[400], m.lines[405] = about("evict", "d"), killed("c", "node")
	m.kills = map[int]int64{405: 1}
	data := m.recorded(t)
	want := compare(t, Options{}, data)
	part := excerpt(t, data, 200, 500)
	var lines bytes.Buffer
	for e := range entries(data) {
		if e.Decision != nil {
			var keys map[string]any
			if err := json.Unmarshal(e.Decision.Line, &keys); err != nil {
				t.Fatal(err)
			}
			delete(keys, "choice")
			lines.Write(lineOf(t, e.Time().Sub(started).Seconds(), keys))
			lines.WriteByte('\n')
		}
	}
	for n := range 2 {
		r := NewReading(Options{})
		add := []func() error{
			func() error { return r.AddRecording("node.recording", data) },
			func() error { return r.AddRecording("part.recording", part) },
			func() error { return r.AddDecisions("node-7.jsonl", "node-7", lines.Bytes()) },
		}
		if n == 1 {
			slices.Reverse(add)
		}
		for _, f := range add {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}
		got := reportOf(t, r)
		if got.Nodes[0].Files != 3 || got.Nodes[0].Checks != 600 {
			t.Errorf("%+v", got.Nodes)
		}
		if !slices.Equal(outcomes(got), outcomes(want)) || reasons(got) != reasons(want) || got.Decisions[0].Kubelet != "shop/a" || got.Decisions[0].Repeats != 1 {
			t.Errorf("got\n%s\n%s\nwant\n%s\n%s", strings.Join(outcomes(got), "\n"), reasons(got), strings.Join(outcomes(want), "\n"), reasons(want))
		}
	}
}

func excerpt(tb testing.TB, data []byte, from, to float64) []byte {
	tb.Helper()
	var b bytes.Buffer
	if _, err := recording.Excerpt(data, at(from), at(to), &b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// The decision log alone shows no eviction by others, so that decisions are unknown. Its OOM kills are compared.
func TestReport_OfDecisionLogAlone(t *testing.T) {
	r := NewReading(Options{})
	var lines bytes.Buffer
	for _, l := range []struct {
		seconds float64
		line    keys
	}{{100, keys{"level": "INFO", "msg": "Started"}}, {300, about("would-evict", "a")}, {305, killed("b", "node")}, {500, killed("c", "container")}, {600, keys{"decision": "armed"}}} {
		fmt.Fprintf(&lines, "%s\n\n", lineOf(t, l.seconds, l.line))
	}
	if err := r.AddDecisions("node-7.jsonl", "node-7", lines.Bytes()); err != nil {
		t.Fatal(err)
	}
	got := reportOf(t, r)
	want := []string{"decision 300 shop/a unknown", "kill 305 shop/b unknown", "kill 500 shop/c own-limit"}
	if !slices.Equal(outcomes(got), want) || len(got.Missing) != 2 || !slices.Equal(got.Nodes[0].Arming, []string{"armed", "disarmed"}) {
		t.Errorf("got %q, missing %q, %+v", outcomes(got), got.Missing, got.Nodes)
	}
	if place := got.Decisions[0].Record; !bytes.HasPrefix(lines.Bytes()[place.Offset:], []byte(`{"available":`)) {
		t.Errorf("no line at byte %d", place.Offset)
	}
}

// An OOM kill in both files has its place in the recording, where a command finds it.
func TestReport_PlaceOfKillIsInRecording(t *testing.T) {
	m := moments{node: "n", to: 600, lines: map[float64]keys{305: killed("b", "node")}, kills: map[int]int64{305: 1}}
	for _, linesFirst := range []bool{true, false} {
		r := NewReading(Options{})
		add := []func() error{
			func() error { return r.AddDecisions("n.jsonl", "n", lineOf(t, 305, killed("b", "node"))) },
			func() error { return r.AddRecording("n.recording", m.recorded(t)) },
		}
		if !linesFirst {
			slices.Reverse(add)
		}
		for _, f := range add {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}
		if got := reportOf(t, r).OOMKills; len(got) != 1 || got[0].Record.File != "n.recording" {
			t.Errorf("lines first %t: %+v", linesFirst, got)
		}
	}
}

// An export that broke off is noted: without its end it looks like one of a shorter time.
func TestReport_NotesRecordingThatEndsWithinRecord(t *testing.T) {
	data := evicting("n").recorded(t)
	for cut, want := range map[int]int{0: 0, 3: 1} {
		r := NewReading(Options{})
		if err := r.AddRecording("x", data[:len(data)-cut]); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(strings.Join(reportOf(t, r).Missing, "\n"), "x ends within a record"); got != want {
			t.Errorf("%d bytes are missing: %d notes", cut, got)
		}
	}
}

// A decision of a check without its line counts too.
func TestReport_OfCheckWithoutLine(t *testing.T) {
	evict := func(dry bool) func(*recording.Check) {
		return func(c *recording.Check) {
			if c.Seq == 300 {
				c.Act = &recording.Act{Evicted: &recording.Evicted{Pod: podOf("a"), Cause: "memory.available", Hard: true, Message: "The node was low on resource: memory. ", DryRun: dry}}
			}
		}
	}
	for about, m := range map[string]*moments{"no line": {checks: evict(true)}, "a line too": {checks: evict(true), lines: map[float64]keys{300: about("would-evict", "a")}}} {
		m.node, m.to = "node-7", 600
		r := compare(t, Options{}, m.recorded(t))
		if got := outcomes(r); !slices.Equal(got, []string{"decision 300 shop/a plimsoll-only"}) || r.Decisions[0].Available == nil || r.Decisions[0].Repeats != 0 {
			t.Errorf("%s: %q, %+v", about, got, r.Decisions)
		}
	}
}

// Damage is an error with the file and the offset, and what is near it is unknown.
func TestReading_MalformedFiles(t *testing.T) {
	data := evicting("node-7").recorded(t)
	var check int64
	for e := range entries(data) {
		if e.Check != nil && e.Time().Equal(at(340)) {
			check = e.Offset
		}
	}
	damaged := bytes.Clone(data)
	damaged[check+10]++
	for _, tc := range []struct {
		about  string
		add    func(*Reading) error
		offset int64
		want   string
	}{
		{"damage", func(r *Reading) error { return r.AddRecording("x", damaged) }, check, "damaged"},
		{"no recording", func(r *Reading) error { return r.AddRecording("x", []byte("text")) }, 0, "no frame of a recording is readable"},
		{"nothing", func(r *Reading) error { return r.AddRecording("x", nil) }, 0, "no frame"},
		{"no JSON", func(r *Reading) error { return r.AddDecisions("x", "n", []byte("{}\n{]\n")) }, 3, "no line of the decision log"},
		{"no decision", func(r *Reading) error { return r.AddDecisions("x", "n", []byte("{}\n")) }, 0, "no line of the decision log"},
		{"no line", func(r *Reading) error { return r.AddDecisions("x", "n", nil) }, 0, "no line of the decision log"},
	} {
		err := tc.add(NewReading(Options{}))
		malformed, is := errors.AsType[*recording.MalformedError](err)
		if !is || malformed.File != "x" || malformed.Offset != tc.offset || !strings.Contains(err.Error(), fmt.Sprintf("read x: at byte %d: ", tc.offset)) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want byte %d and %q", tc.about, err, tc.offset, tc.want)
		}
	}
	r := NewReading(Options{})
	if err := r.AddRecording("x", damaged); err == nil {
		t.Fatal("no error")
	}
	got := reportOf(t, r)
	if want := []string{"decision 300 shop/a unknown", "eviction 311 shop/b another-pod"}; !slices.Equal(outcomes(got), want) || !strings.Contains(strings.Join(got.Missing, "\n"), "x is not readable in part") {
		t.Errorf("got %q, missing %q", outcomes(got), got.Missing)
	}
	// Only the decision itself is damaged: each check is a key frame.
	m := &moments{node: "n", to: 600, lines: map[float64]keys{300: about("would-evict", "a")}, gone: map[int]map[string]recording.End{310: {"b": recording.EvictedForMemory}},
		checks: func(c *recording.Check) { c.State = []byte("{}") }}
	keyed := m.recorded(t)
	for e := range entries(keyed) {
		if e.Decision != nil {
			keyed[e.Offset+20]++
		}
	}
	r = NewReading(Options{})
	if err := r.AddRecording("x", keyed); err == nil {
		t.Error("no error")
	}
	if got := outcomes(reportOf(t, r)); !slices.Equal(got, []string{"eviction 311 shop/b unknown"}) {
		t.Errorf("got %q", got)
	}
	r = NewReading(Options{})
	if err := r.AddDecisions("x", "n", fmt.Appendf(nil, "%s\n{]\n%s\n", lineOf(t, 300, about("would-evict", "a")), lineOf(t, 500, killed("b", "pod")))); err == nil {
		t.Error("no error")
	}
	if got := reportOf(t, r); len(got.Decisions) != 1 || len(got.OOMKills) != 1 || !slices.Contains(got.Missing, "1 lines of x are not readable.") {
		t.Errorf("%+v", got)
	}
	if err := NewReading(Options{}).AddRecording("x", data[:len(data)-3]); err != nil {
		t.Errorf("an incomplete last frame, as after a kill: %v", err)
	}
}

// Any bytes are read without a panic, and no text of them has a character that is not printed.
func FuzzReading(f *testing.F) {
	data := evicting("node-7").recorded(f)
	f.Add(data)
	f.Add([]byte(`{"time":"2026-03-01T12:00:00Z","decision":"oom-kill","uid":"\u009b2J"}`))
	f.Add([]byte(`{"time":"2026-03-01T12:00:00Z","decision":"would-evict","pod":"a\u001b[2J","choice":{"places":[{"uid":"x"}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReading(Options{})
		_, _ = r.AddRecording("file", data), r.AddDecisions("file", "node", data)
		report, err := r.Report()
		if err != nil {
			return
		}
		text, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		eachText(v, func(s string) {
			if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q", s)
			}
		})
		checkTotals(t, report)
	})
}

func eachText(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, item := range v {
			eachText(item, f)
		}
	case map[string]any:
		for _, item := range v {
			eachText(item, f)
		}
	}
}

// checkTotals checks that each row counts once, of an OOM kill each process, and that no eviction by another program is the match of two decisions.
func checkTotals(t *testing.T, r *Report) {
	t.Helper()
	s := r.Summary
	processes, k := int64(0), s.OOMKills
	for i := range r.OOMKills {
		processes = sum(processes, r.OOMKills[i].Processes)
	}
	outcomes := sum(k.Avoidable, sum(k.Despite, sum(k.NotDecided, sum(k.OwnLimit, k.Unknown))))
	for about, ok := range map[string]bool{
		"decisions": s.DryRun.Total+s.Armed.Total == len(r.Decisions) && s.DryRun.Total == s.DryRun.SamePod+s.DryRun.AnotherPod+s.DryRun.OOMKill+s.DryRun.PlimsollOnly+s.DryRun.Withdrawn+s.DryRun.Unknown,
		"evictions": s.Evictions.Total == len(r.Evictions) && s.Evictions.Total == s.Evictions.SamePod+s.Evictions.AnotherPod+s.Evictions.OthersOnly+s.Evictions.Unknown,
		"kills":     k.Total == processes && k.Total == outcomes,
		"same pods": s.DryRun.SamePod+s.Armed.SamePod == s.Evictions.SamePod,
		"matches":   s.DryRun.AnotherPod+s.Armed.AnotherPod <= s.Evictions.AnotherPod,
	} {
		if !ok {
			t.Errorf("%s: %+v", about, s)
		}
	}
	matched := map[string]bool{}
	for _, d := range r.Decisions {
		if d.Outcome == SamePod || d.Outcome == AnotherPod {
			key := d.Node + " " + d.Other.Record.String() + " " + d.Other.UID
			if matched[key] {
				t.Errorf("two decisions match the eviction of %s", d.Other.Pod)
			}
			matched[key] = true
		}
	}
}

// In random trials each row counts once, and what is removed from the records never adds agreement.
func TestReport_RandomTrials(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	known := 0
	for range 300 {
		m := moments{node: "n", to: 900, lines: map[float64]keys{}, gone: map[int]map[string]recording.End{}, kills: map[int]int64{}}
		pick := func() string { return pods[random.IntN(len(pods))] }
		for range 3 + random.IntN(9) {
			m.lines[float64(100+random.IntN(700))] = about([]string{"would-evict", "would-evict", "would-evict", "evict", "soft-evict"}[random.IntN(5)], pick())
		}
		for range random.IntN(3) {
			second := 100 + random.IntN(700)
			m.lines[float64(second)] = killed(pick(), []string{"node", "pods", "container", "unknown"}[random.IntN(4)])
			m.kills[second]++
		}
		for _, name := range pods {
			if random.IntN(2) == 0 {
				second := 10 * (10 + random.IntN(70))
				if m.gone[second] == nil {
					m.gone[second] = map[string]recording.End{}
				}
				m.gone[second][name] = []recording.End{recording.EvictedForMemory, recording.EvictedForMemory, recording.EvictedForDisk, recording.EndEvicted, recording.Deleted, recording.EndUnknown}[random.IntN(6)]
			}
		}
		data := m.recorded(t)
		whole := compare(t, Options{}, data)
		checkTotals(t, whole)
		known += whole.Summary.DryRun.SamePod + whole.Summary.DryRun.AnotherPod + int(whole.Summary.OOMKills.Avoidable)
		part := compare(t, Options{}, excerpt(t, data, 0, float64(100+random.IntN(800))))
		checkTotals(t, part)
		if a, b := part.Summary, whole.Summary; a.Evictions.SamePod > b.Evictions.SamePod || a.OOMKills.Avoidable > b.OOMKills.Avoidable || t.Failed() {
			t.Fatalf("seed %d: a part has %+v, the whole %+v", seed, a, b)
		}
	}
	if known < 50 {
		t.Errorf("seed %d: %d matches: the trials are too quiet", seed, known)
	}
}
