package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// recorded implements Recorder: it stores all that a repetition needs, and what happened.
type recorded struct {
	limits limiter.Policy
	start  State
	begun  time.Time
	checks []recordedCheck
}

type recordedCheck struct {
	snapshot signals.Snapshot
	trace    Trace
	policy   *eviction.Policy
	limits   limiter.Policy
	outcome  string
	state    State
}

func (r *recorded) Record(o *Outcome, c *Checker) {
	t := *c.Trace
	t.Withdrawn, t.Blocks, t.Seen, t.Collections = slices.Clone(t.Withdrawn), slices.Clone(t.Blocks), slices.Clone(t.Seen), slices.Clone(t.Collections)
	t.Attempts, t.Deletions, t.Measured = slices.Clone(t.Attempts), slices.Clone(t.Deletions), slices.Clone(t.Measured)
	for i := range t.Measured {
		t.Measured[i] = CloneCandidates(t.Measured[i])
		for j := range t.Measured[i] {
			pod := *t.Measured[i][j].Pod // the stories change their pods
			t.Measured[i][j].Pod = &pod
		}
	}
	r.checks = append(r.checks, recordedCheck{*o.Snapshot, t, c.Machine.Policy(), c.Limiter.Policy(), summary(o), c.State(sameTime)})
}

func sameTime(t time.Time) time.Time { return t }

// summary describes all that an outcome decides.
func summary(o *Outcome) string {
	var b strings.Builder
	v := &o.Verdict
	fmt.Fprintf(&b, "%v %v %v %v %v", v.Conditions.Names(), v.GracePassed.Names(), v.Unknown.Names(), v.Imminent.Names(), v.Reason)
	for _, of := range append([]Outcome{*o}, o.Passed...) {
		if t := of.Verdict.Target; t != nil {
			fmt.Fprintf(&b, "\nfor %s", t)
		}
		fmt.Fprintf(&b, " blocked %q collected %v %t recovered %t limit %v %t spared %d of %d, need %+v", of.Blocked, of.Collected, of.Collecting, of.Recovered, of.Limit, of.LimitBegun, of.Spared, of.Relief, of.Need)
		g := &of.Growth
		fmt.Fprintf(&b, " grew %d in %s, %d helps, imminent %t", g.By, g.Over, g.Least, g.Imminent)
		for i := range of.Ranking {
			fmt.Fprintf(&b, " %s (%s)", of.Ranking[i].Pod.UID, of.PlaceReason(&of.Ranking[i]))
		}
		for _, f := range of.Failed {
			fmt.Fprintf(&b, " failed %s: %v", f.Pod.UID, f.Err)
		}
		if e := of.Evicted; e != nil {
			fmt.Fprintf(&b, " evicted %s for %s, %d s, %t %q %v", e.Pod.UID, e.Cause, e.GracePeriod, of.DryRun, e.Message, e.Annotations)
		}
	}
	return b.String()
}

// record records the run of an agent.
func record(p *Parts, limits limiter.Policy) *recorded {
	r := &recorded{begun: time.Now(), limits: limits}
	c := Checker{Machine: p.Machine, Limiter: p.Limiter}
	r.start, p.Recorder = c.State(sameTime), r
	return r
}

// repeat repeats all checks, and then those behind each state that is exact.
func (r *recorded) repeat(t *testing.T) {
	t.Helper()
	from := []int{-1}
	for i := range r.checks {
		c := &r.checks[i]
		if i%7 == 0 && c.state.Exact && c.snapshot.Kind == signals.Periodic {
			from = append(from, i)
		}
	}
	for _, i := range from[:min(len(from), 20)] {
		r.repeatFrom(t, i)
	}
}

// repeatFrom repeats the checks behind the given one.
func (r *recorded) repeatFrom(t *testing.T, i int) {
	t.Helper()
	if len(r.checks) == 0 {
		return
	}
	var again *Checker
	if i < 0 {
		again = NewRepeater(r.checks[0].policy, r.limits)
		again.Restore(&r.start, nil, r.begun)
	} else {
		c := &r.checks[i]
		again = NewRepeater(c.policy, c.limits)
		again.Restore(&c.state, &c.snapshot, c.snapshot.At)
	}
	for n := i + 1; n < len(r.checks); n++ {
		c := &r.checks[n]
		if again.Machine.Policy() != c.policy || again.Limiter.Policy() != c.limits {
			again.Adopt(c.policy, c.limits, &c.snapshot.Node)
		}
		if got := summary(again.Repeat(&c.snapshot, &c.trace)); got != c.outcome {
			t.Fatalf("from %d: check %d at %s differs\ngot  %s\nwant %s", i, n, c.snapshot.At.Sub(r.begun), got, c.outcome)
		}
	}
}

