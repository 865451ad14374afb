package recorder

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/recording/ring"
)

const mib = 1 << 20

// list is a queue of any length.
type list struct {
	entries []*ring.Entry
	next    ring.Entry
	full    bool
	waiting bool // too many measurements wait
	urgent  int
	skipped int
}

func (l *list) Next() *ring.Entry {
	if l.full {
		return nil
	}
	l.next = ring.Entry{}
	return &l.next
}

func (l *list) Commit(_ time.Time, urgent bool) {
	e := l.next
	l.entries = append(l.entries, &e)
	if urgent {
		l.urgent++
	}
}

func (l *list) Skip()                  { l.skipped++ }
func (l *list) MeasurementsWait() bool { return l.waiting }

func policy(t testing.TB) *eviction.Policy {
	t.Helper()
	threshold := func(s signals.Signal, amount signals.Amount, grace time.Duration) eviction.Threshold {
		return eviction.Threshold{Signal: s, Value: eviction.Value{Quantity: signals.Quantity{Value: amount}}, Grace: grace}
	}
	p, err := eviction.NewPolicy(eviction.Settings{Thresholds: []eviction.Threshold{threshold(signals.MemoryAvailable, 100*mib, 0),
		threshold(signals.MemoryAvailable, 300*mib, time.Minute), threshold(signals.PIDAvailable, 5000, 0)},
		Layout: signals.Split, StorageLimits: true, TransitionPeriod: 5 * time.Minute, EarlyEvictionHorizon: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDistanceOf_NearestThreshold(t *testing.T) {
	p := policy(t)
	for available, want := range map[signals.Amount]distance{-1: crossed, 99 * mib: crossed, 100 * mib: near, 199 * mib: near, 200 * mib: near, 299 * mib: near, 300 * mib: far, 4 << 30: far} {
		var node signals.Observations
		node[signals.MemoryAvailable] = signals.Observed(available, 8<<30, time.Time{})
		node[signals.PIDAvailable] = signals.Observed(1, 2, time.Time{}) // periodic checks act for it
		if got := distanceOf(&node, p); got != want {
			t.Errorf("%d MiB available: %d, want %d", available/mib, got, want)
		}
	}
	if got := distanceOf(&signals.Observations{}, p); got != near {
		t.Errorf("memory is unknown: %d", got)
	}
}

// Ten minutes of checks every 25 ms: far from a threshold, near it, crossed, and far again.
func TestSampling_ByDistance(t *testing.T) {
	p, begun := policy(t), time.Now()
	s := sampling{}
	var counts, nears [10]int
	for i := range 24_000 {
		after := time.Duration(i) * 25 * time.Millisecond
		o := &agent.Outcome{Snapshot: &signals.Snapshot{At: begun.Add(after), Kind: signals.Early}}
		if i%400 == 0 {
			o.Snapshot.Kind = signals.Periodic
		}
		available := signals.Amount(4 << 30)
		switch minute := i / 2400; {
		case minute >= 2 && minute < 4:
			available = 150 * mib
		case minute >= 4 && minute < 7:
			available, o.Verdict.Reason = 90*mib, eviction.NotImminent
		}
		o.Snapshot.Node[signals.MemoryAvailable] = signals.Observed(available, 8<<30, o.Snapshot.At)
		record, isNear := s.choose(o, p, false)
		if record {
			counts[i/2400]++
		}
		if isNear {
			nears[i/2400]++
		}
	}
	for minute, want := range [10][2]int{{6, 6}, {6, 6}, {60, 70}, {60, 70}, {1200, 1250}, {60, 70}, {60, 70}, {15, 20}, {6, 6}, {6, 6}} {
		if got := counts[minute]; got < want[0] || got > want[1] {
			t.Errorf("minute %d: %d checks recorded, want %v", minute, got, want)
		}
	}
	if want := [10]int{0, 0, 2400, 2400, 2400, 2400, 2400, 399, 0, 0}; nears != want {
		t.Errorf("near in %v checks, want %v", nears, want)
	}
}

// What changes the state of the decisions is recorded, however near the check before was.
func TestSampling_RecordsWhatMoves(t *testing.T) {
	p := policy(t)
	var memory signals.Set
	memory.Add(signals.MemoryAvailable)
	var pressure signals.ConditionSet
	pressure.Add(signals.MemoryPressure)
	for about, tc := range map[string]struct {
		verdict   eviction.Verdict
		considers bool
	}{
		"met": {eviction.Verdict{GracePassed: memory}, false}, "unknown": {eviction.Verdict{Unknown: memory}, false}, "condition": {eviction.Verdict{Conditions: pressure}, false},
		"reason": {eviction.Verdict{Reason: eviction.NotImminent}, false}, "imminent": {eviction.Verdict{Imminent: memory}, false},
		"target": {eviction.Verdict{Target: &p.Thresholds[0]}, false}, "considers": {eviction.Verdict{}, true}, "nothing": {eviction.Verdict{}, false},
	} {
		s, now := sampling{}, time.Now()
		var node signals.Observations
		node[signals.MemoryAvailable] = signals.Observed(4<<30, 8<<30, now)
		check := func(v eviction.Verdict, considers bool) bool {
			now = now.Add(5 * time.Millisecond)
			record, _ := s.choose(&agent.Outcome{Snapshot: &signals.Snapshot{At: now, Kind: signals.Early, Node: node}, Verdict: v}, p, considers)
			return record
		}
		if got := check(tc.verdict, tc.considers); got != (about != "nothing") {
			t.Errorf("%s: recorded %t", about, got)
		}
		if got := check(eviction.Verdict{}, false); got != (about == "met" || about == "unknown" || about == "condition" || about == "reason") {
			t.Errorf("%s: the check after it is recorded: %t", about, got)
		}
		for _, reason := range []eviction.Reason{eviction.Grace, eviction.Stale} { // each of them moves a timer
			for range 2 {
				if !check(eviction.Verdict{Reason: reason}, false) {
					t.Errorf("%s is not recorded", reason)
				}
			}
		}
	}
}

// fixed is a node with one observation and its pods.
type fixed struct {
	node signals.Observations
	pods []signals.Candidate
}

func (f *fixed) Observe(into *signals.Observations, _ signals.Kind) { *into = f.node }
func (f *fixed) Measure(context.Context) []signals.Candidate        { return f.pods }
func (f *fixed) Stored() []signals.Candidate                        { return nil }

func candidate(name string, memory signals.Bytes) signals.Candidate {
	return signals.Candidate{Pod: &signals.Pod{UID: name, Namespace: "default", Name: name}, Usage: &signals.Usage{Memory: signals.Of(memory)}}
}

func TestRecord_StoresAct(t *testing.T) {
	now := time.Now()
	f := &fixed{pods: []signals.Candidate{candidate("a", 200*mib), candidate("b", 100*mib)}}
	f.node[signals.MemoryAvailable] = signals.Observed(50*mib, 8<<30, now)
	c := &agent.Checker{Machine: eviction.New(policy(t)), Observer: f, Pods: f, Limiter: limiter.New(limiter.Policy{}), GivesWay: true, Trace: &agent.Trace{}}
	s := &signals.Snapshot{At: now.Add(time.Second), Node: f.node}
	o := c.Begin(s)
	results := []agent.PlanResult{{Err: errors.Join(errors.New("no"), agent.ErrDisarmed)}, {DryRun: true}}
	for plan := c.Next(t.Context(), &agent.Constraints{}); plan.Action != agent.Wait; plan = c.Next(t.Context(), &agent.Constraints{}) {
		c.Apply(plan, results[0])
		results = results[1:]
	}
	q := &list{}
	r := New(q, now)
	r.Record(o, c)
	f.pods[0].Usage.Memory.Value = 1 // as the next measurement would
	if len(q.entries) != 1 || q.urgent != 1 {
		t.Fatalf("%d entries, %d urgent", len(q.entries), q.urgent)
	}
	e := q.entries[0]
	if !e.Near || e.Check.Seq != 1 || e.Check.Layout != signals.Split || !e.Check.StorageLimits || e.Check.Reason != uint8(eviction.Act) || !e.Check.Met.Has(signals.MemoryAvailable) {
		t.Errorf("%+v", e)
	}
	if state, is := e.State.(agent.State); !is || len(state.Decisions.Conditions) != 1 || !state.Decisions.Conditions[0].LastMet.Equal(s.At) {
		t.Errorf("state %+v", e.State)
	}
	a, b := f.pods[0].Pod, f.pods[1].Pod
	want := &recording.Act{Blocks: []string{"", ""}, Measured: [][]signals.Candidate{{candidate("a", 200*mib), candidate("b", 100*mib)}}, Seen: []signals.Observations{f.node, f.node},
		Attempts: []recording.Attempt{{Err: "no\nthe agent is disarmed"}, {DryRun: true}}, Acted: true, Ranking: []*signals.Pod{a, b}, Failed: []recording.Failed{{Pod: a, Error: "no\nthe agent is disarmed"}},
		Evicted: &recording.Evicted{Pod: b, Cause: "memory.available", Hard: true, GracePeriod: 1, Message: o.Evicted.Message, Annotations: o.Evicted.Annotations, DisruptionTarget: true, DryRun: true}}
	if diff := cmp.Diff(want, e.Check.Act, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// As long as early checks find the same, a few of them are recorded with the pods that they measured: one
// a second at first, then one in ten.
func TestRecord_RepeatsFindingsWithoutPods(t *testing.T) {
	begun, step := time.Now(), 0
	f := &fixed{pods: []signals.Candidate{candidate("tiny", 1)}}
	c := &agent.Checker{Machine: eviction.New(policy(t)), Observer: f, Pods: f, Limiter: limiter.New(limiter.Policy{}), GivesWay: true, Trace: &agent.Trace{}}
	q := &list{}
	r := New(q, begun)
	var result agent.PlanResult
	check := func(kind signals.Kind, changes bool) *recording.Check {
		step++
		now := begun.Add(time.Duration(step) * 100 * time.Millisecond)
		f.node[signals.MemoryAvailable] = signals.Observed(0, 8<<30, now) // exhausted
		*c.Trace = agent.Trace{Changes: changes}
		o := c.Begin(&signals.Snapshot{At: now, Kind: kind, Node: f.node})
		for plan := c.Next(t.Context(), &agent.Constraints{}); plan.Action != agent.Wait; plan = c.Next(t.Context(), &agent.Constraints{}) {
			c.Apply(plan, result)
		}
		r.Record(o, c)
		return &q.entries[len(q.entries)-1].Check
	}
	full := 0
	for range 900 { // 30 s with one a second, 60 s with one in ten
		if got := check(signals.Early, false); got.Brief == (got.Act != nil) {
			t.Fatalf("brief %t, act %+v", got.Brief, got.Act)
		} else if !got.Brief {
			full++
		}
	}
	if full < 33 || full > 38 || len(q.entries) != 900 || q.urgent != full {
		t.Errorf("%d of %d checks have their pods, %d urgent", full, len(q.entries), q.urgent)
	}
	if got := check(signals.Early, false); !got.Brief {
		t.Fatal("the same again is not brief")
	}
	if got := check(signals.Early, true); got.Brief || !c.Trace.Changes {
		t.Error("a check that changes what later ones decide by is brief")
	}
	if got := check(signals.Periodic, false); got.Brief || len(got.Act.Measured) != 1 {
		t.Error("a periodic check is brief")
	}
	f.pods = []signals.Candidate{candidate("hog", 500*mib)}
	result.Err = errors.New("no")
	if got := check(signals.Early, false); got.Brief || len(got.Act.Failed) != 1 {
		t.Error("another finding is brief")
	}
	if got := check(signals.Early, false); !got.Brief {
		t.Error("the same failure again is not brief")
	}
	result.Err = errors.Join(result.Err, agent.ErrStopChoosing)
	for _, brief := range []bool{false, true} { // from then on the condition has its turn last
		if got := check(signals.Early, false); got.Brief != brief {
			t.Errorf("the same failure, which ends the choice: brief %t", got.Brief)
		}
	}
	result.Err = nil
	for range 2 {
		if got := check(signals.Early, false); got.Brief || got.Act.Evicted == nil {
			t.Error("an eviction is brief")
		}
	}
}

func TestRecord_CountsWhatFindsNoRoom(t *testing.T) {
	now := time.Now()
	o := &agent.Outcome{Snapshot: &signals.Snapshot{At: now}, Collecting: true, Collected: []signals.Garbage{signals.UnusedImages}}
	c := &agent.Checker{Machine: eviction.New(policy(t)), Trace: &agent.Trace{Measured: make([][]signals.Candidate, 1)}}
	q := &list{waiting: true}
	r := New(q, now)
	if r.Record(o, c); q.skipped != 1 || len(q.entries) != 0 {
		t.Errorf("%d skipped, %d entries", q.skipped, len(q.entries))
	}
	q.waiting, q.full = false, true
	r.Record(o, c)
	r.Decision(&agent.Decision{}, time.Time{})
	if len(q.entries) != 0 {
		t.Errorf("%d entries in a full queue", len(q.entries))
	}
	q.full = false
	r.Record(o, c)
	r.Decision(&agent.Decision{Time: now, Decision: agent.Evicted}, now)
	if len(q.entries) != 2 || q.entries[0].Check.Seq != 3 || q.entries[1].Decision == nil || !q.entries[1].At.Equal(now) {
		t.Errorf("%d entries", len(q.entries))
	}
}

func TestRecord_KeyFrameEachMinute(t *testing.T) {
	begun := time.Now()
	c := &agent.Checker{Machine: eviction.New(policy(t)), Trace: &agent.Trace{}}
	q := &list{}
	r, keys := New(q, begun), 0
	for i := range 60 { // ten minutes
		r.Record(&agent.Outcome{Snapshot: &signals.Snapshot{At: begun.Add(time.Duration(i)*10*time.Second + time.Duration(i%3)*time.Millisecond)}}, c)
	}
	for _, e := range q.entries {
		if e.State != nil {
			keys++
		}
	}
	if keys != 10 {
		t.Errorf("%d key frames in ten minutes", keys)
	}
}

func TestRecord_QuietCheckDoesNotAllocate(t *testing.T) {
	q := ring.Start(ring.Options{Dir: t.TempDir(), Header: recording.Header{Started: time.Now()}})
	defer q.Close()
	r, now := New(q, time.Now()), time.Now()
	c := &agent.Checker{Machine: eviction.New(policy(t)), Trace: &agent.Trace{}}
	o := &agent.Outcome{Snapshot: &signals.Snapshot{Kind: signals.Early}}
	for _, available := range []signals.Amount{4 << 30, 90 * mib} {
		o.Snapshot.Node[signals.MemoryAvailable] = signals.Observed(available, 8<<30, now)
		if n := testing.AllocsPerRun(1000, func() {
			now = now.Add(5 * time.Millisecond)
			o.Snapshot.At = now
			r.Record(o, c)
		}); n != 0 {
			t.Errorf("%d MiB available: %v allocations", available/mib, n)
		}
	}
}

func TestMonotonic_IgnoresTheTimeOfDay(t *testing.T) {
	started := time.Now()
	of := Monotonic(started)
	if got := of(started.Add(time.Hour)); !got.Equal(started.Round(0).Add(time.Hour)) || !of(time.Time{}).IsZero() {
		t.Errorf("%s", got)
	}
}

// BenchmarkRecord is what a check costs more with a recording: far from a threshold, and crossed,
// where every check is recorded.
func BenchmarkRecord(b *testing.B) {
	for name, available := range map[string]signals.Amount{"far": 4 << 30, "crossed": 90 * mib} {
		b.Run(name, func(b *testing.B) {
			q := &slot{}
			r, now := New(q, time.Now()), time.Now()
			c := &agent.Checker{Machine: eviction.New(policy(b)), Trace: &agent.Trace{}}
			o := &agent.Outcome{Snapshot: &signals.Snapshot{Kind: signals.Early}}
			o.Snapshot.Node[signals.MemoryAvailable] = signals.Observed(available, 8<<30, now)
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Microsecond)
				o.Snapshot.At = now
				r.Record(o, c)
			}
		})
	}
}

// slot is a queue with one slot, which is always free.
type slot struct{ entry ring.Entry }

func (s *slot) Next() *ring.Entry {
	s.entry = ring.Entry{}
	return &s.entry
}
func (s *slot) Commit(time.Time, bool) {}
func (s *slot) Skip()                  {}
func (s *slot) MeasurementsWait() bool { return false }

// A new configuration goes with the first check that is recorded after it, and with that one only.
func TestRecord_StoresConfigurationOnce(t *testing.T) {
	now := time.Now()
	q := &list{}
	r := New(q, now)
	c := &agent.Checker{Machine: eviction.New(policy(t)), Trace: &agent.Trace{}}
	check := func(kind signals.Kind, after time.Duration) {
		o := &agent.Outcome{Snapshot: &signals.Snapshot{At: now.Add(after), Kind: kind}}
		o.Snapshot.Node[signals.MemoryAvailable] = signals.Observed(4<<30, 8<<30, now)
		r.Record(o, c)
	}
	check(signals.Periodic, 0)
	r.Reconfigured([]byte("{}"))
	check(signals.Early, time.Millisecond) // far from a threshold: not recorded
	q.full = true
	check(signals.Periodic, time.Second) // no room
	q.full = false
	check(signals.Periodic, 2*time.Second)
	check(signals.Periodic, 3*time.Second)
	var got []string
	for _, e := range q.entries {
		got = append(got, string(e.Config))
	}
	if want := []string{"", "{}", ""}; !slices.Equal(got, want) {
		t.Errorf("configurations %q, want %q", got, want)
	}
}
