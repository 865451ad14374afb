package evictions_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"plimsoll.dev/plimsoll/lifecycle/evictions"
)

func TestAMomentPastIsDueAtOnce(t *testing.T) {
	timers := evictions.NewTimers()
	timers.Set("a", at(-5))
	if got := timers.Due(at(0)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("due: %q", got)
	}
	if got := timers.Due(at(0)); got != nil || timers.Len() != 0 {
		t.Errorf("due twice: %q, %d left", got, timers.Len())
	}
}

func TestAPodHasOneTimerThatMovesBothWays(t *testing.T) {
	timers := evictions.NewTimers()
	for _, moment := range []int{10, 10, 30, 20} {
		timers.Set("a", at(moment))
	}
	timers.Set("b", at(60))
	timers.Set("b", at(5))
	if next, ok := timers.Next(); !ok || !next.Equal(at(5)) || timers.Len() != 2 {
		t.Errorf("next at %v, %v of %d", next, ok, timers.Len())
	}
	for _, c := range []struct {
		at  int
		due []string
	}{{4, nil}, {5, []string{"b"}}, {19, nil}, {20, []string{"a"}}, {100, nil}} {
		if got := timers.Due(at(c.at)); !slices.Equal(got, c.due) {
			t.Errorf("at %ds due: %q instead of %q", c.at, got, c.due)
		}
	}
}

func TestCalledOff(t *testing.T) {
	timers := evictions.NewTimers()
	timers.Set("a", at(10))
	timers.Set("b", at(10))
	if moment, ok := timers.At("a"); !ok || !moment.Equal(at(10)) {
		t.Errorf("a at %v, %v", moment, ok)
	}
	if !timers.Cancel("a") || timers.Cancel("a") {
		t.Error("a timer is called off once")
	}
	if _, ok := timers.At("a"); ok {
		t.Error("what was called off has a moment")
	}
	if got := timers.Due(at(10)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("due: %q", got)
	}
	if timers.Cancel("b") {
		t.Error("what was due is called off")
	}
	if _, ok := timers.Next(); ok {
		t.Error("no timer, but one is next")
	}
}

func TestDueByMomentThenUID(t *testing.T) {
	timers := evictions.NewTimers()
	for uid, moment := range map[string]int{"d": 1, "c": 2, "b": 2, "a": 3} {
		timers.Set(uid, at(moment))
	}
	if got, want := timers.Due(at(9)), []string{"d", "b", "c", "a"}; !slices.Equal(got, want) {
		t.Errorf("due: %q instead of %q", got, want)
	}
}

func TestTimersAreTheirNaiveTwin(t *testing.T) {
	for i := range 1000 {
		r := rand.New(rand.NewPCG(5, uint64(i)))
		timers, twin := evictions.NewTimers(), map[string]int{}
		for now := range 60 {
			uid, moment := fmt.Sprint(r.IntN(8)), now+r.IntN(12)-3
			switch r.IntN(3) {
			case 0:
				timers.Set(uid, at(moment))
				twin[uid] = moment
			case 1:
				_, there := twin[uid]
				if timers.Cancel(uid) != there {
					t.Fatalf("timeline %d at %d: calling %s off: %v", i, now, uid, !there)
				}
				delete(twin, uid)
			case 2:
				if got, want := timers.Due(at(now)), due(twin, now); !slices.Equal(got, want) {
					t.Fatalf("timeline %d at %d: due %q instead of %q", i, now, got, want)
				}
			}
			if timers.Len() != len(twin) {
				t.Fatalf("timeline %d at %d: %d timers instead of %d", i, now, timers.Len(), len(twin))
			}
		}
	}
}

// due searches a map for the due pods and removes them.
func due(twin map[string]int, now int) (uids []string) {
	for _, uid := range slices.SortedFunc(maps.Keys(twin), func(a, b string) int {
		if twin[a] != twin[b] {
			return twin[a] - twin[b]
		}
		return int(a[0]) - int(b[0])
	}) {
		if twin[uid] <= now {
			uids = append(uids, uid)
		}
	}
	for _, uid := range uids {
		delete(twin, uid)
	}
	return uids
}
