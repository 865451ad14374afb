package ranking_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// unranked adds disk usage that pods are not ranked by.
func unranked(c *signals.Candidate) {
	fs := func(n int64) signals.FilesystemUsage {
		return signals.FilesystemUsage{Bytes: signals.Of(signals.Bytes(n)), Inodes: signals.Of(signals.Inodes(n * 10))}
	}
	c.Usage.OtherLayers, c.Usage.KubeletFiles = fs(40_000), fs(7000)
}

func TestRelief_CountsWhatEndFrees(t *testing.T) {
	with := func(s signals.Signal, used int64, change func(*signals.Candidate)) signals.Candidate {
		c := pod{name: "a", used: used}.candidate(s)
		if change != nil {
			change(&c)
		}
		return c
	}
	for _, tc := range []struct {
		about   string
		signal  signals.Signal
		pod     signals.Candidate
		measure signals.Storage
		want    signals.Amount // the most that it frees; -1: any amount
	}{
		{"memory", signals.MemoryAvailable, with(signals.MemoryAvailable, 100, nil), 0, 100},
		{"allocatable memory", signals.AllocatableMemoryAvailable, with(signals.MemoryAvailable, 100, nil), 0, 100},
		{"memory within the request", signals.MemoryAvailable, with(signals.MemoryAvailable, 100, func(c *signals.Candidate) { c.Pod.MemoryRequest.Value = 1000 }), 0, 100},
		{"unmeasured pod", signals.MemoryAvailable, pod{name: "a", noStats: true}.candidate(signals.MemoryAvailable), 0, 0},
		{"unmeasured memory", signals.MemoryAvailable, with(signals.MemoryAvailable, 0, func(c *signals.Candidate) { c.Usage = &signals.Usage{} }), 0, 0},
		{"memory without page cache", signals.MemoryAvailable, with(signals.MemoryAvailable, 100, func(c *signals.Candidate) { c.Usage.MemoryRelief = signals.Of[signals.Bytes](30) }), 0, 30},
		{"page cache alone", signals.AllocatableMemoryAvailable, with(signals.MemoryAvailable, 100, func(c *signals.Candidate) { c.Usage.MemoryRelief = signals.Of[signals.Bytes](0) }), 0, 0},
		{"more than the older figure of the ranking", signals.MemoryAvailable, with(signals.MemoryAvailable, 100, func(c *signals.Candidate) { c.Usage.MemoryRelief = signals.Of[signals.Bytes](150) }), 0, 150},
		{"storage in all places", signals.NodefsAvailable, storage(), everywhere, 133},
		{"dead layers and files of the kubelet", signals.NodefsAvailable, with(signals.NodefsAvailable, 5, unranked), everywhere, 47_005},
		{"dead layers on a disk of their own", signals.ImagefsAvailable, with(signals.NodefsAvailable, 5, unranked), signals.Rootfs, 40_005},
		{"files of the kubelet beside layers on another disk", signals.NodefsAvailable, with(signals.NodefsAvailable, 5, unranked), signals.Logs | signals.LocalVolumes, 7000},
		{"inodes of dead layers", signals.ContainerfsInodesFree, with(signals.NodefsAvailable, 5, unranked), signals.Rootfs, 400_005},
		{"no disk usage for memory", signals.MemoryAvailable, with(signals.MemoryAvailable, 5, unranked), 0, 5},
		{"dead layer that is not reported", signals.NodefsAvailable, with(signals.NodefsAvailable, 5, func(c *signals.Candidate) { c.Usage.OtherLayers.Incomplete = "not reported" }), everywhere, -1},
		{"dead layer that is not reported, on another disk", signals.NodefsAvailable, with(signals.NodefsAvailable, 5, func(c *signals.Candidate) { c.Usage.OtherLayers.Incomplete = "not reported" }), signals.Logs | signals.LocalVolumes, 0},
		{"layers on a disk of their own", signals.ImagefsAvailable, storage(), signals.Rootfs, 3},
		{"images, which no pod holds", signals.ImagefsAvailable, storage(), 0, 0},
		{"inodes", signals.NodefsInodesFree, storage(), signals.Logs | signals.LocalVolumes, 1100},
		{"measured incompletely", signals.NodefsAvailable, with(signals.NodefsAvailable, 5, func(c *signals.Candidate) { c.Usage.Containers[0].Rootfs.Incomplete = "cut" }), everywhere, -1},
		{"incomplete in a place that does not count", signals.NodefsAvailable, with(signals.NodefsAvailable, 5, func(c *signals.Candidate) { c.Usage.Containers[0].Rootfs.Incomplete = "cut" }), signals.Logs, 0},
		{"processes", signals.PIDAvailable, with(signals.PIDAvailable, 12, nil), 0, 12},
		{"threads", signals.PIDAvailable, with(signals.PIDAvailable, 2, func(c *signals.Candidate) { c.Usage.Tasks = signals.Of[signals.PIDs](600) }), 0, 600},
	} {
		t.Run(tc.about, func(t *testing.T) {
			ranked := ranking.Rank([]signals.Candidate{tc.pod}, tc.signal, tc.measure)
			r, together := ranked[0].Relief, tc.want
			if tc.want < 0 {
				if together = math.MaxInt64; !r.Covers(math.MaxInt64) {
					t.Error("does not free any amount")
				}
			} else if !r.Covers(tc.want) || r.Covers(tc.want+1) {
				t.Errorf("%+v does not free exactly %d", r, tc.want)
			}
			if got := ranking.TotalRelief(ranked); got != together {
				t.Errorf("frees %d together, want %d", got, together)
			}
			if got := ranking.ReliefOf(tc.pod, tc.signal, tc.measure); got != r {
				t.Errorf("without a ranking: %+v, want %+v", got, r)
			}
		})
	}
}

