package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

func TestMain(m *testing.M) {
	hog.RunIfSet()
	runRoleIfSet()
	os.Exit(m.Run())
}

func TestPercentile_ReturnsNearestRank(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, c := range []struct {
		sorted  []float64
		p, want float64
	}{
		{[]float64{7}, 50, 7}, {[]float64{7}, 99, 7}, {[]float64{1, 2, 3}, 50, 2}, {[]float64{1, 2, 3, 4}, 50, 2},
		{hundred[:10], 99, 10}, {hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100},
	} {
		if got := percentile(c.sorted, c.p); got != c.want {
			t.Errorf("percentile %v of %d values: got %v, want %v", c.p, len(c.sorted), got, c.want)
		}
	}
}

func TestGauge_ReadsUsage(t *testing.T) {
	file := gauge{Total: 1 << 30}
	if used, err := file.used([]byte("4096\n")); used != 4096 || err != nil {
		t.Errorf("used %d, %v", used, err)
	}
	meminfo := gauge{Key: "MemAvailable:", Total: 1 << 30}
	if used, err := meminfo.used([]byte("MemFree: 1 kB\nMemAvailable:  1024 kB\n")); used != 1<<30-1<<20 || err != nil {
		t.Errorf("used %d, %v", used, err)
	}
	for _, text := range []string{"", "MemFree: 1 kB\n", "MemAvailable:\n", "MemAvailable: much kB\n"} {
		if used, err := meminfo.used([]byte(text)); err == nil {
			t.Errorf("used(%q) = %d, want an error", text, used)
		}
	}
}