// quietRecorder counts checks.
type quietRecorder struct{ checks int }

func (r *quietRecorder) Record(*Outcome, *Checker) { r.checks++ }

func TestStep_RecordedEarlyCheckDoesNotAllocate(t *testing.T) {
	for name, available := range map[string]signals.Amount{"enough memory": 4 << 30, "met, not falling": 90 << 20} {
		a, r := steadyAgent(t, available), &quietRecorder{}
		a.recorder, a.checker.Trace = r, &Trace{}
		now := time.Now()
		a.nextPeriodic = now.Add(time.Hour)
		a.Step(t.Context(), now)
		if n := testing.AllocsPerRun(100, func() {
			now = now.Add(5 * time.Millisecond)
			a.Step(context.Background(), now)
		}); n != 0 || r.checks < 100 {
			t.Errorf("%s: %v allocations per check, %d checks recorded", name, n, r.checks)
		}
	}
}

// A check that measures twice repeats with both measurements: the port uses its memory again.
func TestTrace_CopiesMeasurements(t *testing.T) {
	usage := &signals.Usage{Memory: signals.Of[signals.Bytes](1), Containers: []signals.ContainerUsage{{Name: "c"}}}
	port := &reusing{candidates: []signals.Candidate{{Pod: &signals.Pod{UID: "a"}, Usage: usage}, {Pod: &signals.Pod{UID: "b"}}}}
	c := &Checker{Pods: port, Trace: &Trace{}}
	c.Trace.noteBase(port.Measure(t.Context()))
	c.measure(t.Context())
	got := c.Trace.Measured
	if len(got) != 2 || !c.Trace.ForGrowth || got[0][0].Usage.Memory.Value != 1 || got[1][0].Usage.Memory.Value != 2 || got[0][0].Usage.Containers[0].Name != "c" || got[0][1].Usage != nil {
		t.Errorf("measured %+v", got)
	}
}

// reusing is a port that overwrites its last measurement.
type reusing struct {
	candidates []signals.Candidate
	n          signals.Bytes
}

func (r *reusing) Measure(context.Context) []signals.Candidate {
	r.n++
	r.candidates[0].Usage.Memory.Value = r.n
	if r.n > 1 {
		r.candidates[0].Usage.Containers[0].Name = "changed"
	}
	return r.candidates
}

func (r *reusing) Stored() []signals.Candidate { return nil }

// Each part of a trace decides.
func TestRepeat_FollowsTrace(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &signals.Snapshot{At: now}
	s.Node[signals.MemoryAvailable] = signals.Observed(50*mib, gib, now)
	recovered := s.Node
	recovered[signals.MemoryAvailable].Available = 900 * mib
	candidate := func(uid string, memory signals.Bytes, endsBy time.Time) signals.Candidate {
		return signals.Candidate{Pod: &signals.Pod{UID: uid, EndsBy: endsBy}, Usage: &signals.Usage{Memory: signals.Of(memory)}}
	}
	alive := []signals.Candidate{candidate("a", 100*mib, time.Time{}), candidate("b", 90*mib, time.Time{})}
	deleted := []signals.Candidate{candidate("a", 100*mib, now.Add(time.Minute)), alive[1]}
	for about, tc := range map[string]struct {
		trace Trace
		want  string
	}{
		"all as seen":            {Trace{Measured: [][]signals.Candidate{alive}, Seen: []signals.Observations{s.Node}}, "evicted a"},
		"recovered":              {Trace{Measured: [][]signals.Candidate{alive}, Seen: []signals.Observations{recovered}}, "recovered"},
		"failed":                 {Trace{Measured: [][]signals.Candidate{alive}, Attempts: []PlanResult{{Err: errRefused}}}, "evicted b"},
		"blocked":                {Trace{Measured: [][]signals.Candidate{alive}, Blocks: []string{"why"}}, "blocked"},
		"being deleted":          {Trace{Measured: [][]signals.Candidate{deleted}}, "blocked"},
		"being deleted for long": {Trace{Measured: [][]signals.Candidate{deleted}, Deletions: []Deletion{{UID: "a", Since: now.Add(-time.Minute)}}}, "evicted a"},
		"deleted and killed":     {Trace{Measured: [][]signals.Candidate{deleted}, Deletions: []Deletion{{UID: "a", Killed: true}}}, "evicted a"},
		"nothing measured":       {Trace{}, ""},
	} {
		c := NewRepeater(newPolicy(t, eviction.Settings{Thresholds: []eviction.Threshold{hard()}}), limiter.Policy{})
		o, got := c.Repeat(s, &tc.trace), ""
		switch {
		case o.Evicted != nil:
			got = "evicted " + o.Evicted.Pod.UID
		case o.Recovered:
			got = "recovered"
		case o.Blocked != "":
			got = "blocked"
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", about, got, tc.want)
		}
	}
}

