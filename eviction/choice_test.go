package eviction_test

import (
	"math"
	"testing"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// needs compiles a policy with one threshold and returns its need.
func needs(t *testing.T, choice eviction.Choice, threshold eviction.Threshold, available, capacity signals.Amount) eviction.Need {
	t.Helper()
	p := compile(t, eviction.Settings{Thresholds: []eviction.Threshold{threshold}, Choice: choice})
	o := signals.Observed(available, capacity, epoch)
	return p.NeedFor(&p.Thresholds[0], &o)
}

// Page cache counts if it covers the shortage: the node has enough memory without it.
func TestNeedFor_PageCache(t *testing.T) {
	const mi = 1 << 20
	for cache, want := range map[signals.Amount]signals.Amount{0: 0, 40*mi - 1: 0, 40 * mi: 40 * mi, 300 * mi: 300 * mi} {
		p := compile(t, eviction.Settings{Thresholds: []eviction.Threshold{hard("memory", "100Mi")}})
		o := signals.Observed(60*mi, 4<<30, epoch)
		o.Cache = cache
		if n := p.NeedFor(&p.Thresholds[0], &o); n.Cache != want || n.Least != 2*mi {
			t.Errorf("page cache %d: need %+v, want %d of it", cache, n, want)
		}
	}
}

func TestNeedFor_EachPartOfRule(t *testing.T) {
	const mi = 1 << 20
	for _, tc := range []struct {
		about               string
		threshold           eviction.Threshold
		available, capacity signals.Amount
		shortage, least     signals.Amount
	}{
		{"a twentieth of the shortage", hard("memory", "500Mi"), 100 * mi, 4 << 30, 400 * mi, 20 * mi},
		{"a twentieth that is no whole number", hard("memory", "500Mi"), 100*mi - 1, 4 << 30, 400*mi + 1, 20*mi + 1},
		{"a twentieth equal to the floor", hard("memory", "100Mi"), 80 * mi, 4 << 30, 20 * mi, mi},
		{"floor of bytes", hard("memory", "100Mi"), 90 * mi, 4 << 30, 10 * mi, mi},
		{"shortage equal to the floor", hard("memory", "100Mi"), 99 * mi, 4 << 30, mi, mi},
		{"shortage below the floor", hard("memory", "100Mi"), 100*mi - 1, 4 << 30, 1, 1},
		{"minimum reclaim", reclaiming(hard("memory", "100Mi"), "300Mi"), 100*mi - 1, 4 << 30, 300*mi + 1, 15*mi + 1},
		{"minimum reclaim as a percentage", reclaiming(hard("nodefs", "10%"), "5%"), 9 * mi, 100 * mi, 6 * mi, mi},
		{"percentage, truncated as in the kubelet", hard("nodefs", "10%"), 0, 15, 1, 1},
		{"met by minimum reclaim only", reclaiming(hard("memory", "100Mi"), "100Mi"), 160 * mi, 4 << 30, 40 * mi, 2 * mi},
		{"nothing missing", hard("memory", "100Mi"), 100 * mi, 4 << 30, 0, 0},
		{"more than enough, for another threshold", hard("nodefs", "100Mi"), 300 * mi, 4 << 30, -200 * mi, -200 * mi},
		{"negative available amount", hard("allocatable", "100Mi"), -20 * mi, 4 << 30, 120 * mi, 6 * mi},
		{"soft threshold", soft("memory", "1Gi", 1), 512 * mi, 4 << 30, 512 * mi, (512*mi + 19) / 20},
		{"inodes", hard("inodes", "1000"), 0, 5000, 1000, 50},
		{"floor of inodes", hard("imageinodes", "10"), 5, 5000, 5, 1},
		{"PIDs", hard("pids", "150"), 100, 5000, 50, 3},
		{"floor of PIDs", hard("pids", "100"), 81, 5000, 19, 1},
		{"largest quantity", hard("memory", "8E"), -2e18, math.MaxInt64, math.MaxInt64, math.MaxInt64/20 + 1},
	} {
		t.Run(tc.about, func(t *testing.T) {
			got := needs(t, eviction.Helps, tc.threshold, tc.available, tc.capacity)
			want := eviction.Need{Shortage: tc.shortage, Least: tc.least}
			if tc.threshold.Signal.Definition().Condition == signals.DiskPressure {
				want.Together = tc.shortage
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if got := needs(t, eviction.AsKubelet, tc.threshold, tc.available, tc.capacity); got != (eviction.Need{}) {
				t.Errorf("got %+v with the kubelet's choice, want none", got)
			}
		})
	}
}

func TestLeastGrowth_EachPartOfRule(t *testing.T) {
	const mi = 1 << 20
	for _, tc := range []struct {
		about  string
		signal signals.Signal
		growth eviction.Growth
		want   signals.Amount
	}{
		{"a pod alone", signals.MemoryAvailable, eviction.Growth{Fell: 40 * mi, Together: 40 * mi, Largest: 40 * mi}, 2 * mi},
		{"many pods that grow together", signals.MemoryAvailable, eviction.Growth{Fell: 40 * mi, Together: 40 * mi, Largest: mi}, mi/20 + 1},
		{"half of it outside of pods", signals.MemoryAvailable, eviction.Growth{Fell: 40 * mi, Together: 20 * mi, Largest: 20 * mi}, mi},
		{"more than half of it outside of pods", signals.MemoryAvailable, eviction.Growth{Fell: 40 * mi, Together: 20*mi - 1, Largest: 20*mi - 1}, 0},
		{"pods replace page cache", signals.MemoryAvailable, eviction.Growth{Fell: 2 * mi, Together: 40 * mi, Largest: 40 * mi}, 2 * mi},
		{"the least that falls", signals.NodefsAvailable, eviction.Growth{Fell: mi, Together: mi, Largest: mi}, mi/20 + 1},
		{"nearly nothing fell", signals.NodefsAvailable, eviction.Growth{Fell: mi - 1, Together: 40 * mi, Largest: 40 * mi}, 0},
		{"more is available", signals.AllocatableMemoryAvailable, eviction.Growth{Fell: -mi, Together: mi, Largest: mi}, 0},
		{"inodes", signals.NodefsInodesFree, eviction.Growth{Fell: 1, Together: 1, Largest: 1}, 1},
		{"PIDs", signals.PIDAvailable, eviction.Growth{Fell: 50, Together: 50, Largest: 50}, 3},
		{"no pod grew", signals.PIDAvailable, eviction.Growth{}, 0},
		{"largest amounts", signals.NodefsInodesFree, eviction.Growth{Fell: math.MaxInt64, Together: math.MaxInt64, Largest: math.MaxInt64}, math.MaxInt64/20 + 1},
	} {
		p := compile(t, eviction.Settings{Choice: eviction.Helps})
		if got := p.LeastGrowth(tc.signal, tc.growth); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.about, got, tc.want)
		}
		if got := compile(t, eviction.Settings{Choice: eviction.AsKubelet}).LeastGrowth(tc.signal, tc.growth); got != 0 {
			t.Errorf("%s: got %d with the kubelet's choice, want 0", tc.about, got)
		}
		if n := testing.AllocsPerRun(10, func() { p.LeastGrowth(tc.signal, tc.growth) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func TestParseChoice(t *testing.T) {
	for _, c := range []eviction.Choice{eviction.Helps, eviction.AsKubelet} {
		if got, err := eviction.ParseChoice(c.String()); got != c || err != nil {
			t.Errorf("%s: got %s, %v", c, got, err)
		}
	}
	if _, err := eviction.ParseChoice("Helps"); err == nil {
		t.Error("an unknown name was accepted")
	}
}

func TestNeedFor_DoesNotAllocate(t *testing.T) {
	p := compile(t, everything())
	o := signals.Observed(10, 1000, epoch)
	if n := testing.AllocsPerRun(100, func() {
		for i := range p.Thresholds {
			p.NeedFor(&p.Thresholds[i], &o)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
