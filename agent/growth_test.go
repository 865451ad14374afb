package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// hundred adds a hundred pods, each below 5 % of the shortage, and usage outside of pods. From 11 s on
// the pods grow for five seconds, by a rate together.
func hundred(w *env, outside, rate signals.Amount) {
	w.outside = func() signals.Amount { return outside }
	for i := range 100 {
		p := w.add(fmt.Sprintf("pod-%03d", i), 2*mib)
		p.rate, p.since, p.until = rate/100, time.Now().Add(11*time.Second), time.Now().Add(16*time.Second)
		p.then = p.memory + 5*p.rate
	}
}

func TestChoice_EvictsSmallPodsThatGrowTogether(t *testing.T) {
	w := chosen(t, 30*time.Second, eviction.Helps, []eviction.Threshold{hard()}, func(w *env) { hundred(w, 700*mib, 60*mib) })
	evicted := w.lines(Evicted)
	if w.minAvailable <= 0 || len(evicted) == 0 || len(w.pods) < 30 {
		t.Fatalf("%d MiB were available at least, %d pods remain, reported %d evictions, %d times none", w.minAvailable/mib, len(w.pods), len(evicted), w.count(NoneHelps))
	}
	d := evicted[0]
	if d.GrewMost == "" || d.GrewBy <= 0 || d.GrewOver == nil || *d.GrewOver < 10 || !strings.Contains(d.Ranking[0].Reason, ", grew by ") || d.Spared != 0 {
		t.Errorf("%+v", d)
	}
}

// A daemon uses the memory, while each pod grows a little. Their end would not help.
func TestChoice_SparesGrowingBystandersOfDaemon(t *testing.T) {
	for _, rate := range []signals.Amount{20 * mib, 300 * mib} {
		w := chosen(t, 2*time.Minute, eviction.Helps, []eviction.Threshold{hard()}, func(w *env) {
			w.daemon(rate, 1000*mib)
			for i := range 12 {
				p := w.add(fmt.Sprintf("tiny-%02d", i), mib/2)
				p.rate, p.since = 2<<10, time.Now()
			}
		})
		if len(w.evicted()) != 0 {
			t.Errorf("%d MiB/s: evicted %v", rate/mib, w.evicted())
		}
		d := w.lines(NoneHelps)
		if len(d) != 2 || d[0].Repeated != "" || d[1].Repeated != RepeatMeasured || w.checks[signals.Early] > 12_500 {
			t.Errorf("%d MiB/s: %d early checks, %d lines: %+v", rate/mib, w.checks[signals.Early], len(d), d)
		}
	}
}

// The pods of a disk hold less than is missing, together. The one that fills it is evicted nevertheless
// once nothing is left, or as much as is left was used since the measurement before.
func TestChoice_DiskHogOnFullDisk(t *testing.T) {
	for _, tc := range []struct {
		about string
		grown signals.Amount // of 2560Mi
		host  signals.Amount // growth outside of pods
		want  []string
	}{
		{"nothing left", 2560 * mib, 0, []string{"default/hog"}},
		{"less left than was used", 1400 * mib, 0, []string{"default/hog"}},
		{"more left than was used", 1200 * mib, 0, nil},
		{"half by a hostPath", 1280 * mib, 1280 * mib, []string{"default/hog"}},
		{"most by a hostPath", 1200 * mib, 1360 * mib, nil},
	} {
		t.Run(tc.about, func(t *testing.T) {
			w := chosen(t, 50*time.Second, eviction.Helps, full(), func(w *env) {
				hostPathWriter(w)
				w.disk = 3*gib + 15*mib
				hog := w.add("hog", mib)
				hog.Priority, hog.disk = 1000, 512*mib
				w.later(25*time.Second, func() { hog.disk += tc.grown; w.disk -= tc.host })
			})
			if got := w.evicted(); !slices.Equal(got, tc.want) {
				t.Fatalf("evicted %v, reported %v", got, w.verbs())
			}
			if d := w.lines(Evicted); len(d) > 0 && (d[0].GrewMost != "default/hog" || d[0].GrewBy != int64(tc.grown) || d[0].KubeletWouldEvict != "default/small-00" || d[0].Spared != 15) {
				t.Errorf("%+v", d[0])
			}
		})
	}
}