// What pods are not ranked by changes neither the order nor a reason.
func TestRank_IgnoresUnrankedUsage(t *testing.T) {
	for _, s := range []signals.Signal{signals.MemoryAvailable, signals.NodefsAvailable, signals.NodefsInodesFree, signals.PIDAvailable} {
		small, large := pod{name: "small", used: 5}.candidate(s), pod{name: "large", used: 10}.candidate(s)
		plain := ranking.Rank([]signals.Candidate{small, large}, s, everywhere)
		unranked(&small)
		small.Usage.OtherLayers.Incomplete, small.Usage.OtherLayers.Uncountable = "not reported", true
		small.Usage.MemoryRelief, large.Usage.MemoryRelief = signals.Of[signals.Bytes](900), signals.Of[signals.Bytes](1)
		for i, r := range ranking.Rank([]signals.Candidate{small, large}, s, everywhere) {
			if r.Key != plain[i].Key || r.Pod.Name != plain[i].Pod.Name {
				t.Errorf("%s: place %d: %s %+v, want %s %+v", s, i, r.Pod.Name, r.Key, plain[i].Pod.Name, plain[i].Key)
			}
		}
	}
}

func TestRelief_KnownIfAnyPartWasMeasured(t *testing.T) {
	for s, known := range map[signals.Signal]*signals.Usage{
		signals.MemoryAvailable: {MemoryRelief: signals.Of[signals.Bytes](1)},
		signals.PIDAvailable:    {Tasks: signals.Of[signals.PIDs](1)},
	} {
		for u, want := range map[*signals.Usage]bool{nil: false, {}: false, known: true} {
			if got := ranking.ReliefOf(signals.Candidate{Pod: &signals.Pod{}, Usage: u}, s, 0); got.Known != want {
				t.Errorf("%s: %+v: %+v", s, u, got)
			}
		}
	}
}

func TestRelief_OfUnprotectedPodsOnly(t *testing.T) {
	pods := []signals.Candidate{pod{name: "a", used: 5}.candidate(signals.MemoryAvailable), pod{name: "b", noStats: true}.candidate(signals.MemoryAvailable)}
	for p := signals.Static; p <= signals.Own; p++ {
		c := pod{name: fmt.Sprint(p), used: 1000}.candidate(signals.MemoryAvailable)
		c.Pod.Protection = p
		pods = append(pods, c)
	}
	if got := ranking.TotalRelief(ranking.Rank(pods, signals.MemoryAvailable, 0)); got != 5 {
		t.Errorf("got %d, want 5", got)
	}
	large := pod{name: "c", used: math.MaxInt64}.candidate(signals.MemoryAvailable)
	if got := ranking.TotalRelief(ranking.Rank(append(pods, large), signals.MemoryAvailable, 0)); got != math.MaxInt64 {
		t.Errorf("got %d, want the maximum: the sum overflows", got)
	}
}