// The pods are measured before an early check, to confirm imminent exhaustion. A repetition compares with
// that measurement too: a small pod helps for its growth since.
func TestRepeat_ComparesWithMeasurementBeforeCheck(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	early := func(after time.Duration, left signals.Amount) *signals.Snapshot {
		s := &signals.Snapshot{At: now.Add(after), Kind: signals.Early}
		s.Node[signals.MemoryAvailable] = signals.Observed(left, 1<<40, s.At)
		s.Rates[signals.MemoryAvailable] = signals.Rate{By: 50 * mib, Over: 100 * time.Millisecond}
		return s
	}
	measured := func(memory signals.Bytes) [][]signals.Candidate {
		return [][]signals.Candidate{{{Pod: &signals.Pod{UID: "small"}, Usage: &signals.Usage{Memory: signals.Of(memory)}}}}
	}
	policy := newPolicy(t, eviction.Settings{Thresholds: []eviction.Threshold{{Signal: signals.MemoryAvailable, Value: quantity(1000 * mib)}}})
	for _, forGrowth := range []bool{false, true} {
		c := NewRepeater(policy, limiter.Policy{})
		first := early(0, 100*mib)
		first.NeedsConfirmation = true
		if o := c.Repeat(first, &Trace{ForGrowth: forGrowth, Measured: measured(mib)}); o.Verdict.Target != nil || c.State(sameTime).Exact == forGrowth {
			t.Fatalf("%t: %+v, exact %t", forGrowth, o.Verdict, c.State(sameTime).Exact)
		}
		second := early(100*time.Millisecond, 70*mib)
		o := c.Repeat(second, &Trace{Measured: measured(31 * mib), Seen: []signals.Observations{second.Node}})
		if (o.Evicted != nil) != forGrowth || forGrowth && (o.Growth.By != 30*mib || o.Growth.Over != 100*time.Millisecond) {
			t.Errorf("%t: evicted %v, grew %+v, %s", forGrowth, o.Evicted, o.Growth, o.SpareReason())
		}
	}
}

func TestRestore_ContinuesFromState(t *testing.T) {
	policy, now := newPolicy(t, eviction.Settings{Thresholds: []eviction.Threshold{hard()}}), time.Now()
	limits := limiter.Policy{PerHour: 1}
	s := &signals.Snapshot{At: now}
	s.Node[signals.MemoryAvailable] = signals.Observed(50*mib, gib, now)
	c := NewRepeater(policy, limits)
	if !c.State(sameTime).Exact {
		t.Error("the state before the first check is not exact")
	}
	pod := signals.Candidate{Pod: &signals.Pod{UID: "a", Namespace: "ns"}, Usage: &signals.Usage{Memory: signals.Of[signals.Bytes](100 * mib)}}
	c.Repeat(s, &Trace{Measured: [][]signals.Candidate{{pod}}})
	state := c.State(sameTime)
	if state.Exact || !slices.Equal(state.Served, []string{"MemoryPressure"}) || len(state.Limiter.Evictions) != 1 {
		t.Errorf("state %+v", state)
	}
	for snapshot, want := range map[*signals.Snapshot]eviction.Reason{s: eviction.Stale, nil: eviction.Act} {
		again := NewRepeater(policy, limits)
		again.Restore(&state, snapshot, now)
		if got := again.State(sameTime); !slices.Equal(got.Served, state.Served) || len(got.Limiter.Evictions) != 1 || len(got.Decisions.Conditions) != 1 {
			t.Errorf("restored %+v", got)
		}
		later := *s
		later.At = now.Add(10 * time.Second) // with the same observation
		if got := again.Repeat(&later, &Trace{}).Verdict.Reason; got != want {
			t.Errorf("the same observation again: %v, want %v", got, want)
		}
	}
}
