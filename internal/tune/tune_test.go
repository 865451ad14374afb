package tune

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

const mib = 1 << 20

var started = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// leaking is the recording of a disarmed agent: a check each ten seconds with an available amount in MiB, while one of
// two pods leaks. The kernel kills for the memory of the node 5 s after some checks.
func leaking(tb testing.TB, node string, threshold string, available []int64, kills ...int) []byte {
	tb.Helper()
	c, err := config.ParseFile([]byte("apiVersion: plimsoll.dev/v1alpha1\nkind: AgentConfiguration\nevictionHard: {memory.available: " + threshold + "}\nenforceNodeAllocatable: []\n"))
	if err != nil {
		tb.Fatal(err)
	}
	effective, err := c.Effective()
	if err != nil {
		tb.Fatal(err)
	}
	e := recording.NewEncoder(recording.Header{Version: "1.2.3", Node: node, CgroupVersion: 2, Started: started, Config: effective, State: []byte(`{"exact":true}`)})
	data, err := e.Header(nil)
	if err != nil {
		tb.Fatal(err)
	}
	for i, mibs := range available {
		now := started.Add(time.Duration(10*i) * time.Second)
		u := &recording.Usage{At: now}
		for name, used := range map[string]int64{"hog": 2000 - mibs, "other": 300} {
			pod := &signals.Pod{UID: "uid-" + name, Namespace: "default", Name: name, Owner: "default/" + name}
			u.Pods = append(u.Pods, recording.PodUsage{Pod: pod, Values: [recording.ValueCount]int64{recording.WorkingSet: used * mib, recording.Anon: used * mib, recording.Disk: recording.Unknown}})
		}
		slices.SortFunc(u.Pods, func(a, b recording.PodUsage) int { return strings.Compare(a.Pod.Name, b.Pod.Name) })
		check := &recording.Check{Seq: uint64(i), Snapshot: signals.Snapshot{At: now.Add(time.Second)}}
		check.Snapshot.Node[signals.MemoryAvailable] = signals.Observed(signals.Amount(mibs)*mib, 4<<30, now.Add(time.Second))
		var ok bool
		if data, ok = e.Usage(data, u); ok {
			data, ok = e.Check(data, check)
		}
		if ok && slices.Contains(kills, i) {
			data, ok = e.Decision(data, &recording.Decision{At: now.Add(6 * time.Second), Line: json.RawMessage(`{"decision":"oom-kill","limitOf":"node","kills":1}`)})
		}
		if !ok {
			tb.Fatal("not encoded")
		}
	}
	return data
}

func tuned(tb testing.TB, o Options, files ...[]byte) *Result {
	tb.Helper()
	t, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	for i, data := range files {
		if err := t.Add(fmt.Sprintf("%d.recording", i), data); err != nil {
			tb.Fatal(err)
		}
	}
	return t.Result()
}

// A low threshold evicts nothing, and the kernel kills. One in between evicts the leak. A high one evicts as much
// without need, and the highest more than that. The missing memory is not recorded, so that none surely avoids the kill.
func TestResult_FrontOfALeak(t *testing.T) {
	leak := leaking(t, "node-7", "10Mi", []int64{1500, 900, 600, 250, 40, 1200, 1200}, 4)
	quiet := leaking(t, "node-8", "10Mi", []int64{800, 800, 800, 800})
	values := []string{"20Mi", "100Mi", "300Mi", "2100Mi"}
	var got []string
	r := tuned(t, Options{Values: values}, leak, quiet)
	for _, p := range r.Points {
		got = append(got, fmt.Sprintf("%s %v %v %t", p.Threshold, p.Evictions, p.ExhaustedNodes, p.Front))
	}
	want := []string{"20Mi {0 0} {1 1} true", "100Mi {1 1} {0 1} true", "300Mi {1 1} {0 1} true", "2100Mi {4 4} {0 1} false"}
	if !slices.Equal(got, want) || r.Nodes != 2 || r.Recorded != (Totals{ExhaustedNodes: Range[int]{1, 1}}) {
		t.Errorf("got %q, want %q; recorded %+v on %d nodes", got, want, r.Recorded, r.Nodes)
	}
}

