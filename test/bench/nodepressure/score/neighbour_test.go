package score

import (
	"math"
	"slices"
	"testing"
)

func TestIsolation_IsThatOfSeconds(t *testing.T) {
	steady := slices.Repeat([]float64{1}, 40)
	stall := slices.Clone(steady)
	stall[10], stall[11] = 0.2, 1.8 // 200 ms without answers, and then all at once
	for _, c := range []struct {
		name string
		n    Neighbour
		want float64
	}{
		{"steady", Neighbour{Slots: steady, SlotWidth: 250}, 100},
		{"a stall counts in the second that ends with it", Neighbour{Slots: stall, SlotWidth: 250}, 80},
		{"slots of unknown width are seconds", Neighbour{Slots: []float64{1, 0.4, 1.6}}, 40},
		{"less than a second", Neighbour{Slots: []float64{0.5, 1}, SlotWidth: 250}, 75},
		{"never answered", Neighbour{Slots: make([]float64, 8), SlotWidth: 250}, 0},
		{"nothing", Neighbour{SlotWidth: 250}, 0},
		{"a width without a meaning", Neighbour{Slots: steady, SlotWidth: 1e-300}, 100},
	} {
		if got := isolation(&c.n); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	// Only one second of two hundred is bad: the worst hundredth are two of them.
	long := slices.Repeat([]float64{1}, 200)
	long[100] = 0
	if got := isolation(&Neighbour{Slots: long}); got != 100 {
		t.Errorf("one of 200 seconds: got %v, want 100", got)
	}
}

func TestStandstill_IsTheLongest(t *testing.T) {
	for _, c := range []struct {
		slots []float64
		want  float64
	}{{nil, 0}, {[]float64{1, 1}, 0}, {[]float64{0, 1, 0, 0, 0, 1, 0}, 750}, {[]float64{1, 0, 0}, 500}} {
		if got := standstill(&Neighbour{Slots: c.slots, SlotWidth: 250}); got != c.want {
			t.Errorf("%v: got %v ms, want %v", c.slots, got, c.want)
		}
	}
}
