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

func TestLimiter_DetectsIneffectiveEviction(t *testing.T) {
	before := limiter.Observation{Left: 90, Total: 1000, Shares: shares(100, 200, 300)} // a ends, 310 are used outside
	for _, tc := range []struct {
		about    string
		expected signals.Amount
		now      limiter.Observation
		want     bool
	}{
		{"all freed", 100, limiter.Observation{Left: 190, Total: 1000, Shares: shares(100, 200, 300)[1:]}, false},
		{"half freed", 100, limiter.Observation{Left: 140, Total: 1000, Shares: shares(100, 200, 300)[1:]}, false},
		{"less than half freed", 100, limiter.Observation{Left: 139, Total: 1000, Shares: shares(100, 200, 300)[1:]}, true},
		{"less available than before", 100, limiter.Observation{Left: 10, Total: 1000, Shares: shares(100, 200, 300)[1:]}, true},
		{"another pod grew", 100, limiter.Observation{Left: 90, Total: 1000, Shares: shares(100, 300, 300)[1:]}, false},
		{"new pod grew", 100, limiter.Observation{Left: 90, Total: 1000, Shares: append(shares(0, 200, 300)[1:], limiter.Share{UID: "new", Used: 100, Known: true})}, false},
		{"another pod ended, all freed", 100, limiter.Observation{Left: 390, Total: 1000, Shares: shares(0, 200, 300)[2:]}, false},
		{"another pod ended, growth outside", 100, limiter.Observation{Left: 90, Total: 1000, Shares: shares(0, 200, 300)[2:]}, true},
		{"processes remain", 100, limiter.Observation{Left: 90, Total: 1000, Shares: shares(100, 200, 300)}, false},
		{"unmeasured pod", 100, limiter.Observation{Left: 90, Total: 1000, Shares: shares(0, -1, 300)[1:]}, true},
		{"larger capacity", 100, limiter.Observation{Left: 1190, Total: 2000, Shares: shares(0, 200, 300)[1:]}, false},
		{"odd half", 101, limiter.Observation{Left: 140, Total: 1000, Shares: shares(101, 200, 300)[1:]}, true},
		{"unmeasured victim, some freed", 0, limiter.Observation{Left: 191, Total: 1000, Shares: shares(0, 200, 300)[1:]}, false},
		{"extreme values", 100, limiter.Observation{Left: math.MinInt64, Total: math.MaxInt64, Shares: shares(0, math.MaxInt64, math.MaxInt64)[1:]}, true},
	} {
		t.Run(tc.about, func(t *testing.T) {
			r := limiter.New(limiter.Policy{MaxIneffective: 1, IneffectiveBackoff: time.Minute})
			kill := &limiter.Kill{Signal: signals.MemoryAvailable, UID: "a", Expected: tc.expected, Before: before}
			kill.Before.Shares = shares(max(tc.expected, 100), 200, 300)
			kill.Before.Total = before.Total + max(tc.expected, 100) - 100
			now := tc.now
			now.Total = now.Total.Plus(max(tc.expected, 100) - 100)
			r.Expect(kill)
			if r.Awaiting(signals.MemoryPressure) != kill || r.Awaiting(signals.DiskPressure) != nil {
				t.Fatal("Awaiting did not return the eviction, or returned it for another condition")
			}
			limit := r.Evaluate(signals.MemoryPressure, at(0), &now)
			if got := limit.By == limiter.Ineffective; got != tc.want {
				t.Errorf("ineffective: got %v, want %v", got, tc.want)
			}
			if r.Awaiting(signals.MemoryPressure) != nil {
				t.Error("the eviction was not removed by its evaluation")
			}
		})
	}
}

// The page cache of an ended pod stays in use, and is no growth outside of pods.
func TestLimiter_PageCacheOfEndedPodIsNoGrowth(t *testing.T) {
	for left, want := range map[signals.Amount]bool{120: false, 105: false, 104: true} { // 90 before, 30 of 100 to be freed
		r := limiter.New(limiter.Policy{MaxIneffective: 1, IneffectiveBackoff: time.Minute})
		before := limiter.Observation{Left: 90, Total: 1000, Shares: shares(100, 200)}
		before.Shares[0].Kept = 70
		r.Expect(&limiter.Kill{Signal: signals.MemoryAvailable, UID: "a", Expected: 30, Before: before})
		limit := r.Evaluate(signals.MemoryPressure, at(0), &limiter.Observation{Left: left, Total: 1000, Shares: shares(0, 200)[1:]})
		if got := limit.By == limiter.Ineffective; got != want {
			t.Errorf("%d available: ineffective %v, want %v", left, got, want)
		}
	}
}

