package screen_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"plimsoll.dev/plimsoll/internal/document"
	"plimsoll.dev/plimsoll/internal/live"
	"plimsoll.dev/plimsoll/internal/live/screen"
	"plimsoll.dev/plimsoll/test/harness/generated"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	mib = int64(1 << 20)
	gib = int64(1 << 30)
)

func ptr[T any](v T) *T { return &v }

// signal returns a signal with its threshold.
func signal(name, kind string, available, at, capacity int64) live.Signal {
	return live.Signal{Signal: name, Kind: kind, Configured: name, Available: &available, At: &at, Capacity: &capacity, Margin: ptr(available - at), Below: available < at}
}

// state is a node near a soft threshold.
func state() *live.State {
	memory, soft := signal("memory.available", "hard", 243*mib, 100*mib, 8*gib), signal("memory.available", "soft", 243*mib, 300*mib, 8*gib)
	for _, s := range []*live.Signal{&memory, &soft} {
		s.Rate, s.Exhaustion = ptr(12*mib), ptr(20_250.0)
	}
	nodefs := signal("nodefs.available", "hard", 40*gib, 10*gib, 100*gib)
	nodefs.Rate = ptr(-3 * mib)
	s := &live.State{
		Header: document.NewHeader("NodeState"), Node: "node-7", Version: "0.3.0", Arming: "armed", Time: noon, Conditions: []string{},
		Check: &live.Check{Time: noon.Add(-3 * time.Second), Kind: "periodic", Interval: 25, NextPeriodic: noon.Add(7 * time.Second)},
		Signals: []live.Signal{memory, soft, signal("allocatableMemory.available", "hard", 543*mib, 100*mib, 7*gib), nodefs,
			{Signal: "nodefs.inodesFree", Kind: "hard", Unknown: "statfs: I/O error"}, signal("imagefs.available", "hard", 15*gib, 15*gib, 100*gib), signal("pid.available", "hard", 31_999, 300, 32_768)},
		Next: &live.Next{Signal: "memory.available", Configured: "memory.available<300Mi for 1m0s", Met: true, InGrace: true, Pod: "shop/cart-6d5f9-x2k4p", Reason: "uses 812Mi, 556Mi above its request, priority 0",
			Instead: "not shop/web-7d4b9c instead: shop/cart-6d5f9-x2k4p is further above its request: by 556Mi, and shop/web-7d4b9c by 100Mi",
			Ranking: []live.Place{{Place: 1, Pod: "batch/tiny", Reason: "uses 2Mi, 2Mi above its request, priority -5, passed over: too small to help", Passed: true}, {Place: 2, Pod: "shop/cart-6d5f9-x2k4p", Reason: "r"}, {Place: 3, Pod: "shop/web-7d4b9c", Reason: "r"}}},
		Measured: noon.Add(-2 * time.Second), PodCount: 40,
		Decisions: []live.Decision{
			{Time: noon.Add(-3 * time.Second), Decision: "pending", Subject: "memory.available<300Mi for 1m0s", Reason: "memory.available<300Mi for 1m0s: in grace period, available 243Mi, met for 20s of 1m0s"},
			{Time: noon.Add(-time.Hour), Decision: "evict", Pod: "shop/cart-6d5f9-old", Subject: "memory.available<100Mi", Reason: "memory.available<100Mi: met, available 61Mi"},
			{Time: noon.Add(-2 * time.Hour), Decision: "armed", Reason: "the ConfigMap is set to armed"},
		},
	}
	for i := range 40 {
		p := live.Pod{Pod: fmt.Sprintf("shop/web-7d4b9c-%02d", i), Memory: ptr(int64(400-10*i) * mib), Request: 128 * mib, Growth: ptr(int64(i) * 1000), Priority: int32(i % 3)}
		switch i {
		case 0:
			p = live.Pod{Pod: "shop/cart-6d5f9-x2k4p", Memory: ptr(812 * mib), Request: 256 * mib, Growth: ptr(4 * mib)}
		case 1:
			p = live.Pod{Pod: "kube-system/a-static-pod-with-a-name-that-is-longer-than-a-column-of-the-table", Memory: ptr(500 * mib), Priority: 2_000_001_000, Protection: "static pod"}
		case 39:
			p.Memory, p.Growth = nil, nil
		}
		s.Pods = append(s.Pods, p)
	}
	return s
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	generated.CompareFile(t, filepath.Join("testdata", name+".golden"), *update, got)
}

// pressed is a node under pressure with many notes.
func pressed() *live.State {
	s := state()
	s.Conditions, s.Arming = []string{"MemoryPressure"}, ""
	s.Signals[0] = signal("memory.available", "hard", 61*mib, 100*mib, 8*gib)
	s.Notes = []string{"3 checks or decisions were not recorded: the disk is full or too slow."}
	s.Next = &live.Next{Configured: "memory.available<100Mi", Met: true, Reason: "each pod is protected, or too small to help", Ranking: []live.Place{{Place: 1, Pod: "batch/tiny", Reason: "uses 2Mi, passed over: too small to help", Passed: true}}}
	s.Decisions = nil
	return s
}