// Without memory at checks, exhaustion has a time.
func TestResult_CountsTime(t *testing.T) {
	data := leaking(t, "node-7", "10Mi", []int64{1500, 200, -5, -5, 900})
	for byTime, value := range map[bool]string{true: "time", false: "nodes"} {
		r := tuned(t, Options{Values: []string{"20Mi", "300Mi"}, ByTime: byTime}, data, data)
		if low := r.Points[0]; low.ExhaustedSeconds.Upper == 0 || low.ExhaustedNodes.Upper != 1 || r.Recorded.ExhaustedSeconds != (Range[float64]{40, 40}) || r.Recorded.ExhaustedNodes != (Range[int]{1, 1}) {
			t.Errorf("%+v, recorded %+v", low, r.Recorded)
		}
		if high := r.Points[1]; high.ExhaustedSeconds.Upper != 0 || high.ExhaustedNodes.Upper != 0 || high.Evictions.Lower != 2 || r.By != value {
			t.Errorf("%+v, by %s", high, r.By)
		}
	}
}

// A recording that is given twice counts twice, which the result states.
func TestResult_NamesOverlaps(t *testing.T) {
	data, other := leaking(t, "node-7", "10Mi", []int64{1500, 200, 900}), leaking(t, "node-8", "10Mi", []int64{1500, 200, 900})
	const note = "Recordings of node node-7 overlap"
	if r := tuned(t, Options{Values: []string{"20Mi"}}, data, other, data); !slices.Equal(r.Overlapping, []string{"node-7"}) || !strings.Contains(r.Text(false), note) {
		t.Errorf("%q\n%s", r.Overlapping, r.Text(false))
	}
	if r := tuned(t, Options{Values: []string{"20Mi"}}, data, other); len(r.Overlapping) != 0 || strings.Contains(r.Text(false), note) {
		t.Errorf("%q", r.Overlapping)
	}
}

// No member of the front is dominated by any point, and each other point is dominated by a member.
func TestMarkFront_HasNoDominatedMember(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	draw := func() Range[int] { return between(random.IntN(5), random.IntN(5)) }
	for range 2000 {
		points := make([]Point, 1+random.IntN(12))
		for i := range points {
			points[i].Totals = Totals{draw(), draw(), between(random.Float64(), float64(random.IntN(2)))}
		}
		byTime := random.IntN(2) == 0
		markFront(points, byTime)
		front := 0
		for i := range points {
			of, better := points[i].figures(byTime), 0
			for j := range points {
				if points[j].Front && dominates(points[j].figures(byTime), of) {
					better++
				}
				if points[i].Front && dominates(points[j].figures(byTime), of) {
					t.Fatalf("seed %d: %+v is on the front, and %+v dominates it", seed, points[i], points[j])
				}
			}
			if points[i].Front {
				front++
			} else if better == 0 {
				t.Fatalf("seed %d: no member of the front dominates %+v", seed, points[i])
			}
		}
		if front == 0 {
			t.Fatalf("seed %d: the front is empty", seed)
		}
	}
}