// An eviction of a pod with unknown usage is ineffective if it freed nothing.
func TestLimiter_UnknownUsageIneffectiveIfNothingFreed(t *testing.T) {
	for left, want := range map[signals.Amount]bool{89: true, 90: true, 91: false} {
		r := limiter.New(limiter.Policy{MaxIneffective: 1, IneffectiveBackoff: time.Minute})
		r.Expect(&limiter.Kill{Signal: signals.PIDAvailable, UID: "a", Before: limiter.Observation{Left: 90, Total: 1000, Shares: shares(-1, 200)}})
		limit := r.Evaluate(signals.PIDPressure, at(0), &limiter.Observation{Left: left, Total: 1000, Shares: shares(0, 200)[1:]})
		if got := limit.By == limiter.Ineffective; got != want {
			t.Errorf("%d available: ineffective %v, want %v", left, got, want)
		}
	}
}

// Two pods are evicted in quick succession, since one is not enough. Usage outside of pods grows
// later. An effective eviction followed by an ineffective one is no sequence of two.
func TestLimiter_AttributesLateGrowthBackwards(t *testing.T) {
	for _, tc := range []struct {
		about string
		left  []signals.Amount // available when the first, the second, … of four pods of 100 each is evaluated; initially 90
		grow  []signals.Amount // growth of the last pod by then
		want  int              // number of evictions until they are ineffective; 0: not within three
	}{
		{"each ineffective by itself", []signals.Amount{90, 90, 90}, []signals.Amount{0, 0, 0}, 2},
		{"both together", []signals.Amount{190, 90, 90}, []signals.Amount{0, 0, 0}, 2},
		{"more than the second freed", []signals.Amount{190, 139, 139}, []signals.Amount{0, 0, 0}, 2},
		{"the second and less than half of the first", []signals.Amount{190, 140, 140}, []signals.Amount{0, 0, 0}, 3},
		{"second effective, growth of pods", []signals.Amount{90, 90, 190}, []signals.Amount{0, 100, 100}, 0},
		{"effective one in between", []signals.Amount{90, 90, 90}, []signals.Amount{0, 100, 100}, 0},
		{"growth decreases again", []signals.Amount{10, 190, 190}, []signals.Amount{0, 0, 0}, 0},
	} {
		r := limiter.New(limiter.Policy{MaxIneffective: 2, IneffectiveBackoff: time.Minute})
		seen := limiter.Observation{Left: 90, Total: 1000, Shares: shares(100, 100, 100, 100)}
		got := 0
		for i := 0; i < 3 && got == 0; i++ {
			r.Expect(&limiter.Kill{Signal: signals.MemoryAvailable, UID: seen.Shares[0].UID, Expected: 100, Before: seen})
			rest := shares(100, 100, 100, 100+tc.grow[i])[i+1:]
			seen = limiter.Observation{Left: tc.left[i], Total: 1000, Shares: rest}
			if r.Evaluate(signals.MemoryPressure, at(0), &seen).By == limiter.Ineffective {
				got = i + 1
			}
		}
		if got != tc.want {
			t.Errorf("%s: ineffective after %d, want %d", tc.about, got, tc.want)
		}
	}
}

// evaluated records an eviction and evaluates it.
func evaluated(r *limiter.Limiter, now time.Time, ineffective bool) limiter.Limit {
	r.Expect(&limiter.Kill{Signal: signals.MemoryAvailable, UID: "a", Expected: 100, Before: limiter.Observation{Total: 1000, Shares: shares(100)}})
	left := signals.Amount(100)
	if ineffective {
		left = 0
	}
	return r.Evaluate(signals.MemoryPressure, now, &limiter.Observation{Left: left, Total: 1000})
}