func TestText_Golden(t *testing.T) {
	for _, size := range [][2]int{{40, 24}, {40, 60}, {80, 24}, {80, 50}, {120, 24}, {120, 60}, {200, 24}} {
		s := screen.Screen{State: state(), Width: size[0], Height: size[1], Keys: true}
		compare(t, fmt.Sprintf("state-%dx%d", size[0], size[1]), s.Text())
	}
	for name, s := range map[string]screen.Screen{
		"text":         {State: state(), Width: 120},
		"text-pressed": {State: pressed(), Width: 120},
		"colour":       {State: pressed(), Width: 80, Height: 30, Keys: true, Colour: true},
		"lost":         {State: state(), Width: 80, Height: 24, Keys: true, Message: "Connection lost 12s ago, next attempt in 4s, the state is 14s old: no route to host"},
		"scrolled":     {State: state(), Width: 80, Height: 40, Keys: true, Sort: screen.AboveRequest, Offset: 5},
		"end":          {State: state(), Width: 80, Height: 40, Keys: true, Sort: screen.ByName, Offset: 1000},
		"help":         {State: state(), Width: 80, Height: 24, Keys: true, Help: true},
		"waiting":      {Width: 80, Height: 5, Keys: true},
		"empty":        {State: &live.State{}, Width: 80, Height: 24, Keys: true},
	} {
		compare(t, name, s.Text())
	}
}

// In any size, no line is wider and no text is higher than the terminal, and the last line has the keys.
func TestText_FitsAnySize(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		s := screen.Screen{State: []*live.State{state(), pressed(), {}, nil}[r.IntN(4)], Width: 20 + r.IntN(200), Height: 1 + r.IntN(80), Keys: true,
			Sort: screen.Sort(r.IntN(4)), Offset: r.IntN(50), Help: r.IntN(5) == 0}
		if r.IntN(3) == 0 {
			s.Message = strings.Repeat("lost ", 40)
		}
		text := s.Text()
		lines := strings.Split(text, "\n")
		if len(lines) != s.Height {
			t.Fatalf("seed %d: %d lines in a height of %d, width %d:\n%s", seed, len(lines), s.Height, s.Width, text)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > s.Width || strings.HasSuffix(line, " ") || strings.Contains(line, "\x1b") {
				t.Fatalf("seed %d: %d columns in a width of %d: %q", seed, n, s.Width, line)
			}
		}
	}
}

// Numbers of a hostile agent make no text wider, and end no program.
func TestText_OfExtremeNumbers(t *testing.T) {
	for _, n := range []int64{0, 1, -1, 1<<63 - 1, -1 << 63} {
		for _, m := range []int64{0, 1, -1, 1<<63 - 1, -1 << 63} {
			s := state()
			s.Signals = []live.Signal{{Signal: "memory.available", Kind: "hard", Available: &n, At: &m, Capacity: &m, Margin: &n, Rate: &n, Exhaustion: ptr(1e308)}}
			s.Pods = []live.Pod{{Pod: "a", Memory: &n, Request: m, Growth: &n, Priority: -1 << 31}, {Pod: "b", Memory: &m, Request: n}}
			s.Check.Interval, s.Check.NextPeriodic, s.PodCount = -1e300, time.Time{}, 1<<62
			s.Time = time.Unix(n>>20, 0)
			for _, width := range []int{0, 20, 40, 80, 200} {
				for sort := range screen.Sort(4) {
					v := screen.Screen{State: s, Width: width, Height: 24, Sort: sort}
					if got := strings.Count(v.Text(), "\n"); got != 23 {
						t.Errorf("%d and %d: %d lines", n, m, got+1)
					}
				}
			}
		}
	}
}

// The decrease of a hostile agent is shown with the sign of its opposite.
func TestText_OfExtremeRate(t *testing.T) {
	s := state()
	s.Signals[0].Rate = ptr[int64](-1 << 63)
	if v := (screen.Screen{State: s, Width: 120}); !strings.Contains(v.Text(), " +8Ei/s") {
		t.Error(v.Text())
	}
}

func TestText_OverdueCheck(t *testing.T) {
	for _, tc := range []struct {
		late time.Duration
		want string
	}{
		{-7 * time.Second, "periodic check 3s ago, the next within 25ms, a periodic one in 7s\n"},
		{time.Second, "periodic check 3s ago, the next within 25ms, a periodic one in 0s\n"},
		{2 * time.Second, "periodic check 3s ago, a periodic one overdue by 2s\n"},
		{time.Minute, "periodic check 3s ago, a periodic one overdue by 1m0s\n"},
	} {
		s := state()
		s.Check.NextPeriodic = s.Time.Add(-tc.late)
		if v := (screen.Screen{State: s, Width: 120}); !strings.Contains(v.Text(), tc.want) {
			t.Errorf("%s late, no %q in:\n%s", tc.late, tc.want, v.Text())
		}
	}
}

func TestSort_IsACycle(t *testing.T) {
	seen, s := map[string]bool{}, screen.ByMemory
	for range 4 {
		seen[s.String()] = true
		s = s.Next()
	}
	if len(seen) != 4 || s != screen.ByMemory {
		t.Errorf("%v, then %s", seen, s)
	}
}