func TestValues_OfTexts(t *testing.T) {
	for text, want := range map[string]string{
		"100Mi, 5%,100Mi": "100Mi 5%", "50Mi..800Mi": "50Mi 100Mi 200Mi 400Mi 800Mi", "1Mi..3Mi": "1Mi 2Mi 3Mi", "100..200": "100 119 141 168 200", "1Gi..1Gi,2Gi": "1Gi 2Gi", "": "",
	} {
		if got, err := Values(text, 5); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for text, steps := range map[string]int{"2Gi..1Gi": 5, "0..1Gi": 5, "a..1Gi": 5, "1%..5%": 5, "1Mi..2Mi": 1, "1Mi..2Gi": MaxValues + 1} {
		if got, err := Values(text, steps); err == nil {
			t.Errorf("%q in %d steps: %q", text, steps, got)
		}
	}
	if got, err := Values(DefaultValues, DefaultSteps); err != nil || len(got) != DefaultSteps || got[0] != "50Mi" || got[DefaultSteps-1] != "2Gi" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestNew_RefusesOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"a replay changes memory alone":      {Signal: signals.NodefsAvailable, Values: []string{"5%"}},
		"no threshold is given":              {},
		"65 thresholds: at most 64":          {Values: make([]string, MaxValues+1)},
		"must be a quantity or a percentage": {Values: []string{"much"}},
		"must be positive":                   {Values: []string{"100Mi", "-1"}},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A recording that cannot be read is an error with its file and the offset. What is readable of it counts.
func TestAdd_MalformedFiles(t *testing.T) {
	data := leaking(t, "node-7", "10Mi", []int64{1500, 900, 600, 250, 1200})
	var offset int64
	r := recording.NewReader(data)
	for e := r.Next(); e != nil; e = r.Next() {
		if e.Check != nil && e.Check.Seq == 2 {
			offset = e.Offset
		}
	}
	damaged := bytes.Clone(data)
	damaged[offset+9]++
	decisions := recording.NewEncoder(recording.Header{Started: started, Config: json.RawMessage(`{"apiVersion":"plimsoll.dev/v1alpha1","kind":"AgentConfiguration"}`)})
	header, err := decisions.Header(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		data   []byte
		offset int64
		want   string
		counts int
	}{{[]byte("text"), 0, "no frame of a recording is readable", 0}, {damaged, offset, "damaged", 1}, {header, 0, "No check is recorded", 0}} {
		tuning, err := New(Options{Values: []string{"100Mi"}})
		if err != nil {
			t.Fatal(err)
		}
		err = tuning.Add("x", tc.data)
		malformed, is := errors.AsType[*recording.MalformedError](err)
		if !is || malformed.File != "x" || malformed.Offset != tc.offset || !strings.Contains(err.Error(), tc.want) || len(tuning.Result().Recordings) != tc.counts {
			t.Errorf("%v, want byte %d and %q", err, tc.offset, tc.want)
		}
	}
	tuning, _ := New(Options{Values: []string{"100Mi"}})
	without, err := recording.NewEncoder(recording.Header{Started: started}).Header(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := tuning.Add("x", without); err == nil || !strings.Contains(err.Error(), "read the configuration in x") {
		t.Errorf("%v", err)
	}
}

func TestResult_Text(t *testing.T) {
	r := tuned(t, Options{Values: []string{"20Mi", "100Mi", "300Mi", "2100Mi"}}, leaking(t, "node-7", "10Mi", []int64{1500, 900, 600, 250, 40, 1200, 1200}, 4))
	for all, want := range map[bool]string{
		false: `Hard thresholds of memory.available: 4 compared, over 1 recording of 1 node

THRESHOLD    EVICTIONS  NODES EXHAUSTED  TIME EXHAUSTED
20Mi         0          1                0s
100Mi        1          0..1             0s
300Mi        1          0..1             0s
as recorded  0          1                0s
1 threshold not on the front: another one is at least as good by every bound. --all shows them.
`,
		true: `
20Mi         0          1                0s              on the front
100Mi        1          0..1             0s              on the front
300Mi        1          0..1             0s              on the front
2100Mi       2          0..1             0s
as recorded  0          1                0s
`} {
		if got := r.Text(all); !strings.Contains(got, want) || !strings.Contains(got, "Assumed:") || !strings.HasSuffix(got, "0.recording: node node-7, checks: 7, from 2026-03-01T12:00:01Z to 2026-03-01T12:01:01Z\n") {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	if got, want := r.CSV(), "\n100Mi,true,1,1,0,1,0,0\n"; !strings.Contains(got, want) || strings.Count(got, "\n") != 5 {
		t.Errorf("%s, want %s", got, want)
	}
	if got := rangeText(Range[int]{1, 3}, func(n int) string { return fmt.Sprint(n) }); got != "1..3" {
		t.Error(got)
	}
}