func TestLimiter_IneffectiveBackoffDoublesUpToAnHour(t *testing.T) {
	r := limiter.New(limiter.Policy{MaxIneffective: 2, IneffectiveBackoff: 5 * time.Minute})
	if limit := evaluated(r, at(0), true); limit != (limiter.Limit{}) {
		t.Fatalf("limited after one ineffective eviction: %+v", limit)
	}
	now := start
	for i, want := range []time.Duration{5, 10, 20, 40, 60, 60, 60} {
		limit := evaluated(r, now, true)
		if got := limit.Until.Sub(now); got != want*time.Minute || limit.N != i+2 {
			t.Errorf("limit %d lasts %s, after %d evictions", i, got, limit.N)
		}
		if r.Ineffective(signals.MemoryPressure, limit.Until.Add(-1)).By != limiter.Ineffective || r.Ineffective(signals.MemoryPressure, limit.Until).By != limiter.None {
			t.Errorf("limit %d does not end at Until", i)
		}
		if r.Ineffective(signals.DiskPressure, now).By != limiter.None {
			t.Error("DiskPressure is limited for MemoryPressure")
		}
		now = limit.Until
	}
	if evaluated(r, now, false).By != limiter.None || evaluated(r, now, true).By != limiter.None {
		t.Error("an effective eviction did not end the sequence")
	}
	if limit := evaluated(r, now, true); limit.Until.Sub(now) != time.Hour || limit.N != 2 {
		t.Errorf("under the same pressure the next limit lasts %s, want 1h", limit.Until.Sub(now))
	}
	if !r.Clear(signals.MemoryPressure) || r.Ineffective(signals.MemoryPressure, now).By != limiter.None || r.Clear(signals.MemoryPressure) {
		t.Error("a limit remained after the end of the pressure")
	}
	evaluated(r, now, true)
	if limit := evaluated(r, now, true); limit.Until.Sub(now) != 5*time.Minute {
		t.Errorf("under the next pressure the first limit lasts %s, want 5m", limit.Until.Sub(now))
	}
}

func TestLimiter_WithdrawnEvictionIsNotCounted(t *testing.T) {
	r := limiter.New(limiter.Policy{PerHour: 1, MaxIneffective: 1, IneffectiveBackoff: time.Minute, OwnerBackoff: time.Minute})
	r.Evicted("ns", "o", at(0))
	r.Expect(&limiter.Kill{Signal: signals.MemoryAvailable, UID: "a"})
	if r.Spent("ns", false, at(1)).By != limiter.Quota {
		t.Fatal("an eviction in flight does not count")
	}
	r.Withdrawn("ns", "o", at(0))
	r.Cancel("a")
	if r.Spent("ns", false, at(1)).By != limiter.None || r.Awaiting(signals.MemoryPressure) != nil {
		t.Error("a withdrawn eviction counts")
	}
	for i := range 3 {
		r.Evicted("ns", "o", at(time.Duration(i)*time.Second))
	}
	r.Withdrawn("ns", "o", at(2*time.Second))
	if limit := r.RestartLoop("o", at(3*time.Second)); limit.By != limiter.None {
		t.Errorf("limited after two evictions: %+v", limit)
	}
}

func TestLimiter_NilAndZeroPolicyLimitNothing(t *testing.T) {
	for name, r := range map[string]*limiter.Limiter{"nil": nil, "zero policy": limiter.New(limiter.Policy{})} {
		for i := range 100 {
			r.Evicted("ns", "o", at(time.Duration(i)))
			r.Expect(&limiter.Kill{})
		}
		now := at(time.Second)
		if r.Spent("ns", false, now) != (limiter.Limit{}) || r.Ineffective(0, now) != (limiter.Limit{}) || r.RestartLoop("o", now) != (limiter.Limit{}) || r.Awaiting(0) != nil {
			t.Errorf("%s: an eviction is limited", name)
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
			t.Error("pods without an owner are limited")
		}
	}
}

