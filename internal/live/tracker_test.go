package live_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/live"
	"plimsoll.dev/plimsoll/internal/recording"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// header returns the header of a run with a configuration; empty: the defaults.
func header(t testing.TB, text string) *recording.Header {
	t.Helper()
	if text == "" {
		text = "evictionHard: {memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%, pid.available: \"300\"}\nevictionSoft: {memory.available: 300Mi}\nevictionSoftGracePeriod: {memory.available: 1m}\n"
	}
	c, err := config.ParseFile([]byte("apiVersion: plimsoll.dev/v1alpha1\nkind: AgentConfiguration\nmaxFillRate: 4Gi\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	effective, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	return &recording.Header{Node: "node-7", Version: "0.3.0", Started: noon, Config: effective}
}

// check returns a periodic check with so much memory available.
func check(after time.Duration, available signals.Amount) *recording.Check {
	at := noon.Add(after)
	c := &recording.Check{Snapshot: signals.Snapshot{At: at}}
	n := &c.Snapshot.Node
	for s := range signals.All {
		n[s] = signals.Observed(90*gib, 100*gib, at)
	}
	n[signals.MemoryAvailable] = signals.Observed(available, 8*gib, at)
	n[signals.AllocatableMemoryAvailable] = signals.Observed(available, 7*gib, at)
	n[signals.PIDAvailable] = signals.Observed(31_999, 32_768, at)
	return c
}

// pod returns the usage of a pod.
func pod(name string, memory, request int64, change func(*recording.PodUsage)) recording.PodUsage {
	p := recording.PodUsage{Pod: &signals.Pod{UID: "uid-" + name, Namespace: "shop", Name: name, MemoryRequest: signals.Quantity{Value: signals.Amount(request)}}}
	p.Values = [recording.ValueCount]int64{recording.WorkingSet: memory, recording.Anon: memory, recording.Tasks: 7, recording.Disk: recording.Unknown}
	if change != nil {
		change(&p)
	}
	return p
}

func usage(after time.Duration, pods ...recording.PodUsage) *recording.Entry {
	return &recording.Entry{Usage: &recording.Usage{At: noon.Add(after), Pods: pods}}
}

func decision(after time.Duration, line string) *recording.Entry {
	return &recording.Entry{Decision: &recording.Decision{At: noon.Add(after), Line: json.RawMessage(line)}}
}

// tracked returns the state of entries, a second after the last one.
func tracked(t testing.TB, entries ...*recording.Entry) *live.State {
	t.Helper()
	tr, last := live.NewTracker(), noon
	for _, e := range entries {
		tr.Add(e)
		if at := e.Time(); at.After(last) {
			last = at
		}
	}
	s := tr.State(last.Add(time.Second))
	line, err := s.Line()
	if err != nil {
		t.Fatal(err)
	}
	again, err := live.Parse(line)
	if err != nil || !cmp.Equal(s, again) || strings.Count(string(line), "\n") != 1 {
		t.Fatalf("the state is not that of its line: %v\n%s", err, cmp.Diff(s, again))
	}
	return s
}

// of returns a threshold of a state.
func of(t testing.TB, s *live.State, signal, kind string) live.Signal {
	t.Helper()
	for _, g := range s.Signals {
		if g.Signal == signal && g.Kind == kind {
			return g
		}
	}
	t.Fatalf("no %s threshold of %s in %+v", kind, signal, s.Signals)
	return live.Signal{}
}

func ptr[T any](v T) *T { return &v }

func TestState_SignalsBesideThresholds(t *testing.T) {
	first, second := check(0, 2*gib), check(10*time.Second, 1*gib)
	second.Snapshot.Rates[signals.MemoryAvailable] = signals.Rate{By: 100 * mib, Over: time.Second}
	second.Snapshot.Node[signals.NodefsAvailable].Available = 80 * gib
	second.Snapshot.Node[signals.NodefsInodesFree] = signals.Unknown("statfs: I/O error\x1b[2J")
	second.Conditions.Add(signals.DiskPressure)
	s := tracked(t, &recording.Entry{Header: header(t, "")}, &recording.Entry{Check: first}, &recording.Entry{Check: second})
	if s.Node != "node-7" || s.Version != "0.3.0" || !slices.Equal(s.Conditions, []string{"DiskPressure"}) || s.Arming != "" {
		t.Errorf("%+v", s)
	}
	for _, want := range []live.Signal{
		{Signal: "memory.available", Kind: "hard", Configured: "memory.available<100Mi", Available: ptr[int64](gib), Capacity: ptr[int64](8 * gib), At: ptr[int64](100 * mib), Margin: ptr[int64](gib - 100*mib),
			Rate: ptr[int64](100 * mib), Exhaustion: ptr(10240.0)},
		{Signal: "memory.available", Kind: "soft", Configured: "memory.available<300Mi for 1m0s", Available: ptr[int64](gib), Capacity: ptr[int64](8 * gib), At: ptr[int64](300 * mib), Margin: ptr[int64](gib - 300*mib),
			Rate: ptr[int64](100 * mib), Exhaustion: ptr(10240.0)},
		{Signal: "nodefs.available", Kind: "hard", Configured: "nodefs.available<10%", Available: ptr[int64](80 * gib), Capacity: ptr[int64](100 * gib), At: s.Signals[indexOf(s, "nodefs.available")].At,
			Margin: s.Signals[indexOf(s, "nodefs.available")].Margin, Rate: ptr[int64](gib), Exhaustion: ptr(80_000.0)},
		{Signal: "nodefs.inodesFree", Kind: "hard", Configured: "nodefs.inodesFree<5%", Unknown: "statfs: I/O error?[2J"},
	} {
		if got := of(t, s, want.Signal, want.Kind); !cmp.Equal(got, want) {
			t.Errorf("%s", cmp.Diff(want, got))
		}
	}
	// 1Gi at 4Gi/s lasts 250 ms, less the time of a kill and of a check.
	if c := s.Check; c == nil || c.Kind != "periodic" || c.Interval != 195 || !c.NextPeriodic.Equal(noon.Add(20*time.Second)) || !c.Time.Equal(noon.Add(10*time.Second)) {
		t.Errorf("%+v", s.Check)
	}
}

func indexOf(s *live.State, signal string) int {
	return slices.IndexFunc(s.Signals, func(g live.Signal) bool { return g.Signal == signal })
}

func TestState_NextEviction(t *testing.T) {
	critical := func(p *recording.PodUsage) { p.Pod.Protection, p.Pod.Priority = signals.Critical, 2_000_000_000 }
	low := func(p *recording.PodUsage) { p.Pod.Priority = -5 }
	for _, tc := range []struct {
		about     string
		available signals.Amount
		change    func(*signals.Observations)
		pods      []recording.PodUsage
		want      live.Next // without the ranking
		places    string    // pods of the ranking, those passed over in brackets
	}{
		{"a threshold of memory, as if it were just met", 2 * gib, nil, []recording.PodUsage{pod("a", 500*mib, 400*mib, nil), pod("b", 900*mib, 300*mib, nil), pod("c", gib, 2*gib, nil)},
			live.Next{Signal: "memory.available", Configured: "memory.available<300Mi for 1m0s", Pod: "shop/b", Reason: "uses 900Mi, 600Mi above its request, priority 0, frees 900Mi",
				Instead: "not shop/a instead: shop/b is further above its request: by 600Mi, and shop/a by 100Mi"}, "shop/b shop/a shop/c"},
		{"pods that differ by less than a text has", 2 * gib, nil, []recording.PodUsage{pod("a", 500*mib+1, 400*mib, nil), pod("b", 500*mib+9, 400*mib, nil)},
			live.Next{Signal: "memory.available", Configured: "memory.available<300Mi for 1m0s", Pod: "shop/b", Reason: "uses 500Mi, 100Mi above its request, priority 0, frees 500Mi",
				Instead: "not shop/a instead: shop/b is further above its request: by 100Mi, and shop/a by 100Mi"}, "shop/b shop/a"},
		{"a hard threshold that is met, and pods that are passed over", 20 * mib, nil, []recording.PodUsage{pod("a", 2*mib, 0, low), pod("kube", gib, 0, critical), pod("b", 900*mib, 300*mib, nil)},
			live.Next{Signal: "memory.available", Configured: "memory.available<100Mi", Met: true, Pod: "shop/b", Reason: "uses 900Mi, 600Mi above its request, priority 0, frees 900Mi"}, "(shop/a) shop/b (shop/kube)"},
		{"page cache of a pod is the shortage", 60 * mib, func(n *signals.Observations) { n[signals.MemoryAvailable].Cache = 600 * mib },
			[]recording.PodUsage{pod("a", 900*mib, 0, func(p *recording.PodUsage) { p.Values[recording.Anon] = mib }), pod("b", 300*mib, 0, nil)},
			live.Next{Signal: "memory.available", Configured: "memory.available<100Mi", Met: true, Reason: "each pod is protected, or too small to help"}, "(shop/a) (shop/b)"},
		{"no pod helps", 20 * mib, nil, []recording.PodUsage{pod("a", 2*mib, 0, nil), pod("kube", gib, 0, critical)},
			live.Next{Signal: "memory.available", Configured: "memory.available<100Mi", Met: true, Reason: "each pod is protected, or too small to help"}, "(shop/a) (shop/kube)"},
		{"no pod", 20 * mib, nil, []recording.PodUsage{},
			live.Next{Signal: "memory.available", Configured: "memory.available<100Mi", Met: true, Reason: "no pod is measured"}, ""},
		{"processes", 2 * gib, func(n *signals.Observations) { n[signals.PIDAvailable].Available = 200 }, []recording.PodUsage{pod("a", gib, 0, nil), pod("b", 1, 0, func(p *recording.PodUsage) { p.Values[recording.Tasks] = 900 })},
			live.Next{Signal: "pid.available", Configured: "pid.available<300", Met: true, Pod: "shop/b", Reason: "runs 900 processes, priority 0",
				Instead: "not shop/a instead: shop/b uses 900 processes, and shop/a 7 processes", Approximate: "by threads: processes are not recorded"}, "shop/b shop/a"},
		{"a disk that is near", 2 * gib, func(n *signals.Observations) { n[signals.NodefsAvailable].Available = 19 * gib }, []recording.PodUsage{pod("a", gib, 0, nil)},
			live.Next{Signal: "nodefs.available", Configured: "nodefs.available<10%", Reason: "each pod is protected, or too small to help",
				Approximate: "by the last measured disk usage of whole pods: the parts on each filesystem are not recorded"}, "(shop/a)"},
		{"a disk", 2 * gib, func(n *signals.Observations) { n[signals.NodefsAvailable].Available = 9 * gib }, []recording.PodUsage{pod("a", gib, 0, nil), pod("b", 1, 0, func(p *recording.PodUsage) { p.Values[recording.Disk] = 30 * gib })},
			live.Next{Signal: "nodefs.available", Configured: "nodefs.available<10%", Met: true, Pod: "shop/b", Reason: "uses 30Gi, 30Gi above its request, priority 0, frees 30Gi",
				Approximate: "by the last measured disk usage of whole pods: the parts on each filesystem are not recorded"}, "shop/b (shop/a)"},
		{"a disk that pods can not relieve", 2 * gib, func(n *signals.Observations) { n[signals.NodefsAvailable].Available = 9 * gib }, []recording.PodUsage{pod("a", 1, 0, func(p *recording.PodUsage) { p.Values[recording.Disk] = mib })},
			live.Next{Signal: "nodefs.available", Configured: "nodefs.available<10%", Met: true, Reason: "each pod is protected, or too small to help",
				Approximate: "by the last measured disk usage of whole pods: the parts on each filesystem are not recorded"}, "(shop/a)"},
		{"inodes", 2 * gib, func(n *signals.Observations) { n[signals.NodefsInodesFree].Available = 0 }, []recording.PodUsage{pod("a", gib, 0, nil)},
			live.Next{Signal: "nodefs.inodesFree", Configured: "nodefs.inodesFree<5%", Met: true, Reason: "inodes of pods are not recorded", Approximate: "inodes of pods are not recorded"}, ""},
	} {
		c := check(0, tc.available)
		if tc.change != nil {
			tc.change(&c.Snapshot.Node)
		}
		got := tracked(t, &recording.Entry{Header: header(t, "")}, &recording.Entry{Check: c}, usage(time.Second, tc.pods...)).Next
		var places []string
		for i, p := range got.Ranking {
			if p.Place != i+1 || p.Reason == "" {
				t.Errorf("%s: %+v", tc.about, p)
			}
			if p.Passed {
				p.Pod = "(" + p.Pod + ")"
			}
			places = append(places, p.Pod)
		}
		if strings.Join(places, " ") != tc.places {
			t.Errorf("%s: places %v, want %s", tc.about, places, tc.places)
		}
		got.Ranking = nil
		if !cmp.Equal(*got, tc.want) {
			t.Errorf("%s: %s", tc.about, cmp.Diff(tc.want, *got))
		}
	}
	if s := tracked(t, &recording.Entry{Header: header(t, "")}, &recording.Entry{Check: check(0, gib)}); s.Next != nil {
		t.Errorf("without a usage: %+v", s.Next)
	}
}

// A soft threshold is crossed before its grace period has passed.
func TestState_GracePeriod(t *testing.T) {
	for _, passed := range []bool{false, true} {
		periodic, early := check(0, 200*mib), check(time.Second, 190*mib)
		if early.Snapshot.Kind = signals.Early; passed { // early checks evaluate no soft threshold
			periodic.Met.Add(signals.MemoryAvailable)
		}
		n := tracked(t, &recording.Entry{Header: header(t, "")}, &recording.Entry{Check: periodic}, &recording.Entry{Check: early}, usage(0, pod("a", gib, 0, nil))).Next
		if n.Configured != "memory.available<300Mi for 1m0s" || !n.Met || n.InGrace == passed {
			t.Errorf("passed %t: %+v", passed, n)
		}
	}
}

// The growth between extreme values is bounded, and has the right sign.
func TestState_ExtremeGrowth(t *testing.T) {
	for _, sign := range []int64{1, -1} {
		n := tracked(t, &recording.Entry{Header: header(t, "")}, &recording.Entry{Check: check(0, gib)}, usage(0, pod("a", -sign*(1<<63-1), 0, nil)), usage(time.Second, pod("a", sign*(1<<63-1), 0, nil))).Pods[0].Growth
		if n == nil || *n != sign*(1<<62) {
			t.Errorf("sign %d: %v", sign, n)
		}
	}
}

// The next eviction is for the first threshold, in acting order, that the agent acts for.
func TestState_ActingOrder(t *testing.T) {
	const reclaim = "evictionHard: {memory.available: 100Mi, nodefs.available: 10%}\nevictionMinimumReclaim: {memory.available: 200Mi}\n"
	for _, tc := range []struct {
		about, config string
		available     signals.Amount
		passed        bool
		want          string
		met, inGrace  bool
	}{
		{"a soft one in its grace period, before a hard one of a later signal", "", 200 * mib, false, "nodefs.available<10%", true, false},
		{"a soft one past its grace period, before a hard one of a later signal", "", 200 * mib, true, "memory.available<300Mi for 1m0s", true, false},
		{"a hard one before the soft one of its signal", "", 50 * mib, true, "memory.available<100Mi", true, false},
		{"minimum reclaim that is not reached", reclaim, 250 * mib, true, "memory.available<100Mi", true, false},
		{"minimum reclaim that does not count before", reclaim, 250 * mib, false, "nodefs.available<10%", true, false},
		{"minimum reclaim that is reached", reclaim, 300 * mib, true, "nodefs.available<10%", true, false},
	} {
		c := check(0, tc.available)
		if c.Snapshot.Node[signals.NodefsAvailable].Available = 9 * gib; tc.passed {
			c.Met.Add(signals.MemoryAvailable)
		}
		n := tracked(t, &recording.Entry{Header: header(t, tc.config)}, &recording.Entry{Check: c}, usage(0, pod("a", gib, 0, nil))).Next
		if n.Configured != tc.want || n.Met != tc.met || n.InGrace != tc.inGrace {
			t.Errorf("%s: for %s, met %t, in grace period %t", tc.about, n.Configured, n.Met, n.InGrace)
		}
	}
}

// A pod without any value has no cgroup, and is ranked first, as not measured.
func TestState_PodWithoutValues(t *testing.T) {
	blind := pod("blind", 0, 0, func(p *recording.PodUsage) {
		for v := range p.Values {
			p.Values[v] = recording.Unknown
		}
	})
	n := tracked(t, &recording.Entry{Header: header(t, "")}, &recording.Entry{Check: check(0, 20*mib)}, usage(0, pod("a", gib, 0, nil), blind)).Next
	if len(n.Ranking) != 2 || n.Ranking[0].Pod != "shop/blind" || !strings.HasPrefix(n.Ranking[0].Reason, "nothing measured") {
		t.Errorf("%+v", n)
	}
}

func TestState_PodsByMemory(t *testing.T) {
	entries := []*recording.Entry{{Header: header(t, "")}, {Check: check(0, 2*gib)}}
	for i := range 5 {
		grows := pod("grows", int64(100+10*i)*mib, 50*mib, func(p *recording.PodUsage) {
			p.Values[recording.Disk], p.Pod.Priority, p.Pod.Protection = 5, 9, signals.Namespaced
		})
		entries = append(entries, usage(time.Duration(i)*10*time.Second, pod("small", mib, 0, nil), grows, pod("blind", recording.Unknown, 0, nil)))
	}
	want := []live.Pod{
		{Pod: "shop/grows", Memory: ptr[int64](140 * mib), Request: 50 * mib, Growth: ptr[int64](mib), Tasks: ptr[int64](7), Disk: ptr[int64](5), Priority: 9, Protection: "in a protected namespace"},
		{Pod: "shop/small", Memory: ptr[int64](mib), Growth: ptr[int64](0), Tasks: ptr[int64](7)},
		{Pod: "shop/blind", Tasks: ptr[int64](7)},
	}
	s := tracked(t, entries...)
	if !cmp.Equal(s.Pods, want) || s.PodCount != 3 || !s.Measured.Equal(noon.Add(40*time.Second)) {
		t.Errorf("%d at %s: %s", s.PodCount, s.Measured, cmp.Diff(want, s.Pods))
	}
	// 5,000 pods: the largest ones are in the state.
	var many []recording.PodUsage
	for i := range 5000 {
		many = append(many, pod(fmt.Sprint("p", i), int64(i)*mib, 0, nil))
	}
	s = tracked(t, entries[0], entries[1], usage(0, many...))
	line, err := s.Line()
	if err != nil || s.PodCount != 5000 || len(s.Pods) != 250 || s.Pods[0].Pod != "shop/p4999" || len(line) > 64<<10 {
		t.Errorf("%d of %d pods, %d bytes, %v", len(s.Pods), s.PodCount, len(line), err)
	}
}

func TestState_Decisions(t *testing.T) {
	entries := []*recording.Entry{{Header: header(t, "")}, decision(0, `{"decision":"armed","reason":"the ConfigMap","conditions":[]}`)}
	for i := range 20 {
		entries = append(entries, decision(time.Duration(i)*time.Second, fmt.Sprintf(`{"decision":"evict","pod":"shop/web-%d","signal":"memory.available","threshold":"memory.available<100Mi","reason":"low\u001b[2J\u4e16","conditions":[]}`, i)))
	}
	entries = append(entries, decision(time.Minute, `{"decision":"check"}`), decision(time.Minute, `[1]`), decision(time.Minute, `{"decision":7}`), decision(time.Minute, `{}`))
	s := tracked(t, entries...)
	want := live.Decision{Time: noon.Add(19 * time.Second), Decision: "evict", Pod: "shop/web-19", Subject: "memory.available<100Mi", Reason: "low?[2J?"}
	if len(s.Decisions) != 10 || !cmp.Equal(s.Decisions[0], want) || s.Decisions[9].Pod != "shop/web-10" || s.Arming != "armed" {
		t.Errorf("%s, %d decisions: %s", s.Arming, len(s.Decisions), cmp.Diff(want, s.Decisions[0]))
	}
	held := tracked(t, decision(0, `{"decision":"none-helps","signal":"nodefs.available","threshold":"nodefs.available<150Mi","reason":"nodefs.available<150Mi: 51204Ki missing",
		"consumers":[{"name":"/exports","kind":"hostPath","amount":771698688,"pod":"shop/a"},{"name":"images","kind":"images","amount":1}],"conditions":[]}`))
	if reason := "held by /exports (mounted by shop/a) 735Mi; 51204Ki missing"; len(held.Decisions) != 1 || held.Decisions[0].Reason != reason {
		t.Errorf("decisions %+v, want the reason %q", held.Decisions, reason)
	}
	// Decisions outlive a restart of the agent, and its values do not.
	second := header(t, "")
	second.SinceBoot = time.Hour
	s = tracked(t, append(entries, &recording.Entry{Check: check(0, gib)}, usage(0, pod("a", 1, 1, nil)), &recording.Entry{Header: second})...)
	if len(s.Decisions) != 10 || s.Check != nil || len(s.Pods) != 0 || s.Arming != "" || !slices.Equal(s.Notes, []string{"No check is recorded yet."}) {
		t.Errorf("after a restart: %+v", s)
	}
}

func TestState_NamesWhatIsMissing(t *testing.T) {
	lost, broken := check(0, gib), header(t, "")
	lost.Lost = 3
	broken.Config = json.RawMessage(`{"kind": "Other"}`)
	for _, tc := range []struct {
		entries []*recording.Entry
		want    string
	}{
		{nil, "Nothing is recorded yet."},
		{[]*recording.Entry{{Header: header(t, "")}}, "No check is recorded yet."},
		{[]*recording.Entry{{Header: header(t, "")}, {Check: check(0, gib)}}, "The usage of pods is not recorded yet."},
		{[]*recording.Entry{{Header: header(t, "")}, {Check: lost}}, "3 checks or decisions were not recorded: the disk is full or too slow."},
		{[]*recording.Entry{{Header: broken}, {Check: check(0, gib)}, usage(0, pod("a", 1, 1, nil))}, "The configuration of the agent cannot be read, so that its thresholds are unknown:"},
		{[]*recording.Entry{{Header: header(t, "")}, {Check: check(0, gib)}, usage(time.Minute, pod("a", 1, 1, nil))}, "The last recorded check is 1m1s old: the agent does not run, or its disk is full or too slow."},
	} {
		s := tracked(t, tc.entries...)
		if !slices.ContainsFunc(s.Notes, func(n string) bool { return strings.HasPrefix(n, tc.want) }) {
			t.Errorf("no note %q in %q", tc.want, s.Notes)
		}
	}
	if s := tracked(t, &recording.Entry{Header: header(t, "")}, &recording.Entry{Check: check(0, gib)}, usage(0, pod("a", 1, 1, nil))); len(s.Notes) > 0 {
		t.Errorf("notes of a complete state: %q", s.Notes)
	}
}

// A change of the configuration begins a segment of the same run: it holds, and the values stay.
func TestState_FollowsConfiguration(t *testing.T) {
	changed := header(t, "evictionHard: {memory.available: 500Mi}\n")
	s := tracked(t, &recording.Entry{Header: header(t, "")}, &recording.Entry{Check: check(0, gib)}, usage(0, pod("a", gib, 0, nil)), &recording.Entry{Header: changed})
	if got := *of(t, s, "memory.available", "hard").At; got != 500*mib || s.PodCount != 1 {
		t.Errorf("threshold %d, %d pods", got, s.PodCount)
	}
}
