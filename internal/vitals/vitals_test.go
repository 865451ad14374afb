package vitals_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/vitals"
)

func TestReadings_RoundTrip(t *testing.T) {
	readings := []vitals.Reading{
		{Signal: signals.MemoryAvailable, Known: true, Available: 1288490188, Threshold: 104857600},
		{Signal: signals.MemoryAvailable, Known: true, Available: 1288490188, Threshold: 314572800, Soft: true},
		{Signal: signals.AllocatableMemoryAvailable, Known: true, Available: -5, Threshold: 104857600},
		{Signal: signals.NodefsAvailable},
		{Signal: signals.PIDAvailable, Known: true, Available: 31999, Threshold: 0},
	}
	const text = "memory.available=1288490188/104857600,memory.available=1288490188/314572800/soft," +
		"allocatableMemory.available=-5/104857600,nodefs.available=unknown,pid.available=31999/0"
	if got := vitals.FormatReadings(readings); got != text {
		t.Errorf("got  %s\nwant %s", got, text)
	}
	if got := vitals.ParseReadings(text); !slices.Equal(got, readings) {
		t.Errorf("got  %+v\nwant %+v", got, readings)
	}
	for i, below := range []bool{false, false, true, false, false} {
		if readings[i].Below() != below {
			t.Errorf("reading %d: below is %t", i, !below)
		}
	}
}

// The longest text is parsed: every signal, both thresholds, the largest amounts.
func TestReadings_LongestTextIsParsed(t *testing.T) {
	var all []vitals.Reading
	for s := range signals.All {
		for _, soft := range []bool{false, true} {
			all = append(all, vitals.Reading{Signal: s, Known: true, Available: -1 << 63, Threshold: 1<<63 - 1, Soft: soft})
		}
	}
	if got := vitals.ParseReadings(vitals.FormatReadings(all)); !slices.Equal(got, all) {
		t.Errorf("%d of %d readings", len(got), len(all))
	}
}

func TestParseReadings_SkipsUnknownForms(t *testing.T) {
	for text, want := range map[string]int{
		"":                                                     0,
		"memory.available":                                     0,
		"memory.available=":                                    0,
		"memory.available=5":                                   0,
		"memory.available=5/x":                                 0,
		"memory.available=x/5":                                 0,
		"memory.available=5/-1":                                0,
		"memory.available=5/6/hard":                            0,
		"memory.available=5/6/soft/x":                          0,
		"memory.available=99999999999999999999/1":              0,
		"cpu.available=5/6,memory.available=5/6":               1,
		strings.Repeat("pid.available=1/2,", 40):               vitals.MaxReadings,
		strings.Repeat("x", 1<<20) + ",memory.available=5/6":   0,
		"memory.available=5/6\x1b[2J,nodefs.available=unknown": 1,
	} {
		if got := vitals.ParseReadings(text); len(got) != want {
			t.Errorf("%.80q: %d readings, want %d", text, len(got), want)
		}
	}
}

func TestEviction_RoundTrip(t *testing.T) {
	e := vitals.Eviction{Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Pod: "shop/cart-1", Cause: "memory.available"}
	const text = "2026-03-01T12:00:00Z shop/cart-1 memory.available"
	if e.String() != text || (vitals.Eviction{}).String() != "" {
		t.Errorf("got %q and %q", e, vitals.Eviction{})
	}
	if got, ok := vitals.ParseEviction(text); !ok || !got.Time.Equal(e.Time) || got.Pod != e.Pod || got.Cause != e.Cause {
		t.Errorf("got %+v, %t", got, ok)
	}
	for _, text := range []string{"", "2026-03-01T12:00:00Z", "yesterday shop/cart-1 memory.available", "2026-03-01T12:00:00Z  memory.available",
		text + " more", text + strings.Repeat("x", 600), "0001-01-01T00:00:00Z a/b c"} {
		if got, ok := vitals.ParseEviction(text); ok || got != (vitals.Eviction{}) {
			t.Errorf("%.80q: got %+v", text, got)
		}
	}
}
