package score

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
)

const (
	mib       = 1 << 20
	threshold = 100 * mib
	sigkill   = 9
)

func at(ms float64) *float64 { return &ms }

// observation is a run in which a hog fills a node of 1 GiB and is ended in time, beside two calm pods and
// the neighbour.
func observation() *Observation {
	return &Observation{
		Total: 1024 * mib, Threshold: threshold, Duration: 20_000, Crossed: at(1000), Least: 60 * mib,
		Pods: []Pod{
			{Name: "heartbeat", Group: "heartbeat", Daemon: true}, {Name: "neighbour", Group: "neighbour"},
			{Name: "calm-1", Group: "calm"}, {Name: "calm-2", Group: "calm"},
			{Name: "hog", Group: "hog", Deaths: []Death{killedAt(1040, 60*mib)}},
		},
		Contestant: &Contestant{CPUWaiting: 0.5, CPUIncident: 12, MaxResident: 20 * mib},
		Heartbeat:  Heartbeat{Alive: true, MaxGap: 120},
		Neighbour: Neighbour{
			Rate: 200, Quiet: Latency{Requests: 400, P50: 0.2, P99: 1}, During: Latency{Requests: 4000, P50: 0.2, P99: 1.5},
			Slots: []float64{1, 1.02, 0.98, 0.9},
		},
		Witness: Witness{Realtime: true, Samples: 20_000, MaxGap: 3},
	}
}

func killedAt(ms float64, least int64) Death { return Death{At: ms, Signal: sigkill, Least: least} }

func (o *Observation) pod(name string) *Pod {
	return &o.Pods[slices.IndexFunc(o.Pods, func(p Pod) bool { return p.Name == name })]
}

// runOut has no pod end, and nothing available from a second on, until the end.
func (o *Observation) runOut(second int) {
	o.pod("hog").Deaths, o.Least, o.Exhausted = nil, 0, at(float64(1000*second))
	o.SlotWidth, o.Slots = 1000, append(slices.Repeat([]int64{200 * mib}, second), make([]int64, 20-second)...)
}

// exhausting and calm are what the incidents expect.
var (
	exhausting = Expect{Exhausts: true, MayKill: []string{"hog"}, Needed: 1}
	calm       = Expect{}
)