// TestNote_InterpolatesCrossing lets usage grow by 10 MiB every 2 ms from 80 MiB on, with the line half way between
// two readings.
func TestNote_InterpolatesCrossing(t *testing.T) {
	e := samplerState{samplerInput: samplerInput{Gauge: gauge{Total: 120 * mib}, Near: 90 * mib, Line: 105 * mib}}
	begin := time.Unix(1_800_000_000, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	for i, used := range []int64{80, 90, 100, 110, 120, 60} {
		e.note(reading{at(2 * i), used * mib})
	}
	got, want := e.seen, observation{Crossed: at(5), Exhausted: at(8), Unsure: 2 * time.Millisecond, Peak: 120 * mib, Rate: 5000 * mib}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestNote_NeedsReadingBelowLine(t *testing.T) {
	e := samplerState{samplerInput: samplerInput{Gauge: gauge{Total: 120 * mib}, Near: 90 * mib, Line: 105 * mib}}
	e.note(reading{time.Unix(1, 0), 110 * mib})
	if !e.seen.Crossed.IsZero() {
		t.Errorf("got a crossing at %v, want none without a reading below the line", e.seen.Crossed)
	}
}

func TestReactionFlags_Parse(t *testing.T) {
	good := reactionFlags{modes: "10s,loop", margins: "100,10", spinners: "0,8", nodeKind: "cgroup"}
	groups, modes, err := good.parse()
	if err != nil || len(groups) != 4 || len(modes) != 2 {
		t.Fatalf("%d tables, %d modes, %v", len(groups), len(modes), err)
	}
	if last := groups[3]; last.margin != 10*mib || last.spinners != 8 {
		t.Errorf("the last table: %+v", last)
	}
	all := reactionFlags{margins: "100", spinners: "0", nodeKind: "machine"}
	if _, modes, err := all.parse(); err != nil || len(modes) != len(contenders) {
		t.Errorf("got %d modes, %v, want all if the machine is the node", len(modes), err)
	}
	for name, bad := range map[string]reactionFlags{
		"mode":    {modes: "often", margins: "100", spinners: "0", nodeKind: "cgroup"},
		"margin":  {modes: "10s", margins: "0", spinners: "0", nodeKind: "cgroup"},
		"loops":   {modes: "10s", margins: "100", spinners: "some", nodeKind: "cgroup"},
		"arena":   {modes: "10s", margins: "100", spinners: "0", nodeKind: "sand"},
		"cgroups": {modes: "earlyoom", margins: "100", spinners: "0", nodeKind: "cgroup"},
	} {
		if _, _, err := bad.parse(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRow_FormatsStatistics(t *testing.T) {
	ms := func(v float64) *float64 { return &v }
	runs := []result{
		{Outcome: saved, Reached: 480, ToDead: ms(30), ToSignal: ms(2), ToNotified: ms(0.5), CheckToSignal: ms(1), MinAvailable: 90, CPURace: 3},
		{Outcome: lost, OOMKills: 1, Reached: 520, ToDead: ms(200), ToExhausted: ms(5), ToSignal: ms(9), ToNotified: ms(1), CheckToSignal: ms(8), MinAvailable: 0, CPURace: 5},
		{Outcome: wrong, Wrong: 1, Reached: 500},
	}
	want := "500 (520) | 1/3 | 1 | 1 | 30.0 (30.0) | 2.00 (9.00) | 0.50 (1.00) | 1.50 (8.00) | 1.00 (8.00) | 90.0 (90.0) | 0.00 | 3.0"
	if got := row(runs); got != want {
		t.Errorf("row  %s\nwant %s", got, want)
	}
	unseen := append(slices.Clone(runs), result{Outcome: saved})
	if cell := toDead(unseen); cell != "30.0 (30.0), 1 of 2 crossings seen" {
		t.Errorf("crossing to dead: %s", cell)
	}
	var decoder strings.Builder
	runs[1].Mode = "adaptive"
	explain(&decoder, runs[1:2])
	if want := "| adaptive at as fast as it goes (520 MiB/s), oom | 5.00 | - | 8.00 | 9.00 |\n"; !strings.HasSuffix(decoder.String(), want) {
		t.Errorf("%s\nwant it to end with %s", decoder.String(), want)
	}
}

// TestRace_IsObserved races the plain loop, which needs no agent, against a sufficiently slow hog.
// It has more than one try: an emulated machine may withhold the CPU from the sampler for
// longer than a race lasts above the line.
func TestRace_IsObserved(t *testing.T) {
	sandbox.Need(t)
	var r result
	for range 4 {
		if r = loopRace(t); r.ToCheck != nil {
			break
		}
		t.Logf("the crossing was not observed: %+v", r)
	}
	if r.ToCheck == nil || r.ToSignal == nil || r.ToDead == nil {
		t.Fatalf("not all times were observed: %+v", r)
	}
	// The crossing is known to a millisecond, or to the longest interruption of the sampler.
	if *r.ToCheck < -r.Unsure || *r.ToSignal < *r.ToCheck || *r.ToDead < *r.ToSignal-r.Unsure {
		t.Errorf("crossing, check, SIGKILL and exit are out of order: %+v", r)
	}
	// The kernel checks thresholds every 128 pages of each CPU.
	if far := r.MinAvailable < 98; r.Version == 1 && far && (r.ToNotified == nil || *r.ToNotified < -r.Unsure || *r.ToNotified > *r.ToDead) {
		t.Errorf("the kernel's notification is not between crossing and exit: %+v", r)
	}
	if r.Reached <= 0 || r.MinAvailable <= 0 || r.MinAvailable >= 100 || r.CPURace <= 0 {
		t.Errorf("impossible figures: %+v", r)
	}
}

func loopRace(t *testing.T) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	loop := contenders[slices.IndexFunc(contenders, func(c contender) bool { return c.name == "loop" })]
	r, err := race{
		group: group{&box, 100 * mib, 1}, contender: loop, rate: 20 * mib, wait: minWait, every: time.Millisecond,
	}.run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if r.Victim != "default/hog" || r.OOMKills != 0 {
		t.Errorf("the hog was to be killed by the loop: %+v", r)
	}
	return r
}