func TestLimiter_QueriesDoNotAllocate(t *testing.T) {
	r := limiter.New(limiter.Policy{PerHour: 3, MaxIneffective: 2, IneffectiveBackoff: time.Minute, OwnerBackoff: time.Minute})
	r.Evicted("ns", "o", start)
	if n := testing.AllocsPerRun(100, func() {
		r.Spent("ns", false, start)
		r.Ineffective(signals.MemoryPressure, start)
		r.RestartLoop("o", start)
		r.Awaiting(signals.MemoryPressure)
		r.Clear(signals.MemoryPressure)
		r.Changed()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLimit_ExplainsCause(t *testing.T) {
	for limit, want := range map[limiter.Limit]string{
		{}: "",
		{By: limiter.Quota, Namespace: "ns", N: 3, Until: at(time.Minute)}:                             "3 evictions within an hour, and namespace ns has used up its share: none of its pods is evicted for 1m0s",
		{By: limiter.Ineffective, Condition: signals.MemoryPressure, N: 2, Until: at(5 * time.Minute)}: "the last 2 evictions for MemoryPressure freed less than half of what their pods used, because usage outside of pods grew: no pod is evicted for 5m0s, unless the pressure ends before",
		{By: limiter.Owner, N: 4, Until: at(90 * time.Second)}:                                         "4 pods of its owner were evicted in a row: no further one for 1m30s, unless less than half of a hard threshold is left or memory is about to run out",
	} {
		if got := limit.Explain(start); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Twenty cheap pods of one namespace use up the hourly quota. Evictions in another namespace do
// not depend on them.
func TestSpent_SharePerNamespace(t *testing.T) {
	r := limiter.New(limiter.Policy{PerHour: 20})
	for i := range 20 {
		if limit := r.Spent("cheap", false, at(time.Duration(i))); limit.By != limiter.None {
			t.Fatalf("eviction %d of the only namespace is limited: %+v", i, limit)
		}
		r.Evicted("cheap", "", at(time.Duration(i)))
	}
	now, others := at(time.Minute), 0
	if r.Spent("cheap", false, now).By != limiter.Quota {
		t.Error("the namespace exceeds the hourly quota")
	}
	for r.Spent("hog", false, now).By == limiter.None {
		r.Evicted("hog", "", now)
		others++
	}
	if others != 10 {
		t.Errorf("the other namespace had %d evictions, want half of the quota", others)
	}
	for i := range 40 { // every further namespace has at least one
		name := string(rune('A' + i))
		if limit := r.Spent(name, false, now); limit.By != limiter.None {
			t.Fatalf("the first eviction of namespace %s is limited: %+v", name, limit)
		}
		r.Evicted(name, "", now)
	}
}

func TestSpent_UrgentHasSeparateQuota(t *testing.T) {
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
		t.Error("evictions of unknown namespaces limit a namespace without evictions")
	}
	r.Evicted("a", "", at(3))
	if r.Spent("a", false, at(3)).By != limiter.Quota {
		t.Error("evictions of unknown namespaces do not count")
	}
}

// Two exhausted signals of one condition are queried alternately.
func TestLasts_SignalsOfOneConditionTakeTurns(t *testing.T) {
	r := limiter.New(limiter.Policy{MaxIneffective: 1, IneffectiveBackoff: time.Hour})
	seen := &limiter.Observation{Left: 400, Total: 1000, Shares: shares(400, 100)}
	r.Expect(&limiter.Kill{Signal: signals.NodefsAvailable, UID: "c", Expected: 100, Before: limiter.Observation{Left: 500, Total: 1000, Shares: shares(400, 100)}})
	if limit := r.Evaluate(signals.DiskPressure, at(0), seen); limit.By != limiter.Ineffective {
		t.Fatalf("not ineffective: %+v", limit)
	}
	for _, of := range []signals.Signal{signals.NodefsAvailable, signals.NodefsInodesFree} {
		r.HasLastingEffect(of, 400, at(time.Second), seen)
	}
	for _, of := range []signals.Signal{signals.NodefsAvailable, signals.NodefsInodesFree} {
		if !r.HasLastingEffect(of, 400, at(11*time.Second), seen) {
			t.Errorf("%s: Lasts returned false after 10 s without growth", of)
		}
	}
}

// Growth outside of pods has stopped, or is so fast that it fills half of a pod of 400 within ten
// minutes.
func TestLasts_OnlyWithoutGrowthOutsideOfPods(t *testing.T) {
	for taken, want := range map[signals.Amount]bool{-50: true, 0: true, 3: true, 4: false, 300: false} {
		r := limiter.New(limiter.Policy{MaxIneffective: 1, IneffectiveBackoff: time.Hour})
		seen := func(outside signals.Amount) *limiter.Observation {
			return &limiter.Observation{Left: 500 - outside, Total: 1000, Shares: shares(400, 100)}
		}
		r.Expect(&limiter.Kill{Signal: signals.MemoryAvailable, UID: "c", Expected: 100, Before: *seen(0)})
		if limit := r.Evaluate(signals.MemoryPressure, at(0), seen(100)); limit.By != limiter.Ineffective {
			t.Fatalf("not ineffective: %+v", limit)
		}
		if r.HasLastingEffect(signals.MemoryAvailable, 400, at(0), seen(100)) || r.HasLastingEffect(signals.MemoryAvailable, 400, at(9*time.Second), seen(100)) {
			t.Error("Lasts returned true before the growth was known")
		}
		if got := r.HasLastingEffect(signals.MemoryAvailable, 400, at(10*time.Second), seen(100+taken)); got != want {
			t.Errorf("growth of %d: got %v, want %v", taken, got, want)
		}
		if evaluated(r, at(time.Minute), false).By != limiter.None || r.Ineffective(signals.MemoryPressure, at(time.Minute)).By != limiter.None {
			t.Error("an effective eviction did not end the limit")
		}
	}
}

// Another policy applies at once, and no record is lost, also while a limit is off.
func TestSetPolicy_KeepsRecord(t *testing.T) {
	all := limiter.Policy{PerHour: 2, MaxIneffective: 2, IneffectiveBackoff: 10 * time.Minute, OwnerBackoff: 10 * time.Minute}
	r := limiter.New(limiter.Policy{MaxIneffective: 2, IneffectiveBackoff: 10 * time.Minute, OwnerBackoff: 10 * time.Minute})
	for i := range 3 {
		r.Evicted("ns", "o", at(time.Duration(i)*time.Second))
		evaluated(r, at(time.Duration(i)*time.Second), true)
	}
	now := at(time.Minute)
	limits := func() (by [3]limiter.Cause) {
		return [3]limiter.Cause{r.Spent("ns", false, now).By, r.Ineffective(signals.MemoryPressure, now).By, r.RestartLoop("o", now).By}
	}
	every := [3]limiter.Cause{limiter.Quota, limiter.Ineffective, limiter.Owner}
	for _, tc := range []struct {
		about string
		p     limiter.Policy
		want  [3]limiter.Cause
	}{
		{"a quota after the evictions", all, every},
		{"larger quota", limiter.Policy{PerHour: 4, MaxIneffective: 2, IneffectiveBackoff: time.Minute, OwnerBackoff: time.Minute}, [3]limiter.Cause{limiter.None, limiter.Ineffective, limiter.Owner}},
		{"all off", limiter.Policy{}, [3]limiter.Cause{}},
		{"on again", all, every},
	} {
		r.SetPolicy(tc.p)
		if got := limits(); got != tc.want || r.Policy() != tc.p {
			t.Errorf("%s: limited by %v, want %v", tc.about, got, tc.want)
		}
	}
	if limit := r.RestartLoop("o", now); !limit.Until.Equal(at(2*time.Second + 10*time.Minute)) {
		t.Errorf("the backoff of the owner ends at %s", limit.Until)
	}
}

// An effect that waits for its evaluation while that is switched off is never evaluated, and counts for no
// later limit.
func TestSetPolicy_DropsPendingEffect(t *testing.T) {
	p := limiter.Policy{MaxIneffective: 1, IneffectiveBackoff: time.Minute}
	r := limiter.New(p)
	r.Expect(&limiter.Kill{Signal: signals.MemoryAvailable, UID: "a", Expected: 100, Before: limiter.Observation{Total: 1000, Shares: shares(100)}})
	r.SetPolicy(limiter.Policy{})
	if r.Awaiting(signals.MemoryPressure) != nil {
		t.Error("an effect is awaited while none is evaluated")
	}
	r.SetPolicy(p)
	if r.Awaiting(signals.MemoryPressure) != nil || len(r.Save().Conditions) != 0 {
		t.Errorf("the effect is still stored: %+v", r.Save())
	}
	var none *limiter.Limiter
	none.SetPolicy(p)
	if none.Policy() != (limiter.Policy{}) {
		t.Error("no limiter has a policy")
	}
}
