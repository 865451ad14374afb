package ranking_test

import (
	"fmt"
	"math"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

func TestFrees_CountsWhatIsRanked(t *testing.T) {
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
		{"storage in all places", signals.NodefsAvailable, storage(), everywhere, 133},
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
			k, together := &ranked[0].Key, tc.want
			if tc.want < 0 {
				if together = math.MaxInt64; !k.Frees(math.MaxInt64) {
					t.Error("does not free any amount")
				}
			} else if !k.Frees(tc.want) || k.Frees(tc.want+1) {
				t.Errorf("%+v does not free exactly %d", k, tc.want)
			}
			if got := ranking.Relief(ranked); got != together {
				t.Errorf("frees %d together, want %d", got, together)
			}
		})
	}
}

func TestRelief_OfUnprotectedPodsOnly(t *testing.T) {
	pods := []signals.Candidate{pod{name: "a", used: 5}.candidate(signals.MemoryAvailable), pod{name: "b", noStats: true}.candidate(signals.MemoryAvailable)}
	for p := signals.Static; p <= signals.Own; p++ {
		c := pod{name: fmt.Sprint(p), used: 1000}.candidate(signals.MemoryAvailable)
		c.Pod.Protection = p
		pods = append(pods, c)
	}
	if got := ranking.Relief(ranking.Rank(pods, signals.MemoryAvailable, 0)); got != 5 {
		t.Errorf("got %d, want 5", got)
	}
	large := pod{name: "c", used: math.MaxInt64}.candidate(signals.MemoryAvailable)
	if got := ranking.Relief(ranking.Rank(append(pods, large), signals.MemoryAvailable, 0)); got != math.MaxInt64 {
		t.Errorf("got %d, want the maximum: the sum overflows", got)
	}
}

// filter counts the pods that free an amount, as a choice does in which none helps.
func filter(ranked []ranking.Ranked, least signals.Amount) (n int) {
	if ranking.Relief(ranked) < least {
		return 0
	}
	for i := range ranked {
		if ranked[i].Key.Frees(least) {
			n++
		}
	}
	return n
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