// filter counts the pods that free an amount, as a choice does in which none helps.
func filter(ranked []ranking.Ranked, least signals.Amount) (n int) {
	if ranking.TotalRelief(ranked) < least {
		return 0
	}
	for i := range ranked {
		if ranked[i].Relief.Covers(least) {
			n++
		}
	}
	return n
}

func TestBehindCache_MarksPodsBehindTheReader(t *testing.T) {
	const shortage, least = 40, 2
	type p struct{ used, frees int64 }
	for _, tc := range []struct {
		about string
		pods  []p
		inUse signals.Amount
		want  string // the reader, and the amount for each pod
	}{
		{"page cache that is the shortage", []p{{100, 1}, {90, 90}, {80, 80}}, 300, "a [0 99 99]"},
		{"a pod before the reader", []p{{110, 110}, {100, 1}, {80, 80}}, 300, "b [0 0 99]"},
		{"two readers: the first counts", []p{{100, 1}, {60, 1}, {50, 50}}, 300, "a [0 99 99]"},
		{"no pod behind the reader", []p{{110, 110}, {100, 1}}, 300, " [0 0]"},
		{"exactly the shortage", []p{{41, 1}, {30, 30}}, 300, "a [0 40]"},
		{"less than the shortage", []p{{40, 1}, {30, 30}}, 300, " [0 0]"},
		{"reclaimable slab beside page cache", []p{{5000, 1}, {80, 80}}, 60, "a [0 60]"},
		{"reclaimable slab alone", []p{{5000, 1}, {80, 80}}, 39, " [0 0]"},
		{"page cache that does not cover the shortage", []p{{100, 1}, {80, 80}}, 0, " [0 0]"},
		{"a reader that helps", []p{{100, 2}, {80, 80}}, 300, " [0 0]"},
		{"a pod that frees more than the older figure of the ranking", []p{{100, 150}, {80, 80}}, 300, " [0 0]"},
	} {
		var candidates []signals.Candidate
		for i, p := range tc.pods {
			c := pod{name: string(rune('a' + i)), used: p.used}.candidate(signals.MemoryAvailable)
			c.Usage.MemoryRelief = signals.Of(signals.Bytes(p.frees))
			candidates = append(candidates, c)
		}
		ranked := ranking.Rank(candidates, signals.MemoryAvailable, 0)
		name, marks := "", []signals.Amount{}
		of, amount := ranking.BehindCache(ranked, shortage, least, tc.inUse)
		for i := range ranked {
			marks = append(marks, ranked[i].Behind)
		}
		if of != nil {
			name = of.Name
		}
		if got := fmt.Sprint(name, " ", marks); got != tc.want || amount != slices.Max(marks) {
			t.Errorf("%s: got %s, amount %d, want %s", tc.about, got, amount, tc.want)
		}
		for i := range ranked {
			ranked[i].Key.Protection = signals.Critical
		}
		if of, _ := ranking.BehindCache(ranked, shortage, least, tc.inUse); of != nil {
			t.Errorf("%s: a protected reader counts", tc.about)
		}
	}
}

func TestRelief_DoesNotAllocate(t *testing.T) {
	ranked := ranking.Rank(randomNode(500), signals.NodefsAvailable, everywhere)
	if n := testing.AllocsPerRun(100, func() { filter(ranked, 1<<30) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkRelief measures the filter between ranking and eviction.
func BenchmarkRelief(b *testing.B) {
	for _, n := range []int{110, 500, 5000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			ranked := ranking.Rank(randomNode(n), signals.NodefsAvailable, everywhere)
			b.ReportAllocs()
			for b.Loop() {
				filter(ranked, 1<<30)
			}
		})
	}
}