func TestOf_JudgesRuns(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name   string
		expect Expect
		change func(*Observation)
		want   Score // of the fields that a contestant is judged by
	}{
		{"saves the node", exhausting, func(*Observation) {},
			Score{Verdict: Won, Saved: true, RightVictim: &yes, Ended: 1, CrossingToDead: at(40)}},
		{"ends a subprocess only, which suffices", exhausting, func(o *Observation) {
			o.pod("hog").Deaths, o.pod("hog").Lost = nil, []float64{1100}
		}, Score{Verdict: Won, Saved: true, RightVictim: &yes, Ended: 1, CrossingToDead: at(100)}},
		{"throttles instead of killing", exhausting, func(o *Observation) { o.pod("hog").Deaths = nil },
			Score{Verdict: Won, Saved: true}},
		{"waits where nothing has to end", calm, func(o *Observation) { o.pod("hog").Deaths = nil },
			Score{Verdict: Won, Saved: true, RightVictim: &yes}},

		// Contestants that cheat.
		{"does nothing", exhausting, func(o *Observation) {
			o.Least, o.pod("hog").Kills = 0, []Kill{{1500, 1, 0}}
			o.pod("hog").Deaths = []Death{killedAt(1500, 0)}
		}, Score{Verdict: Lost, KernelKills: 1}},
		{"does nothing, and the kernel kills an innocent pod too", exhausting, func(o *Observation) {
			o.pod("hog").Kills, o.pod("hog").Deaths = []Kill{{1500, 1, 0}}, []Death{killedAt(1500, 0)}
			o.pod("calm-1").Kills, o.pod("calm-1").Deaths = []Kill{{1450, 1, 0}}, []Death{killedAt(1450, 0)}
		}, Score{Verdict: Lost, KernelKills: 2, Bystanders: []string{"calm-1"}}},
		{"kills the innocent", exhausting, func(o *Observation) {
			o.pod("hog").Deaths, o.pod("hog").Kills = []Death{killedAt(1600, 0)}, []Kill{{1600, 1, 0}}
			o.pod("calm-1").Deaths = []Death{killedAt(1020, 80*mib)}
			o.pod("calm-2").Deaths = []Death{killedAt(1030, 80*mib)}
		}, Score{Verdict: Lost, KernelKills: 1, RightVictim: &no, Ended: 2, Bystanders: []string{"calm-1", "calm-2"}}},
		{"kills the innocent first, then the right one", exhausting, func(o *Observation) {
			o.pod("calm-1").Deaths = []Death{killedAt(1010, 90*mib)}
		}, Score{Verdict: Wrong, Saved: true, RightVictim: &no, Ended: 2, Bystanders: []string{"calm-1"}, CrossingToDead: at(40)}},
		{"kills all", exhausting, func(o *Observation) {
			for i := range o.Pods {
				o.Pods[i].Deaths = []Death{killedAt(1040+float64(i), 60*mib)}
			}
			o.pod("hog").Deaths[0].At = 1030
			o.Heartbeat.Alive = false
		}, Score{Verdict: Lost, RightVictim: &yes, Ended: 5, Bystanders: []string{"heartbeat", "neighbour", "calm-1", "calm-2"}, CrossingToDead: at(30)}},
		{"kills all pods, where nothing has to end", calm, func(o *Observation) {
			for _, name := range []string{"calm-1", "calm-2", "neighbour"} {
				o.pod(name).Deaths = []Death{killedAt(1040, 60*mib)}
			}
		}, Score{Verdict: Wrong, Saved: true, RightVictim: &no, Ended: 4, Bystanders: []string{"neighbour", "calm-1", "calm-2", "hog"}}},
		{"kills before there is pressure", exhausting, func(o *Observation) {
			o.Crossed, o.Least = nil, 500*mib
			o.pod("hog").Deaths = []Death{killedAt(10, 500*mib)}
		}, Score{Verdict: Regret, Saved: true, RightVictim: &yes, Ended: 1, Regrets: 1}},
		{"kills before the incident begins", exhausting, func(o *Observation) {
			o.Crossed, o.Least = nil, 500*mib
			o.pod("hog").Deaths = []Death{killedAt(-1500, math.MaxInt64)}
		}, Score{Verdict: Regret, Saved: true, RightVictim: &yes, Ended: 1, Regrets: 1}},
		{"dies after its kill", exhausting, func(o *Observation) { o.Contestant.Ended = true },
			Score{Verdict: Died, Saved: true, RightVictim: &yes, Ended: 1, CrossingToDead: at(40)}},
		{"dies, and so the kernel kills", exhausting, func(o *Observation) {
			o.Contestant.Ended = true
			o.pod("hog").Kills, o.pod("hog").Deaths = []Kill{{1500, 1, 0}}, []Death{killedAt(1500, 0)}
		}, Score{Verdict: Lost, KernelKills: 1}},
		{"dies where nothing happens", calm, func(o *Observation) {
			o.Contestant.Ended = true
			o.pod("hog").Deaths = nil
		}, Score{Verdict: Died, Saved: true, RightVictim: &yes}},

		{"kills a child of an innocent real program, whose shell reports it", exhausting, func(o *Observation) {
			o.pod("calm-1").Deaths = []Death{{At: 1010, Code: 128 + sigkill, Least: 90 * mib}}
		}, Score{Verdict: Wrong, Saved: true, RightVictim: &no, Ended: 2, Bystanders: []string{"calm-1"}, CrossingToDead: at(40)}},
		{"kills a subprocess before there is pressure", exhausting, func(o *Observation) {
			o.pod("hog").Deaths, o.pod("hog").Lost = nil, []float64{60}
			o.SlotWidth, o.Slots = 50, []int64{900 * mib, 800 * mib, 60 * mib}
		}, Score{Verdict: Regret, Saved: true, RightVictim: &yes, Ended: 1, Regrets: 1}},
		{"kills what the kernel killed in at its limit", calm, func(o *Observation) {
			hog := o.pod("hog")
			hog.AtLimit, hog.Kills, hog.Lost = true, []Kill{{1000, 1, 300 * mib}}, []float64{1000}
			o.MachineKills = 1 // the same one
			hog.Deaths = []Death{killedAt(1200, 300*mib)}
		}, Score{Verdict: Wrong, Saved: true, RightVictim: &no, Ended: 1, Bystanders: []string{"hog"}}},
		{"stops innocent pods beside its kill", exhausting, func(o *Observation) { o.pod("calm-2").Stopped = true },
			Score{Verdict: Wrong, Saved: true, RightVictim: &yes, Ended: 1, Bystanders: []string{"calm-2"}, CrossingToDead: at(40)}},
		{"stops the right pod instead of killing it", exhausting, func(o *Observation) { o.pod("hog").Deaths, o.pod("hog").Stopped = nil, true },
			Score{Verdict: Won, Saved: true}},
		{"stops all pods, so that nothing happens", exhausting, func(o *Observation) {
			o.pod("hog").Deaths, o.Crossed = nil, nil
			for _, name := range []string{"calm-1", "calm-2", "hog", "neighbour"} {
				o.pod(name).Stopped = true
			}
		}, Score{Verdict: Wrong, Saved: true, Bystanders: []string{"neighbour", "calm-1", "calm-2"}}},
		{"starves all pods, and lets them go before the end", calm, func(o *Observation) {
			o.pod("hog").Deaths = nil
			o.Neighbour.SlotWidth, o.Neighbour.Slots = 250, append(make([]float64, 41), 1)
		}, Score{Verdict: Wrong, Saved: true, RightVictim: &yes}},
		{"makes the node larger", exhausting, func(o *Observation) { o.pod("hog").Deaths, o.Enlarged = nil, true },
			Score{Verdict: Wrong}},

		{"ends one more than needed", Expect{Exhausts: true, MayKill: []string{"hog", "calm"}, Needed: 1}, func(o *Observation) {
			o.pod("calm-1").Deaths = []Death{killedAt(3000, 60*mib)}
		}, Score{Verdict: Regret, Saved: true, RightVictim: &yes, Ended: 2, Regrets: 1, CrossingToDead: at(40)}},
		{"hangs the node", exhausting, func(o *Observation) { o.Heartbeat.MaxGap = 10_001 },
			Score{Verdict: Lost, RightVictim: &yes, Ended: 1, CrossingToDead: at(40)}},
		{"the kernel kills at the limit of a pod", calm, func(o *Observation) {
			hog := o.pod("hog")
			hog.AtLimit, hog.Kills, hog.Deaths = true, []Kill{{1000, 1, 300 * mib}}, []Death{killedAt(1000, 300*mib)}
		}, Score{Verdict: Won, Saved: true, RightVictim: &yes}},
		{"the kernel kills a child at the limit of its pod", calm, func(o *Observation) {
			hog := o.pod("hog")
			hog.AtLimit, hog.Kills, hog.Deaths, hog.Lost = true, []Kill{{1010, 1, 300 * mib}}, nil, []float64{1000}
		}, Score{Verdict: Won, Saved: true, RightVictim: &yes}},
		{"the kernel kills a pod at its limit for the node", exhausting, func(o *Observation) {
			hog := o.pod("hog")
			hog.AtLimit, hog.Kills, hog.Deaths = true, []Kill{{1000, 1, 1 * mib}}, []Death{killedAt(1000, 1*mib)}
		}, Score{Verdict: Lost, KernelKills: 1}},
		{"the kernel kills outside of pods", exhausting, func(o *Observation) { o.MachineKills = 2 },
			Score{Verdict: Lost, KernelKills: 2, RightVictim: &yes, Ended: 1, CrossingToDead: at(40)}},
		{"a process that exits with success is no end", calm, func(o *Observation) { o.pod("hog").Deaths = []Death{{At: 5}} },
			Score{Verdict: Won, Saved: true, RightVictim: &yes}},

		{"the witness was blind", exhausting, func(o *Observation) { o.Witness.MaxGap = 1500 },
			Score{Verdict: Invalid, Saved: true, RightVictim: &yes, Ended: 1, CrossingToDead: at(40)}},
		{"the witness was blind, and the kernel killed", exhausting, func(o *Observation) {
			o.Witness.MaxGap, o.Witness.Samples = 1500, 0
			o.pod("hog").Kills, o.pod("hog").Deaths = []Kill{{1500, 1, 0}}, []Death{killedAt(1500, 0)}
		}, Score{Verdict: Lost, KernelKills: 1}},
		{"the kernel killed, and a workload failed for lack of memory", exhausting, func(o *Observation) {
			o.pod("hog").Kills, o.pod("hog").Deaths = []Kill{{1500, 1, 0}}, []Death{killedAt(1500, 0)}
			o.pod("calm-1").Deaths = []Death{{At: 1600, Code: 1}}
		}, Score{Verdict: Lost, KernelKills: 1}},
		{"the node hung for much longer than the witness was blind", exhausting, func(o *Observation) {
			o.Witness.MaxGap, o.Heartbeat.MaxGap = 1500, 12_000
		}, Score{Verdict: Lost, RightVictim: &yes, Ended: 1, CrossingToDead: at(40)}},
		{"the machine stood still", exhausting, func(o *Observation) { o.Witness.MaxGap, o.Heartbeat.MaxGap = 11_900, 12_000 },
			Score{Verdict: Invalid, Saved: false, RightVictim: &yes, Ended: 1, CrossingToDead: at(40)}},
		{"a signal of unknown origin, without a contestant", calm, func(o *Observation) { o.Contestant = nil },
			Score{Verdict: Invalid, Saved: true, RightVictim: &yes}},
		{"a workload failed", exhausting, func(o *Observation) { o.pod("hog").Deaths = []Death{{At: 5, Code: 1}} },
			Score{Verdict: Invalid, Saved: true}},
		{"a program crashed", exhausting, func(o *Observation) { o.pod("hog").Deaths = []Death{{At: 1040, Signal: 11, Least: 60 * mib}} },
			Score{Verdict: Invalid, Saved: true}},
		{"a child of a real program crashed, and its shell exits with that status", exhausting, func(o *Observation) {
			o.pod("hog").Deaths = []Death{{At: 1040, Code: 128 + 11, Least: 60 * mib}}
		}, Score{Verdict: Invalid, Saved: true}},
		{"memory runs out too slowly, without a contestant", exhausting, func(o *Observation) { o.pod("hog").Deaths, o.Contestant = nil, nil },
			Score{Verdict: Invalid, Saved: true}},
		{"does nothing, and the kernel reclaims the pages of programs without end", exhausting, func(o *Observation) {
			o.runOut(9)
		}, Score{Verdict: Lost}},
		{"the same without a contestant", exhausting, func(o *Observation) {
			o.Contestant = nil
			o.runOut(9)
		}, Score{Verdict: Lost}},
		{"memory came back by itself", exhausting, func(o *Observation) {
			o.runOut(9)
			o.Slots[19] = threshold
		}, Score{Verdict: Won, Saved: true}},
		{"memory ran out shortly before the end, without a contestant", exhausting, func(o *Observation) {
			o.Contestant = nil
			o.runOut(11)
		}, Score{Verdict: Invalid, Saved: true}},
		{"nothing is available, where nothing has to end", calm, func(o *Observation) {
			o.runOut(0)
		}, Score{Verdict: Won, Saved: true, RightVictim: &yes}},
		{"nothing happened", exhausting, func(o *Observation) { o.pod("hog").Deaths, o.Crossed = nil, nil },
			Score{Verdict: Invalid, Saved: true}},
		{"no neighbour", exhausting, func(o *Observation) { o.Neighbour = Neighbour{} },
			Score{Verdict: Invalid, Saved: true, RightVictim: &yes, Ended: 1, CrossingToDead: at(40)}},
	} {
		o := observation()
		c.change(o)
		got := Of(c.expect, o)
		kept := Score{
			Verdict: got.Verdict, Saved: got.Saved, KernelKills: got.KernelKills, RightVictim: got.RightVictim, Ended: got.Ended,
			Bystanders: got.Bystanders, Regrets: got.Regrets, CrossingToDead: got.CrossingToDead,
		}
		if a, b := text(t, kept), text(t, c.want); a != b {
			t.Errorf("%s (%s):\ngot  %s\nwant %s", c.name, got.Why, a, b)
		}
		if (got.Why == "") != (got.Verdict == Won) {
			t.Errorf("%s: verdict %s, why %q", c.name, got.Verdict, got.Why)
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestOf_CopiesFigures(t *testing.T) {
	s := Of(exhausting, observation())
	if s.LeftAtKill == nil || *s.LeftAtKill != 60*mib || s.CostUnknown {
		t.Errorf("got %+v, want 60 MiB left at the kill, and a known cost", s)
	}
	if s.Least != 60*mib || s.Isolation != 90 || s.P99Ratio != 1.5 || s.HeartbeatGap != 120 || s.CPUWaiting != 0.5 || s.CPUIncident != 12 || s.MaxResident != 20*mib {
		t.Errorf("got %+v", s)
	}
	elsewhere, ended := observation(), observation()
	elsewhere.Contestant.Elsewhere, ended.Contestant.Ended = true, true
	if c := Summarize([]Score{s, Of(exhausting, elsewhere), Of(exhausting, ended)}); c.CPUIncident.N != 1 || c.MaxResident.N != 1 || c.CPUWaiting.N != 1 || c.LeftAtKill.N != 3 {
		t.Errorf("got %+v, want an unknown cost left out", c)
	}
	alone := observation()
	alone.Contestant, alone.Neighbour.Slots = nil, []float64{2, 1.5}
	if s := Of(exhausting, alone); s.MaxResident != 0 || s.Isolation != 100 {
		t.Errorf("the kernel alone: got %+v, want no cost, and no throughput above the rate", s)
	}
}

func TestOf_StatesHowLongMemoryWouldHaveLasted(t *testing.T) {
	falling := []int64{500 * mib, 400 * mib, 300 * mib, 200 * mib, 100 * mib, 60 * mib}
	for _, c := range []struct {
		name  string
		slots []int64
		width float64
		at    float64
		want  float64 // ms; 0: unknown
	}{
		{"60 MiB at 100 MiB per slot of 50 ms", falling, 50, 260, 30},
		{"the slot of the end is incomplete, and does not count", append(falling[:5:5], 1), 50, 260, 30},
		{"too early to know a rate", falling, 50, 240, 0},
		{"after the last slot", falling, 50, 310, 0},
		{"memory came back before the end", append(falling[:6:6], 300*mib, 400*mib), 50, 360, 30},
		{"memory did not fall", []int64{100 * mib, 100 * mib, 100 * mib, 100 * mib, 100 * mib, 60 * mib}, 50, 260, 0},
		{"slots without a width", falling, 0, 260, 0},
		{"a negative width and time", []int64{1, 2, 3, 4, 5, 6}, -50, -260, 0},
		{"no slots", nil, 50, 0, 0},
	} {
		o := observation()
		o.Slots, o.SlotWidth, o.pod("hog").Deaths[0].At = c.slots, c.width, c.at
		got := 0.0
		if left := Of(exhausting, o).TimeLeft; left != nil {
			got = *left
		}
		if math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: memory would have lasted %v ms, want %v", c.name, got, c.want)
		}
	}
}

func TestEnds_AreInOrder(t *testing.T) {
	o := observation()
	o.pod("calm-2").Lost = []float64{900, 800}
	var names []string
	for _, e := range Ends(o) {
		names = append(names, e.Pod)
	}
	if want := []string{"calm-2", "hog"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestQuantile_IsNearestRank(t *testing.T) {
	ten := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for q, want := range map[float64]float64{0: 1, 0.01: 1, 0.1: 1, 0.11: 2, 0.5: 5, 0.99: 10, 1: 10} {
		if got := Quantile(ten, q); got != want {
			t.Errorf("quantile %v: got %v, want %v", q, got, want)
		}
	}
	if Quantile(nil, 0.5) != 0 {
		t.Error("quantile of nothing: want 0")
	}
}

func TestSummarize_CountsAndSpreads(t *testing.T) {
	yes := true
	c := Summarize([]Score{
		{Verdict: Won, Saved: true, RightVictim: &yes, CrossingToDead: at(10), Least: 50, Isolation: 99, P99Ratio: 1.1},
		{Verdict: Lost, KernelKills: 3, Least: 0, Isolation: 40, Bystanders: []string{"a", "b"}},
		{Verdict: Won, Saved: true, RightVictim: &yes, CrossingToDead: at(30), Least: 70, Isolation: 97, P99Ratio: 1.3},
		{Verdict: Regret, Saved: true, Regrets: 2, CrossingToDead: at(20), Least: 90, Isolation: 98, P99Ratio: 1.2},
		{Verdict: Invalid, KernelKills: 9, Least: -5},
	})
	if c.Runs != 4 || c.Invalid != 1 || c.Saved != 3 || c.Verdicts[Won] != 2 || c.KernelKills != 3 || c.RightVictim != 2 || c.Bystanders != 2 || c.Regrets != 2 || c.Worst != Lost {
		t.Errorf("counts: %+v", c)
	}
	for name, s := range map[string]struct{ got, want Spread }{
		"crossing to dead": {c.CrossingToDead, Spread{3, 20, 30}},
		"least":            {c.Least, Spread{4, 60, 0}},
		"isolation":        {c.Isolation, Spread{4, 97.5, 40}},
		"p99":              {c.P99Ratio, Spread{3, 1.2, 1.3}},
	} {
		if math.Abs(s.got.Median-s.want.Median) > 1e-9 || s.got.N != s.want.N || s.got.Worst != s.want.Worst {
			t.Errorf("%s: got %+v, want %+v", name, s.got, s.want)
		}
	}
	if empty := Summarize(nil); empty.Runs != 0 || empty.Worst != "" || empty.Least.N != 0 {
		t.Errorf("nothing: got %+v", empty)
	}
}
