package gc

import (
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/cri"
)

func imageID(i cri.Image) string { return i.ID }

// before returns a sighting by the times before start. A negative value of used means never.
func before(first, used time.Duration) sighting {
	s := sighting{first: start.Add(-first)}
	if used >= 0 {
		s.used = start.Add(-used)
	}
	return s
}

const neverUsed = time.Duration(-1)

func TestUnusedImages_SelectsAndOrders(t *testing.T) {
	const h, ttl = time.Hour, 2 * time.Minute
	img := func(id string) cri.Image { return cri.Image{ID: id, Size: 1 << 20} }
	for name, tc := range map[string]struct {
		images []cri.Image
		used   names
		seen   sightings
		want   []string
	}{
		"order by last use, never used first": {
			[]cri.Image{img("used lately"), img("used once"), img("never")}, nil,
			sightings{"used lately": before(9*h, h), "used once": before(h, 3*h), "never": before(h, neverUsed)}, []string{"never", "used once", "used lately"}},
		"equal last use: order by first seen": {
			[]cri.Image{img("b"), img("a")}, nil, sightings{"a": before(2*h, h), "b": before(3*h, h)}, []string{"b", "a"}},
		"never used: order by first seen": {
			[]cri.Image{img("b"), img("a")}, nil, sightings{"a": before(2*h, neverUsed), "b": before(3*h, neverUsed)}, []string{"b", "a"}},
		"equal times: order by size, then ID": {
			[]cri.Image{img("c"), {ID: "large", Size: 1 << 30}, img("a")}, nil,
			sightings{"c": before(h, neverUsed), "a": before(h, neverUsed), "large": before(h, neverUsed)}, []string{"large", "a", "c"}},
		"in use by ID":     {[]cri.Image{img("a")}, names{"a": true}, sightings{"a": before(h, h)}, nil},
		"in use by tag":    {[]cri.Image{{ID: "a", Tags: []string{"x:1", "y:1"}}}, names{"y:1": true}, sightings{"a": before(h, h)}, nil},
		"in use by digest": {[]cri.Image{{ID: "a", Digests: []string{"x@sha256:1"}}}, names{"x@sha256:1": true}, sightings{"a": before(h, h)}, nil},
		"another image's tag in use": {
			[]cri.Image{{ID: "a", Tags: []string{"x:1"}}}, names{"x:2": true, "": true}, sightings{"a": before(h, h)}, []string{"a"}},
		"pinned":          {[]cri.Image{{ID: "a", Pinned: true}}, nil, sightings{"a": before(h, neverUsed)}, nil},
		"just pulled":     {[]cri.Image{img("a"), img("b")}, nil, sightings{"a": before(ttl-1, neverUsed), "b": before(ttl, neverUsed)}, []string{"b"}},
		"not seen before": {[]cri.Image{img("a")}, nil, sightings{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := ids(unusedImages(tc.images, tc.used, tc.seen, ttl, start), imageID)
			if !slices.Equal(got, append([]string{}, tc.want...)) {
				t.Errorf("got removals %v, want %v", got, tc.want)
			}
		})
	}
}

func TestSightings_RecordsFirstSeenAndLastUsed(t *testing.T) {
	s := sightings{}
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	list := func(minute int, used names, present ...string) {
		var images []cri.Image
		for _, id := range present {
			images = append(images, cri.Image{ID: id})
		}
		s.note(images, used, at(minute))
	}
	for _, step := range []struct {
		do   func()
		want sightings
	}{
		{func() { list(0, names{"a": true}, "a", "b") }, sightings{"a": {at(0), at(0)}, "b": {first: at(0)}}},                           // present at the start
		{func() { list(1, names{"a": true}, "a", "b", "c") }, sightings{"a": {at(0), at(1)}, "b": {first: at(0)}, "c": {first: at(1)}}}, // pulled
		{func() { list(2, names{"c": true}, "a", "b", "c") }, sightings{"a": {at(0), at(1)}, "b": {first: at(0)}, "c": {at(1), at(2)}}}, // stopped, started
		{func() { list(3, nil, "a", "c") }, sightings{"a": {at(0), at(1)}, "c": {at(1), at(2)}}},                                        // removed
		{func() { list(4, nil, "a", "b", "c") }, sightings{"a": {at(0), at(1)}, "b": {first: at(4)}, "c": {at(1), at(2)}}},              // pulled again
		{func() { list(5, names{"a": true, "b": true, "c": true}, "b") }, sightings{"b": {at(4), at(5)}}},                               // used for the first time
		{func() { list(6, nil) }, sightings{}},
	} {
		if step.do(); !reflect.DeepEqual(s, step.want) {
			t.Fatalf("got sightings %v, want %v", s, step.want)
		}
	}
}

func TestSplitByAge_SeparatesImagesBeyondAge(t *testing.T) {
	const h = time.Hour
	seen := sightings{"used": before(9*h, h), "unused": before(9*h, 3*h), "just unused": before(9*h, 2*h), "never": before(3*h, neverUsed), "pulled": before(h, neverUsed), "clock": before(h, 5*h)}
	all := []cri.Image{{ID: "used"}, {ID: "unused"}, {ID: "just unused"}, {ID: "never"}, {ID: "pulled"}, {ID: "clock"}}
	old, rest := splitByAge(all, seen, 2*h, start)
	if got, want := ids(old, imageID), []string{"unused", "never"}; !slices.Equal(got, want) {
		t.Errorf("got too old %v, want %v", got, want)
	}
	if got, want := ids(rest, imageID), []string{"used", "just unused", "pulled", "clock"}; !slices.Equal(got, want) {
		t.Errorf("got the rest %v, want %v", got, want)
	}
	if old, rest := splitByAge(all, seen, 0, start); len(old) > 0 || len(rest) != len(all) {
		t.Errorf("without a maximum age: got too old %v, want none", ids(old, imageID))
	}
}

func TestUsedPercent_RoundsLikeKubelet(t *testing.T) {
	for _, tc := range []struct {
		available, capacity int64
		used                int
	}{
		{100, 100, 0}, {0, 100, 100}, {15, 100, 85}, {159, 1000, 85}, {160, 1000, 84}, {9, 1000, 100}, {10, 1000, 99},
		{200, 100, 0}, {math.MaxInt64, math.MaxInt64, 0}, {math.MaxInt64, 1, 0}, {1, math.MaxInt64, 100},
	} {
		if got := usedPercent(tc.available, tc.capacity); got != tc.used {
			t.Errorf("%d available of %d: got %d%% used, want %d%%", tc.available, tc.capacity, got, tc.used)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		capacity, percent := 1+r.Int64N(math.MaxInt64)>>r.IntN(62), r.IntN(101)
		want := new(big.Int).Mul(big.NewInt(capacity), big.NewInt(int64(percent)))
		if got := share(capacity, percent); got != want.Div(want, big.NewInt(100)).Int64() {
			t.Fatalf("%d%% of %d: got %d, want %v", percent, capacity, got, want)
		}
		// With 100 - percent available, percent is in use, or more by the rounding only.
		if used := usedPercent(share(capacity, 100-percent), capacity); used < percent || capacity >= 100 && used > percent+1 {
			t.Fatalf("with %d%% of %d available: got %d%% used", 100-percent, capacity, used)
		}
	}
}
