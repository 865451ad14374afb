package report

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/recording"
)

// A curve has the smallest and the largest value of each column, no value that was not added, and no more
// points than it may have.
func TestSeries_KeepsExtremes(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		s := series{span: time.Duration(1 + r.Int64N(int64(time.Hour)))}
		var least, most [columns]int64
		var known [columns]bool
		added := map[point]bool{}
		now := time.Duration(0)
		for range r.IntN(2000) {
			if r.IntN(50) == 0 {
				s.part++
			}
			value := r.Int64() >> r.IntN(63)
			if r.IntN(4) == 0 {
				value = -value
			}
			s.add(now, value)
			added[point{now, value, s.part}] = true
			n := columnOf(now, s.span, columns)
			if !known[n] {
				known[n], least[n], most[n] = true, value, value
			}
			least[n], most[n] = min(least[n], value), max(most[n], value)
			now = min(now+time.Duration(r.Int64N(int64(s.span)/500+1)), s.span)
		}
		var gotLeast, gotMost [columns]int64
		var gotKnown [columns]bool
		points, last := 0, point{at: -1}
		for _, part := range s.lines() {
			for i, p := range part {
				n := columnOf(p.at, s.span, columns)
				if !gotKnown[n] {
					gotKnown[n], gotLeast[n], gotMost[n] = true, p.value, p.value
				}
				gotLeast[n], gotMost[n] = min(gotLeast[n], p.value), max(gotMost[n], p.value)
				if points++; !added[p] || p.at < last.at || i > 0 && p.part != last.part {
					t.Fatalf("seed %d: point %+v behind %+v", seed, p, last)
				}
				last = p
			}
		}
		if gotKnown != known || gotLeast != least || gotMost != most || points > 2*columns {
			t.Fatalf("seed %d: %d points, or an extreme is missing", seed, points)
		}
		wantLeast, wantMost := int64(0), int64(0)
		for n, is := range known {
			if is {
				wantLeast, wantMost = min(wantLeast, least[n]), max(wantMost, most[n])
			}
		}
		if a, b, is := s.extremes(); is && (min(a.value, 0) != wantLeast || max(b.value, 0) != wantMost) || is != (len(added) > 0) {
			t.Fatalf("seed %d: extremes %d and %d, want %d and %d", seed, a.value, b.value, wantLeast, wantMost)
		}
	}
}

func TestSeries_BreaksOverGaps(t *testing.T) {
	s := series{span: 100 * time.Second}
	s.add(0, 5)
	s.add(10*time.Second, 6)
	s.part++
	s.add(50*time.Second, 7)
	s.part++ // within the same column
	s.add(50*time.Second+time.Millisecond, 1)
	if got := s.lines(); len(got) != 3 || len(got[0]) != 2 || got[1][0].value != 7 || got[2][0].value != 1 {
		t.Errorf("got %+v", got)
	}
}

// The memory of pods keeps the measurements with the smallest and the largest total of each column and the
// largest value of each pod, and combines nothing of several measurements.
func TestMemory_KeepsExtremes(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		names := make([]string, 1+r.IntN(2*maxLayers))
		for n := range names {
			names[n] = numbered("p", n)
		}
		values, totals := []any{check(0, 1<<30)}, map[int64]bool{}
		most := map[string]int64{}
		var leastTotal, mostTotal int64 = 1 << 62, 0
		n := 1 + r.IntN(400)
		for k := range n {
			u := usage(float64(k), 0)
			var total int64
			for _, name := range names {
				if r.IntN(3) > 0 {
					bytes := r.Int64N(1 << 34)
					u.Pods = append(u.Pods, used(podOf(name, 0), bytes, 0))
					total += bytes
					most["shop/"+name] = max(most["shop/"+name], bytes)
				}
			}
			values, totals[total] = append(values, u), true
			leastTotal, mostTotal = min(leastTotal, total), max(mostTotal, total)
		}
		m := read(t, recorded(t, header(), values...), Options{}).memory
		var least, largest int64 = 1 << 62, 0
		peaks, count, order := make([]int64, len(m.layers)), 0, 0
		for _, part := range m.samples() {
			for _, s := range part {
				if !totals[s.total] || s.through(len(s.values)-1) != s.total || s.order <= order {
					t.Fatalf("seed %d: measurement %+v was not made", seed, s)
				}
				for n, v := range s.values {
					peaks[n] = max(peaks[n], v)
				}
				least, largest, order = min(least, s.total), max(largest, s.total), s.order
				count++
			}
		}
		if least != leastTotal || largest != mostTotal || m.top() != mostTotal || count > 2*memoryColumns+maxLayers+1 {
			t.Fatalf("seed %d: totals from %d to %d, want %d to %d; %d measurements", seed, least, largest, leastTotal, mostTotal, count)
		}
		var sizes []int64
		for _, bytes := range most {
			sizes = append(sizes, bytes)
		}
		slices.Sort(sizes)
		slices.Reverse(sizes)
		for n, l := range m.layers[:len(m.layers)-1] {
			if l.most != sizes[n] || most[l.name] != l.most || peaks[n] != l.most {
				t.Fatalf("seed %d: the layer %s has %d, its measurements %d, want the %d. largest %d", seed, l.name, l.most, peaks[n], n+1, sizes[n])
			}
		}
	}
}

func TestMemory_UnknownIsNotZero(t *testing.T) {
	a := podOf("a", 0)
	m := read(t, recorded(t, header(), usage(0, 0, used(a, 5*mib, 0)), usage(1, 0, used(a, 7*mib, 0)), usage(2, 0, used(a, recording.Unknown, 0))), Options{}).memory
	if l := m.layers[0]; l.first != 5*mib || l.last != 7*mib || m.unknown != 1 {
		t.Errorf("%+v, %d unknown", l, m.unknown)
	}
}
