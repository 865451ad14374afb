package limiter_test

import (
	"math"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

// shares returns pods named a, b, c …; negative usage is unmeasured.
func shares(used ...signals.Amount) (list []limiter.Share) {
	for i, u := range used {
		list = append(list, limiter.Share{UID: string(rune('a' + i)), Used: max(u, 0), Known: u >= 0})
	}
	return list
}

func TestWhatMakesAnEvictionFutile(t *testing.T) {
	before := limiter.Sight{Left: 90, Total: 1000, Shares: shares(100, 200, 300)} // a ends, 310 are outside
	for _, tc := range []struct {
		about    string
		expected signals.Amount
		now      limiter.Sight
		want     bool
	}{
		{"all of it came back", 100, limiter.Sight{Left: 190, Total: 1000, Shares: shares(100, 200, 300)[1:]}, false},
		{"half of it", 100, limiter.Sight{Left: 140, Total: 1000, Shares: shares(100, 200, 300)[1:]}, false},
		{"less than half", 100, limiter.Sight{Left: 139, Total: 1000, Shares: shares(100, 200, 300)[1:]}, true},
		{"less than there was before", 100, limiter.Sight{Left: 10, Total: 1000, Shares: shares(100, 200, 300)[1:]}, true},
		{"another pod took it", 100, limiter.Sight{Left: 90, Total: 1000, Shares: shares(100, 300, 300)[1:]}, false},
		{"a new pod took it", 100, limiter.Sight{Left: 90, Total: 1000, Shares: append(shares(0, 200, 300)[1:], limiter.Share{UID: "new", Used: 100, Known: true})}, false},
		{"another pod ended, and what both held is there", 100, limiter.Sight{Left: 390, Total: 1000, Shares: shares(0, 200, 300)[2:]}, false},
		{"another pod ended, and outside took both", 100, limiter.Sight{Left: 90, Total: 1000, Shares: shares(0, 200, 300)[2:]}, true},
		{"its processes are still there", 100, limiter.Sight{Left: 90, Total: 1000, Shares: shares(100, 200, 300)}, false},
		{"a pod without measurement counts as unchanged", 100, limiter.Sight{Left: 90, Total: 1000, Shares: shares(0, -1, 300)[1:]}, true},
		{"a larger node", 100, limiter.Sight{Left: 1190, Total: 2000, Shares: shares(0, 200, 300)[1:]}, false},
		{"an odd half", 101, limiter.Sight{Left: 140, Total: 1000, Shares: shares(101, 200, 300)[1:]}, true},
		{"nothing was seen of the pod, and something is free", 0, limiter.Sight{Left: 191, Total: 1000, Shares: shares(0, 200, 300)[1:]}, false},
		{"absurd figures", 100, limiter.Sight{Left: math.MinInt64, Total: math.MaxInt64, Shares: shares(0, math.MaxInt64, math.MaxInt64)[1:]}, true},
	} {
		t.Run(tc.about, func(t *testing.T) {
			r := limiter.New(limiter.Policy{Futile: 1, FutileBackOff: time.Minute})
			kill := &limiter.Kill{Signal: signals.MemoryAvailable, UID: "a", Expected: tc.expected, Before: before}
			kill.Before.Shares = shares(max(tc.expected, 100), 200, 300)
			kill.Before.Total = before.Total + max(tc.expected, 100) - 100
			now := tc.now
			now.Total = now.Total.Plus(max(tc.expected, 100) - 100)
			r.Expect(kill)
			if r.Awaiting(signals.MemoryPressure) != kill || r.Awaiting(signals.DiskPressure) != nil {
				t.Fatal("what is asked for is not remembered")
			}
			hold := r.Judge(signals.MemoryPressure, at(0), &now)
			if got := hold.By == limiter.Ineffective; got != tc.want {
				t.Errorf("futile: %v", got)
			}
			if r.Awaiting(signals.MemoryPressure) != nil {
				t.Error("it is judged twice")
			}
		})
	}
}

// An eviction of a pod with unknown usage is ineffective if it freed nothing.
func TestAnEvictionOfWhichNothingWasExpected(t *testing.T) {
	for left, want := range map[signals.Amount]bool{89: true, 90: true, 91: false} {
		r := limiter.New(limiter.Policy{Futile: 1, FutileBackOff: time.Minute})
		r.Expect(&limiter.Kill{Signal: signals.PIDAvailable, UID: "a", Before: limiter.Sight{Left: 90, Total: 1000, Shares: shares(-1, 200)}})
		hold := r.Judge(signals.PIDPressure, at(0), &limiter.Sight{Left: left, Total: 1000, Shares: shares(0, 200)[1:]})
		if got := hold.By == limiter.Ineffective; got != want {
			t.Errorf("%d left: futile: %v", left, got)
		}
	}
}

// Two pods are evicted in quick succession, since one is not enough. Their memory is taken later.
// An effective eviction followed by an ineffective one is no sequence of two.
func TestWhatIsTakenIsBookedBackwards(t *testing.T) {
	for _, tc := range []struct {
		about string
		left  []signals.Amount // available when the first, the second, … of four pods of 100 each is judged; initially 90
		grow  []signals.Amount // growth of the last pod by then
		want  int              // number of evictions until they are ineffective; 0: not within three
	}{
		{"each for itself", []signals.Amount{90, 90, 90}, []signals.Amount{0, 0, 0}, 2},
		{"both together", []signals.Amount{190, 90, 90}, []signals.Amount{0, 0, 0}, 2},
		{"the second by more than it left", []signals.Amount{190, 139, 139}, []signals.Amount{0, 0, 0}, 2},
		{"the second, and not quite half of the first", []signals.Amount{190, 140, 140}, []signals.Amount{0, 0, 0}, 3},
		{"pods took what the second left, and nobody what the others did", []signals.Amount{90, 90, 190}, []signals.Amount{0, 100, 100}, 0},
		{"one that helped in between", []signals.Amount{90, 90, 90}, []signals.Amount{0, 100, 100}, 0},
		{"what is given back is there", []signals.Amount{10, 190, 190}, []signals.Amount{0, 0, 0}, 0},
	} {
		r := limiter.New(limiter.Policy{Futile: 2, FutileBackOff: time.Minute})
		sight := limiter.Sight{Left: 90, Total: 1000, Shares: shares(100, 100, 100, 100)}
		got := 0
		for i := 0; i < 3 && got == 0; i++ {
			r.Expect(&limiter.Kill{Signal: signals.MemoryAvailable, UID: sight.Shares[0].UID, Expected: 100, Before: sight})
			rest := shares(100, 100, 100, 100+tc.grow[i])[i+1:]
			sight = limiter.Sight{Left: tc.left[i], Total: 1000, Shares: rest}
			if r.Judge(signals.MemoryPressure, at(0), &sight).By == limiter.Ineffective {
				got = i + 1
			}
		}
		if got != tc.want {
			t.Errorf("%s: futile after %d, want %d", tc.about, got, tc.want)
		}
	}
}

// judged records an eviction and its judgement.
func judged(r *limiter.Limiter, now time.Time, futile bool) limiter.Limit {
	r.Expect(&limiter.Kill{Signal: signals.MemoryAvailable, UID: "a", Expected: 100, Before: limiter.Sight{Total: 1000, Shares: shares(100)}})
	left := signals.Amount(100)
	if futile {
		left = 0
	}
	return r.Judge(signals.MemoryPressure, now, &limiter.Sight{Left: left, Total: 1000})
}

func TestFutileHoldsDoubleUpToAnHour(t *testing.T) {
	r := limiter.New(limiter.Policy{Futile: 2, FutileBackOff: 5 * time.Minute})
	if hold := judged(r, at(0), true); hold != (limiter.Limit{}) {
		t.Fatalf("one is no row: %+v", hold)
	}
	now := start
	for i, want := range []time.Duration{5, 10, 20, 40, 60, 60, 60} {
		hold := judged(r, now, true)
		if got := hold.Until.Sub(now); got != want*time.Minute || hold.N != i+2 {
			t.Errorf("hold %d lasts %s, after %d", i, got, hold.N)
		}
		if r.Ineffective(signals.MemoryPressure, hold.Until.Add(-1)).By != limiter.Ineffective || r.Ineffective(signals.MemoryPressure, hold.Until).By != limiter.None {
			t.Errorf("hold %d does not end when it says", i)
		}
		if r.Ineffective(signals.DiskPressure, now).By != limiter.None {
			t.Error("disks are held for memory")
		}
		now = hold.Until
	}
	if judged(r, now, false).By != limiter.None || judged(r, now, true).By != limiter.None {
		t.Error("one that helped does not end the row")
	}
	if hold := judged(r, now, true); hold.Until.Sub(now) != time.Hour || hold.N != 2 {
		t.Errorf("under the same pressure the next row begins with %s", hold.Until.Sub(now))
	}
	if !r.Clear(signals.MemoryPressure) || r.Ineffective(signals.MemoryPressure, now).By != limiter.None || r.Clear(signals.MemoryPressure) {
		t.Error("pressure that is over holds on")
	}
	judged(r, now, true)
	if hold := judged(r, now, true); hold.Until.Sub(now) != 5*time.Minute {
		t.Errorf("under the next one it begins with %s", hold.Until.Sub(now))
	}
}

func TestWithdrawnEvictionsAreGivenBack(t *testing.T) {
	r := limiter.New(limiter.Policy{PerHour: 1, Futile: 1, FutileBackOff: time.Minute, OwnerBackoff: time.Minute})
	r.Evicted("ns", "o", at(0))
	r.Expect(&limiter.Kill{Signal: signals.MemoryAvailable, UID: "a"})
	if r.Spent("ns", false, at(1)).By != limiter.Quota {
		t.Fatal("an eviction that has begun does not count")
	}
	r.Withdrawn("ns", "o", at(0))
	r.Cancel("a")
	if r.Spent("ns", false, at(1)).By != limiter.None || r.Awaiting(signals.MemoryPressure) != nil {
		t.Error("it counts although nobody went")
	}
	for i := range 3 {
		r.Evicted("ns", "o", at(time.Duration(i)*time.Second))
	}
	r.Withdrawn("ns", "o", at(2*time.Second))
	if hold := r.RestartLoop("o", at(3*time.Second)); hold.By != limiter.None {
		t.Errorf("two are no loop: %+v", hold)
	}
}

func TestARestraintThatIsNoneRestrainsNothing(t *testing.T) {
	for name, r := range map[string]*limiter.Limiter{"nil": nil, "zero policy": limiter.New(limiter.Policy{})} {
		for i := range 100 {
			r.Evicted("ns", "o", at(time.Duration(i)))
			r.Expect(&limiter.Kill{})
		}
		now := at(time.Second)
		if r.Spent("ns", false, now) != (limiter.Limit{}) || r.Ineffective(0, now) != (limiter.Limit{}) || r.RestartLoop("o", now) != (limiter.Limit{}) || r.Awaiting(0) != nil {
			t.Errorf("%s: somebody is held", name)
		}
		r.Withdrawn("ns", "o", now)
		r.Cancel("a")
		r.Clear(0)
	}
	if r := limiter.New(limiter.Policy{OwnerBackoff: time.Minute}); true {
		for range 9 {
			r.Evicted("ns", "", start)
		}
		if r.RestartLoop("", start).By != limiter.None {
			t.Error("pods of nobody are held for each other")
		}
	}
}

func TestRestraintThatIsAskedAllocatesNothing(t *testing.T) {
	r := limiter.New(limiter.Policy{PerHour: 3, Futile: 2, FutileBackOff: time.Minute, OwnerBackoff: time.Minute})
	r.Evicted("ns", "o", start)
	if n := testing.AllocsPerRun(100, func() {
		r.Spent("ns", false, start)
		r.Ineffective(signals.MemoryPressure, start)
		r.RestartLoop("o", start)
		r.Awaiting(signals.MemoryPressure)
		r.Clear(signals.MemoryPressure)
		r.Moved()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestHoldsExplainThemselves(t *testing.T) {
	for hold, want := range map[limiter.Limit]string{
		{}: "",
		{By: limiter.Quota, Namespace: "ns", N: 3, Until: at(time.Minute)}:                             "3 evictions within an hour, and namespace ns has used up its share: none of its pods is evicted for 1m0s",
		{By: limiter.Ineffective, Condition: signals.MemoryPressure, N: 2, Until: at(5 * time.Minute)}: "the last 2 evictions for MemoryPressure freed less than half of what their pods used, because usage outside of pods grew: no pod is evicted for 5m0s, unless the pressure ends before",
		{By: limiter.Owner, N: 4, Until: at(90 * time.Second)}:                                         "4 pods of its owner were evicted, one after the other: the pod is spared for 1m30s",
	} {
		if got := hold.Explain(start); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Twenty cheap pods of one namespace use up the hourly quota. Evictions in another namespace do
// not depend on them.
func TestSpent_SharePerNamespace(t *testing.T) {
	r := limiter.New(limiter.Policy{PerHour: 20})
	for i := range 20 {
		if hold := r.Spent("cheap", false, at(time.Duration(i))); hold.By != limiter.None {
			t.Fatalf("eviction %d of the only namespace is held: %+v", i, hold)
		}
		r.Evicted("cheap", "", at(time.Duration(i)))
	}
	now, others := at(time.Minute), 0
	if r.Spent("cheap", false, now).By != limiter.Quota {
		t.Error("the namespace has more than the bound of an hour")
	}
	for r.Spent("hog", false, now).By == limiter.None {
		r.Evicted("hog", "", now)
		others++
	}
	if others != 10 {
		t.Errorf("the other namespace had %d evictions, want half of the bound", others)
	}
	for i := range 40 { // every further namespace has at least one
		name := string(rune('A' + i))
		if hold := r.Spent(name, false, now); hold.By != limiter.None {
			t.Fatalf("the first eviction of namespace %s is held: %+v", name, hold)
		}
		r.Evicted(name, "", now)
	}
}

func TestSpent_UrgentHasItsOwnBound(t *testing.T) {
	r := limiter.New(limiter.Policy{PerHour: 2})
	n := 0
	for ; n < 100 && r.Spent("ns", true, start).By == limiter.None; n++ {
		r.Evicted("ns", "", start)
	}
	if n != 2*limiter.UrgentBounds || r.Spent("ns", false, start).By != limiter.Quota {
		t.Errorf("%d urgent evictions", n)
	}
}

func TestSaved_WithoutNamespaces(t *testing.T) {
	r := limiter.New(limiter.Policy{PerHour: 2})
	r.Restore(limiter.Saved{Evictions: []time.Time{at(0), at(1)}}, at(2))
	if r.Spent("a", false, at(2)).By != limiter.None {
		t.Error("evictions of unknown namespaces hold one that had none")
	}
	r.Evicted("a", "", at(3))
	if r.Spent("a", false, at(3)).By != limiter.Quota {
		t.Error("evictions of unknown namespaces do not count")
	}
}

// Two exhausted signals of one condition are queried in turn.
func TestLasts_SignalsOfOneConditionTakeTurns(t *testing.T) {
	r := limiter.New(limiter.Policy{Futile: 1, FutileBackOff: time.Hour})
	seen := &limiter.Sight{Left: 400, Total: 1000, Shares: shares(400, 100)}
	r.Expect(&limiter.Kill{Signal: signals.NodefsAvailable, UID: "c", Expected: 100, Before: limiter.Sight{Left: 500, Total: 1000, Shares: shares(400, 100)}})
	if hold := r.Judge(signals.DiskPressure, at(0), seen); hold.By != limiter.Ineffective {
		t.Fatalf("not futile: %+v", hold)
	}
	for _, of := range []signals.Signal{signals.NodefsAvailable, signals.NodefsInodesFree} {
		r.Lasts(of, 400, at(time.Second), seen)
	}
	for _, of := range []signals.Signal{signals.NodefsAvailable, signals.NodefsInodesFree} {
		if !r.Lasts(of, 400, at(11*time.Second), seen) {
			t.Errorf("%s: ten seconds without growth are not enough", of)
		}
	}
}

// Growth outside of pods has stopped, or is so fast that it takes half of a pod of 400 within ten
// minutes.
func TestLasts_OnlyWithoutGrowthOutsideOfPods(t *testing.T) {
	for taken, want := range map[signals.Amount]bool{-50: true, 0: true, 3: true, 4: false, 300: false} {
		r := limiter.New(limiter.Policy{Futile: 1, FutileBackOff: time.Hour})
		seen := func(outside signals.Amount) *limiter.Sight {
			return &limiter.Sight{Left: 500 - outside, Total: 1000, Shares: shares(400, 100)}
		}
		r.Expect(&limiter.Kill{Signal: signals.MemoryAvailable, UID: "c", Expected: 100, Before: *seen(0)})
		if hold := r.Judge(signals.MemoryPressure, at(0), seen(100)); hold.By != limiter.Ineffective {
			t.Fatalf("not futile: %+v", hold)
		}
		if r.Lasts(signals.MemoryAvailable, 400, at(0), seen(100)) || r.Lasts(signals.MemoryAvailable, 400, at(9*time.Second), seen(100)) {
			t.Error("growth is not known yet")
		}
		if got := r.Lasts(signals.MemoryAvailable, 400, at(10*time.Second), seen(100+taken)); got != want {
			t.Errorf("%d taken: %v", taken, got)
		}
		if judged(r, at(time.Minute), false).By != limiter.None || r.Ineffective(signals.MemoryPressure, at(time.Minute)).By != limiter.None {
			t.Error("an eviction that helped does not end the hold")
		}
	}
}