// ranked is a node with pods for one signal, measured again and again.
type ranked struct {
	c       Checker
	o       Outcome
	s       signals.Snapshot
	sig     signals.Signal
	pods    []signals.Candidate
	storage signals.Storage
}

func newRanked(tb testing.TB, sig signals.Signal, names ...string) *ranked {
	tb.Helper()
	policy, err := eviction.NewPolicy(eviction.Settings{Thresholds: []eviction.Threshold{{Signal: sig, Value: quantity(1000 * mib)}}, EarlyEvictionHorizon: 500 * time.Millisecond})
	if err != nil {
		tb.Fatal(err)
	}
	r := &ranked{c: Checker{Machine: eviction.New(policy), growth: &growth{}}, sig: sig, storage: signals.LocalVolumes}
	r.o = Outcome{Snapshot: &r.s, Verdict: eviction.Verdict{Target: &policy.Thresholds[0]}}
	for _, name := range names {
		r.pods = append(r.pods, signals.Candidate{Pod: &signals.Pod{UID: name, Name: name, Volumes: []signals.Volume{{Name: "data", Local: true}}}, Usage: &signals.Usage{Volumes: []signals.VolumeUsage{{Name: "data"}}}})
	}
	return r
}

// measured is a measurement at a time: the available amount and the usage of each pod, in MiB (PIDs as
// they are). A negative usage is incomplete, -1000 that of a pod that has ended.
func (r *ranked) measured(at time.Duration, left signals.Amount, usage ...signals.Amount) PodGrowth {
	unit := signals.Amount(mib)
	if r.sig == signals.PIDAvailable {
		unit = 1
	}
	before := r.s.Node[r.sig]
	r.s.At = time.Unix(1000, 0).Add(at)
	r.s.Node[r.sig] = signals.Observed(left*unit, 1<<40, r.s.At)
	r.s.Rates[r.sig] = signals.Rate{By: before.Available - left*unit, Over: r.s.At.Sub(before.Time)}
	var pods []signals.Candidate
	for i, n := range usage {
		u := r.pods[i].Usage
		u.Volumes[0].Bytes, u.Volumes[0].Incomplete = signals.Of(signals.Bytes(max(n, 0)*unit)), ""
		if n < 0 {
			u.Volumes[0].Incomplete = "cut"
		}
		u.Memory, u.Processes = signals.Measured[signals.Bytes]{Value: signals.Bytes(max(n, 0) * unit), Known: n >= 0}, signals.Of(signals.PIDs(n))
		if n > -1000 {
			pods = append(pods, r.pods[i])
		}
	}
	r.o.Growth, r.o.Ranking = PodGrowth{}, ranking.Rank(pods, r.sig, r.storage)
	r.c.noteGrowth(&r.o)
	return r.o.Growth
}

func (r *ranked) growing() (names []string) {
	for i := range r.o.Ranking {
		if r.o.grows(&r.o.Ranking[i]) {
			names = append(names, r.o.Ranking[i].Pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestNoteGrowth_ComparesTwoMeasurements(t *testing.T) {
	type at struct {
		time  time.Duration
		left  signals.Amount
		usage []signals.Amount // of a, b, c
	}
	const s, ms = time.Second, time.Millisecond
	for _, tc := range []struct {
		about string
		of    signals.Signal
		seen  []at
		most  string
		by    signals.Amount
		over  time.Duration
		grows []string
	}{
		{"first measurement", signals.MemoryAvailable, []at{{0, 900, []signals.Amount{1, 2, 3}}}, "", 0, 0, nil},
		{"pods that grow together", signals.MemoryAvailable, []at{{0, 100, []signals.Amount{1, 1, 1}}, {100 * ms, 60, []signals.Amount{21, 21, 1}}}, "a", 20, 100 * ms, []string{"a", "b"}},
		{"a twentieth of the largest growth", signals.MemoryAvailable, []at{{0, 100, []signals.Amount{1, 1, 1}}, {100 * ms, 50, []signals.Amount{41, 3, 2}}}, "a", 40, 100 * ms, []string{"a", "b"}},
		{"memory lasts longer than the horizon", signals.MemoryAvailable, []at{{0, 900, []signals.Amount{1, 1, 1}}, {100 * ms, 860, []signals.Amount{21, 21, 1}}}, "a", 20, 100 * ms, nil},
		{"measurements too close together", signals.MemoryAvailable, []at{{0, 100, []signals.Amount{1, 1, 1}}, {9 * ms, 60, []signals.Amount{21, 21, 1}}}, "", 0, 0, nil},
		{"growth outside of pods", signals.MemoryAvailable, []at{{0, 100, []signals.Amount{1, 1, 1}}, {100 * ms, 60, []signals.Amount{10, 10, 2}}}, "a", 9, 100 * ms, nil},
		{"the base remains for ten seconds", signals.MemoryAvailable, []at{{0, 100, []signals.Amount{1, 1, 1}}, {5 * s, 100, []signals.Amount{5, 1, 1}}, {9 * s, 10, []signals.Amount{50, 1, 1}}}, "a", 49, 9 * s, []string{"a"}},
		{"then the one after it", signals.PIDAvailable, []at{{0, 100, []signals.Amount{1, 1, 1}}, {10 * s, 95, []signals.Amount{6, 1, 1}}, {20 * s, 90, []signals.Amount{11, 1, 1}}, {30 * s, 40, []signals.Amount{61, 1, 1}}}, "a", 55, 20 * s, []string{"a"}},
		{"measurements from before a pause", signals.PIDAvailable, []at{{0, 100, []signals.Amount{60, 1}}, {10 * s, 95, []signals.Amount{60, 6}}, {15 * time.Minute, 50, []signals.Amount{-1000, 30, 60}}}, "", 0, 0, nil},
		{"and the one after it", signals.PIDAvailable, []at{{0, 100, []signals.Amount{1, 1, 1}}, {10 * s, 95, []signals.Amount{1, 6, 1}}, {15 * time.Minute, 50, []signals.Amount{51, 1, 1}}, {15*time.Minute + 10*s, 20, []signals.Amount{81, 1, 1}}}, "a", 30, 10 * s, []string{"a"}},
		{"new pod", signals.PIDAvailable, []at{{0, 100, []signals.Amount{1, 1}}, {10 * s, 40, []signals.Amount{1, 1, 60}}}, "c", 60, 10 * s, []string{"c"}},
		{"pod that ended meanwhile", signals.PIDAvailable, []at{{0, 100, []signals.Amount{60, 1, 1}}, {10 * s, 100, []signals.Amount{-1000, 31, 31}}}, "b", 30, 10 * s, nil},
		{"pod that ended and was created again", signals.PIDAvailable, []at{{0, 50, []signals.Amount{60, 1}}, {10 * s, 50, []signals.Amount{-1000, 1, 60}}}, "c", 60, 10 * s, nil},
		{"pod that ended meanwhile, and less is left", signals.PIDAvailable, []at{{0, 100, []signals.Amount{60, 1, 1}}, {10 * s, 30, []signals.Amount{-1000, 66, 66}}}, "b", 65, 10 * s, []string{"b", "c"}},
		{"PIDs: more left than was used", signals.PIDAvailable, []at{{0, 100, []signals.Amount{1, 1, 1}}, {10 * s, 51, []signals.Amount{50, 1, 1}}}, "a", 49, 10 * s, nil},
		{"PIDs: as much left as was used", signals.PIDAvailable, []at{{0, 100, []signals.Amount{1, 1, 1}}, {10 * s, 50, []signals.Amount{51, 1, 1}}}, "a", 50, 10 * s, []string{"a"}},
		{"PIDs used up: what grew before remains known", signals.PIDAvailable, []at{{0, 100, []signals.Amount{1, 1, 1}}, {10 * s, 0, []signals.Amount{101, 1, 1}}, {20 * s, 0, []signals.Amount{101, 1, 1}}, {30 * s, 0, []signals.Amount{101, 1, 1}}, {40 * s, 0, []signals.Amount{101, 1, 1}}}, "a", 100, 40 * s, []string{"a"}},
		{"nothing fell", signals.NodefsAvailable, []at{{0, 0, []signals.Amount{1, 1, 1}}, {20 * s, 0, []signals.Amount{5, 1, 1}}}, "a", 4, 20 * s, nil},
		{"measured incompletely now", signals.NodefsAvailable, []at{{0, 100, []signals.Amount{1, 1, 1}}, {20 * s, 0, []signals.Amount{-5, 101, 1}}}, "b", 100, 20 * s, []string{"b"}},
		{"measured incompletely before", signals.NodefsAvailable, []at{{0, 100, []signals.Amount{-1, 1, 1}}, {20 * s, 0, []signals.Amount{500, 101, 1}}}, "b", 100, 20 * s, []string{"b"}},
		{"memory unknown before", signals.MemoryAvailable, []at{{0, 100, []signals.Amount{-1, 1, 1}}, {100 * ms, 60, []signals.Amount{500, 41, 1}}}, "b", 40, 100 * ms, []string{"b"}},
	} {
		t.Run(tc.about, func(t *testing.T) {
			r := newRanked(t, tc.of, "a", "b", "c")
			var got PodGrowth
			for _, m := range tc.seen {
				got = r.measured(m.time, m.left, m.usage...)
			}
			unit := signals.Amount(mib)
			if tc.of == signals.PIDAvailable {
				unit = 1
			}
			most := ""
			if got.Most != nil {
				most = got.Most.Name
			}
			if most != tc.most || got.By != tc.by*unit || got.Over != tc.over || !slices.Equal(r.growing(), tc.grows) {
				t.Errorf("%+v, %s grew most, %v help, want %s by %d in %s, %v help", got, most, r.growing(), tc.most, tc.by, tc.over, tc.grows)
			}
		})
	}
}

// Protected pods are named, and do not help.
func TestNoteGrowth_OfProtectedPod(t *testing.T) {
	r := newRanked(t, signals.PIDAvailable, "a", "b")
	r.pods[0].Pod.Protection = signals.Critical
	r.measured(0, 100, 1, 1)
	g := r.measured(10*time.Second, 10, 51, 41)
	if g.Most.Name != "a" || g.Least != 0 || r.growing() != nil {
		t.Errorf("%+v, %v help, although more than half of the decrease is outside of b", g, r.growing())
	}
	g = r.measured(20*time.Second, 5, 51, 100)
	if g.Most.Name != "b" || !slices.Equal(r.growing(), []string{"b"}) {
		t.Errorf("%+v, %v help", g, r.growing())
	}
}

// The measurements of a signal are no base of later growth once a periodic check finds none of its
// thresholds met, though one of another signal is met still.
func TestGrowth_ForgetsAfterPressure(t *testing.T) {
	policy, err := eviction.NewPolicy(eviction.Settings{Thresholds: []eviction.Threshold{hard(), {Signal: signals.PIDAvailable, Value: quantity(1000)}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		about string
		kind  signals.Kind
		pids  signals.Observation
		want  time.Duration // since the base
	}{
		{"not met", signals.Periodic, signals.Observed(2000, 1<<15, time.Unix(1005, 0)), 0},
		{"met", signals.Periodic, signals.Observed(50, 1<<15, time.Unix(1005, 0)), 10 * time.Second},
		{"unknown", signals.Periodic, signals.Unknown("unreadable"), 10 * time.Second},
		{"early check", signals.Early, signals.Observed(2000, 1<<15, time.Unix(1005, 0)), 10 * time.Second},
	} {
		r := newRanked(t, signals.PIDAvailable, "a")
		r.c.Machine = eviction.New(policy)
		r.measured(0, 100, 1)
		s := signals.Snapshot{At: time.Unix(1005, 0), Kind: tc.kind}
		s.Node[signals.MemoryAvailable], s.Node[signals.PIDAvailable] = signals.Observed(mib, gib, s.At), tc.pids
		if o := r.c.Begin(&s); tc.kind == signals.Periodic && o.Verdict.Target == nil {
			t.Fatalf("%s: no threshold is met", tc.about)
		}
		if g := r.measured(10*time.Second, 50, 51); g.Over != tc.want {
			t.Errorf("%s: %+v, want a base %s ago", tc.about, g, tc.want)
		}
	}
	var none *growth // a scenario
	r := newRanked(t, signals.PIDAvailable)
	none.forget(&r.o.Verdict)
	(&Checker{}).noteCandidates(&r.s, 1, nil)
}

// The measurement that confirms imminent exhaustion is the base of growth: the first choice knows
// which pods grow.
func TestChoice_GrowthBeginsWithConfirmation(t *testing.T) {
	threshold := eviction.Threshold{Signal: signals.MemoryAvailable, Value: quantity(500 * mib)}
	w := chosen(t, 20*time.Second, eviction.Helps, []eviction.Threshold{threshold}, func(w *env) { hundred(w, 300*mib, 150*mib) })
	acted := slices.DeleteFunc(w.verbs(), func(v Verb) bool { return v == Pending })
	if len(acted) == 0 || acted[0] != Evicted || *w.lines(Evicted)[0].GrewOver < 10 {
		t.Errorf("reported %v", acted)
	}
}

// The next early check is not delayed if it may find that a pod grows.
func TestDelayRetry_AwaitsGrowth(t *testing.T) {
	memory, pids := hard(), eviction.Threshold{Signal: signals.PIDAvailable, Value: quantity(100)}
	for _, tc := range []struct {
		about  string
		target eviction.Threshold
		growth PodGrowth
		want   time.Duration
	}{
		{"no earlier measurement", memory, PodGrowth{Imminent: true}, confirmTime},
		{"pods grow, exhaustion not imminent", memory, PodGrowth{Over: time.Second, Least: mib}, confirmTime},
		{"no pod grows", memory, PodGrowth{Over: time.Second}, failurePace},
		{"exhaustion imminent", memory, PodGrowth{Over: time.Second, Imminent: true}, failurePace},
		{"PIDs", pids, PodGrowth{}, failurePace},
	} {
		a, s := steadyAgent(t, gib), &signals.Snapshot{At: time.Unix(1000, 0)}
		a.delayRetry(&Outcome{Snapshot: s, Verdict: eviction.Verdict{Target: &tc.target}, Growth: tc.growth}, NoneHelps)
		if got := a.retryAt.Sub(s.At); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.about, got, tc.want)
		}
	}
}

func TestGrowth_ComparesWithCandidates(t *testing.T) {
	r := newRanked(t, signals.MemoryAvailable, "a", "b")
	var memory signals.Set
	memory.Add(signals.MemoryAvailable)
	r.s.At = time.Unix(1000, 0)
	r.s.Node[r.sig] = signals.Observed(100*mib, gib, r.s.At)
	for i := range r.pods {
		r.pods[i].Usage.Memory = signals.Of[signals.Bytes](mib)
	}
	r.c.noteCandidates(&r.s, memory, r.pods)
	if g := r.measured(10*time.Millisecond, 90, 11, 1); g.By != 10*mib || !slices.Equal(r.growing(), []string{"a"}) {
		t.Errorf("%+v, %v help", g, r.growing())
	}
}

func fiveHundred(tb testing.TB) (r *ranked, next func()) {
	tb.Helper()
	names := make([]string, 500)
	for i := range names {
		names[i] = fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
	}
	r = newRanked(tb, signals.PIDAvailable, names...)
	usage := make([]signals.Amount, len(names))
	r.measured(0, 500, usage...)
	return r, func() {
		r.s.At = r.s.At.Add(growthWindow)
		r.c.noteGrowth(&r.o)
	}
}

func TestNoteGrowth_DoesNotAllocate(t *testing.T) {
	r, next := fiveHundred(t)
	next() // the second of the two stored measurements
	if n := testing.AllocsPerRun(100, next); n != 0 || r.o.Growth.Over == 0 {
		t.Errorf("%v allocations, %+v", n, r.o.Growth)
	}
}

// BenchmarkNoteGrowth compares 500 pods with an earlier measurement, and stores them.
func BenchmarkNoteGrowth(b *testing.B) {
	_, next := fiveHundred(b)
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
}
